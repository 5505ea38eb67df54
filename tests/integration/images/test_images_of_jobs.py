"""What an image requires is known before a job is accepted and before a machine is rented, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import itemgetter
from typing import Any

import pytest
from aiohttp import web

from autopilot.api.submissions import Sent
from autopilot.domain.errors import UserError
from autopilot.domain.image import ImageFacts
from autopilot.domain.registry import Registry, RegistryLogin
from autopilot.engine import images as engine_images
from autopilot.engine.images import AGAIN_AFTER, FRESH_FOR, Images
from autopilot.images.reader import RegistryReader
from autopilot.ports.images import NotRead
from tests.builders import START, a_job, a_spec
from tests.contract.harness import QuickClock
from tests.integration.service.test_what_exists import Shop, an_open_shop
from tests.patience import eventually
from tests.registry import Content, TokenRegistry, token_registry

REQUIRED = ["NVIDIA_REQUIRE_CUDA=cuda>=12.8"]
JOB = """
name = "train"
{top}
image = "{image}"
run = "sleep 1"
[resources]
gpu = "4090"
[work]
estimate = "10m"
[deadline]
within = "9h"
"""


@pytest.fixture
async def registry() -> AsyncIterator[TokenRegistry]:
    content = Content()
    content.add_image("1", Env=REQUIRED)
    async with token_registry(content) as running:
        yield running


@dataclass
class Held:
    """A registry that answers no manifest before it is let go."""

    registry: TokenRegistry
    may_answer: asyncio.Event

    @classmethod
    def at(cls, registry: TokenRegistry) -> Held:
        held = cls(registry, asyncio.Event())
        registry.instead["/v2/"] = held.answer
        return held

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await self.may_answer.wait()
        del self.registry.instead["/v2/"]
        return await self.registry.handle(request)


def spec_of(registry: TokenRegistry, tag: str = "1") -> Any:
    return a_spec(image=f"{registry.place}/me/train:{tag}")


def images_of(registry: TokenRegistry, clock: QuickClock | None = None) -> Images:
    def login(spec: Any) -> RegistryLogin:
        raise UserError("there is no registry secret of that name")

    return Images(RegistryReader([registry.place]), login, clock or QuickClock(START))


async def submit(shop: Shop, image: str, *, dry_run: bool = False, top: str = "", least: float = 0.8) -> Any:
    sent = [Sent(JOB.format(image=image, top=top), "job.toml")]
    how: Any = {"owner": 1000, "dry_run": dry_run, "least_probability": least}
    return await shop.jobs.submissions.submit(sent, itemgetter(0), **how)


async def test_a_tag_that_is_not_there_is_refused_before_it_costs_a_machine(registry: TokenRegistry) -> None:
    image, absent = f"{registry.place}/me/train:1", f"{registry.place}/me/train:typo"
    async with an_open_shop("vastai", RegistryReader([registry.place])) as shop:
        said = f"image: {registry.place} has no tag 'typo' of me/train (manifest unknown)"
        planned = (await submit(shop, absent, dry_run=True))["plan"]
        assert (planned["verdict"], planned["refusal"]) == ("infeasible", said)
        with pytest.raises(UserError) as refused:
            await submit(shop, absent)
        assert refused.value.message == said
        assert "--min-probability 0 accepts the job" in refused.value.hint
        first = (await submit(shop, image))["job"]["id"]
        assert said in (await submit(shop, absent, least=0))["plan"]["notes"]
        waits = (await submit(shop, absent, dry_run=True, top=f'after = ["{first}"]'))["plan"]
        assert waits["refusal"] is None, "the other job may be the one that makes it"
        assert said in waits["notes"]


async def test_a_registry_that_says_nothing_refuses_nothing(registry: TokenRegistry) -> None:
    registry.is_public = False
    async with an_open_shop("vastai", RegistryReader([registry.place])) as shop:
        answer = await submit(shop, f"{registry.place}/me/train:1")
    assert answer["job"]["status"] == "pending"
    said = f"what the image requires is not known ({registry.place}: it does not give the image without a login"
    assert any(note.startswith(said) for note in answer["plan"]["notes"])


async def test_a_slow_registry_holds_a_submit_up_for_a_bounded_time(
    registry: TokenRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_images, "WAIT_REAL_S", 0.05)
    held, images, spec = Held.at(registry), images_of(registry), spec_of(registry)
    assert await images.ask(spec) == NotRead("its registry has not answered yet")
    await images.prepare([a_job(spec=spec)])
    assert images.facts_of(spec) is None
    held.may_answer.set()
    await eventually(lambda: images.facts_of(spec), "it is read in the background")
    assert len(registry.logins) == 1, "it was asked once"


async def test_the_first_tick_knows_it_before_anything_is_rented(registry: TokenRegistry) -> None:
    images, spec = images_of(registry), spec_of(registry)
    await images.prepare([a_job(spec=spec)])
    facts = images.facts_of(spec)
    assert facts is not None
    assert str(facts.require()) == "cuda>=12.8"


async def test_a_digest_is_asked_for_again_in_time_and_kept_while_a_registry_is_silent(registry: TokenRegistry) -> None:
    clock = QuickClock(START)
    images, job = images_of(registry, clock), a_job(spec=spec_of(registry))
    await images.prepare([job])
    before = images.facts_of(job.spec)
    seen = len(registry.seen)
    await images.prepare([job])
    assert len(registry.seen) == seen
    registry.content.add_image("1", Env=["NVIDIA_REQUIRE_CUDA=cuda>=13.0"])
    await clock.sleep((FRESH_FOR + timedelta(seconds=1)).total_seconds())
    assert images.facts_of(job.spec) == before
    await images.ask(job.spec)
    after = images.facts_of(job.spec)
    assert after is not None
    assert str(after.require()) == "cuda>=13.0"
    registry.is_public = False
    await clock.sleep((FRESH_FOR + timedelta(seconds=1)).total_seconds())
    assert await images.ask(job.spec) == after


async def test_a_tag_that_appears_is_found(registry: TokenRegistry) -> None:
    clock = QuickClock(START)
    images, spec = images_of(registry, clock), spec_of(registry, "2")
    await images.ask(spec)
    registry.content.add_image("2")
    await images.ask(spec)
    assert images.facts_of(spec) is None
    await clock.sleep((AGAIN_AFTER + timedelta(seconds=1)).total_seconds())
    assert isinstance(await images.ask(spec), ImageFacts)


async def test_without_its_password_a_private_image_is_not_asked_for(registry: TokenRegistry) -> None:
    spec = replace(spec_of(registry), registry=Registry(registry.place, "me", "no-such-secret"))
    assert await images_of(registry).ask(spec) == NotRead("there is no registry secret of that name")
    assert registry.seen == []
