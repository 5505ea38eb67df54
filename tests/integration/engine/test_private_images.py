"""Private images on both markets: the right login runs, any other is one clear error, and no login is left behind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from autopilot.agent.unpack import AgentUnpacker
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService
from autopilot.api.submissions import Sent
from autopilot.blobs.local import LocalBlobStore
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobSpec, JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.registry import RegistryLogin
from autopilot.domain.token import Token
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.engine.registry_logins import RegistryAccess
from autopilot.ids import UlidIds
from autopilot.ports.provider import Plugin
from autopilot.ports.store import EventRecord, Store
from autopilot.providers import runpod, vastai
from autopilot.service.wiring import AgentBootstrap
from autopilot.store.database import open_store
from autopilot_lab.sandbox.private_images import Login, PrivateImage
from autopilot_lab.sandbox.runpod import registries
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from autopilot_lab.sandbox.vastai import offers
from tests.builders import START
from tests.contract.harness import QuickClock
from tests.integration.engine.engine_world import LIMITS
from tests.patience import PATIENCE_S

INSTALL_ID = "install1"
KEY = b"k" * 32
PASSWORD = "sentinel-of-the-registry+/=&"
JOB = """
name = "train"
image = "ghcr.io/me/train:1"
run = "python train.py"
[resources]
gpu = "4090"
[work]
estimate = "10m"
"""
LOGIN = '[registry]\nserver = "ghcr.io"\nuser = "me"\npassword = "ghcr"\n'
MARKETS: dict[str, tuple[Plugin, str]] = {
    "vastai": (vastai.plugin, "sandbox-key"),
    "runpod": (runpod.plugin, "runpod-sandbox-key"),
}


@dataclass
class Place:
    market: str
    clock: QuickClock
    sandbox: Sandbox
    store: Store
    engine: Engine
    jobs: JobService
    root: Path
    passwords: dict[str, str]

    async def submit(self, registry: str = LOGIN) -> str:
        sent = [Sent(JOB + registry, "job.toml")]
        made = await self.jobs.submissions.submit(sent, itemgetter(0), dry_run=False, owner=1000, again=True)
        return str(made["job"]["id"])

    async def tick(self, times: int = 1, apart_s: float = 15.0) -> None:
        for _ in range(times):
            self.sandbox.synchronise()
            await self.engine.tick()
            self.clock.advance(apart_s)

    async def job(self, job_id: str) -> Job:
        async with self.store.snapshot() as uow:
            job = await uow.jobs.find(job_id)
        assert job is not None
        return job

    async def events(self, job_id: str) -> tuple[EventRecord, ...]:
        async with self.store.snapshot() as uow:
            return await uow.events.list_by_job(job_id)

    def names(self) -> list[str]:
        return [each.name for each in self.sandbox.runpod.registries.held.values()]

    def rented(self) -> int:
        return len(self.sandbox.market.live()) + len(self.sandbox.runpod.live())


@asynccontextmanager
async def a_place(market: str, root: Path) -> AsyncIterator[Place]:
    clock = QuickClock(START)
    private = PrivateImage("ghcr.io/me/train", "me", PASSWORD)
    config = SandboxConfig(state_dir=root / "market", real_processes=False, private_images=(private,))
    async with running_sandbox(config, clock) as sandbox:
        plugin, key = MARKETS[market]
        provider = plugin.connect({"base_url": sandbox.url, "api_key": key, "timeout_s": PATIENCE_S}, clock)
        store, ids = await open_store(str(root / "ledger.db")), UlidIds(clock)
        blobs = LocalBlobStore(root / "blobs", b"k" * 32, "http://127.0.0.1:1")
        passwords = {"ghcr": PASSWORD}

        def password(name: str, server: str) -> str:
            if name not in passwords:
                raise UserError(f"there is no registry secret named {name!r}")
            return passwords[name]

        engine = Engine(
            EngineConfig(INSTALL_ID, LIMITS, Params()),
            {market: provider},
            store,
            blobs,
            await AgentBootstrap.prepare(blobs),
            AgentUnpacker(),
            clock,
            ids,
            registry=RegistryAccess(password, KEY),
        )

        def read(text: str, source: str, now: datetime, token: Token | None) -> JobSpec:
            return parse_job(text, source=source, now=now)

        code = CodeService(store, blobs, AgentUnpacker(), clock, ids)
        jobs = JobService(engine, store, blobs, clock, ids, read, change_spec, lambda: None, code)
        yield Place(market, clock, sandbox, store, engine, jobs, root, passwords)
        await engine.calls.settle_for(PATIENCE_S)
        await provider.close()
        await store.close()


@pytest.fixture(params=[*MARKETS])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Place]:
    """On the market that keeps logins."""
    async with a_place("runpod", tmp_path) as made:
        yield made


@pytest.mark.slow
async def test_the_right_login_pulls_the_image(place: Place) -> None:
    job_id = await place.submit()
    await place.tick(8)
    main = (await place.job(job_id)).main
    assert main is not None
    assert main.has_run


@pytest.mark.slow
@pytest.mark.parametrize("registry", [LOGIN, ""], ids=["wrong", "missing"])
async def test_another_login_is_one_clear_error_and_costs_nothing_more(place: Place, registry: str) -> None:
    place.passwords["ghcr"] = "wrong"
    job_id = await place.submit(registry)
    await place.tick()
    for _ in range(8):
        if (await place.job(job_id)).status is JobStatus.PARKED:
            break
        await place.tick()
    job = await place.job(job_id)
    assert (job.status, job.reason) == (JobStatus.PARKED, Reason.IMAGE_LOGIN_REFUSED)
    said = [event for event in await place.events(job_id) if event.name == "image.login_refused"]
    assert len(said) == 1
    fields = dict(said[0].fields)
    assert fields["server"] == "ghcr.io"
    assert fields["secret"] == ("ghcr" if registry else None)
    assert ("denied" if registry else "unauthorized") in str(fields["message"])
    await place.tick(4)
    assert place.rented() == 0
    assert all(lease.state is LeaseState.GONE for lease in (await place.job(job_id)).leases)
    assert job.launches == 1, "no other machine is tried with a login that is wrong"


@pytest.mark.slow
async def test_the_refusal_is_seen_in_the_first_tick_after_the_market_shows_it(place: Place) -> None:
    place.passwords["ghcr"] = "wrong"
    job_id = await place.submit()
    await place.tick(1, apart_s=60)
    assert (await place.job(job_id)).status is JobStatus.STARTING
    await place.tick()
    assert (await place.job(job_id)).reason is Reason.IMAGE_LOGIN_REFUSED


@pytest.mark.slow
async def test_a_job_goes_on_once_the_secret_is_mended(place: Place) -> None:
    place.passwords["ghcr"] = "wrong"
    job_id = await place.submit()
    await place.tick(6)
    place.passwords["ghcr"] = PASSWORD
    await place.jobs.resume(job_id)
    await place.tick(10)
    main = (await place.job(job_id)).main
    assert main is not None
    assert main.has_run


@pytest.mark.slow
async def test_a_secret_that_is_gone_parks_the_job_before_anything_is_rented(place: Place) -> None:
    job_id = await place.submit()
    place.passwords.clear()
    await place.tick(2)
    job = await place.job(job_id)
    assert (job.status, job.reason) == (JobStatus.PARKED, Reason.IMAGE_LOGIN_REFUSED)
    assert place.rented() == 0


@pytest.mark.slow
async def test_a_host_that_says_the_password_back_is_not_quoted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def say_it(private: object, image: str, login: Login | None) -> str:
        return f"login of {login and login.user} with {login and login.password}: denied: denied"

    for module in (offers, registries):
        monkeypatch.setattr(module, "refusal", say_it)
    job_id = await place.submit()
    await place.tick(8)
    said = next(event for event in await place.events(job_id) if event.name == "image.login_refused")
    assert str(dict(said.fields)["message"]).endswith("login of me with [password]: denied: denied")


async def test_the_password_is_in_no_row_and_no_file(place: Place) -> None:
    await place.submit()
    await place.tick(8)
    await place.store.close()
    for path in [*place.root.glob("ledger.db*"), *(place.root / "blobs").rglob("*")]:
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


@pytest.mark.slow
async def test_a_kept_login_is_noted_before_it_is_made_and_deleted_when_no_job_uses_it(
    keeper: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = RegistryLogin("ghcr.io", "me", PASSWORD).name(INSTALL_ID, KEY)
    assert name.startswith(f"ap1.{INSTALL_ID}.")
    noted: list[Any] = []
    save = keeper.sandbox.runpod.registries.save

    def look_first(*given: Any) -> Any:
        with sqlite3.connect(keeper.root / "ledger.db") as ledger:
            rows = ledger.execute("SELECT value FROM notes WHERE key = 'registry_logins.runpod'").fetchall()
        noted.append([json.loads(value) for (value,) in rows])
        return save(*given)

    monkeypatch.setattr(keeper.sandbox.runpod.registries, "save", look_first)
    first, second = await keeper.submit(), await keeper.submit()
    await keeper.tick(3)
    assert noted == [[{name: None}]], "made once, for both jobs, after its intent"
    assert keeper.names() == [name]
    await keeper.jobs.cancel(first)
    await keeper.tick(4)
    assert keeper.names() == [name], "the second job uses it"
    await keeper.jobs.cancel(second)
    await keeper.tick(6)
    assert keeper.names() == []
    async with keeper.store.snapshot() as uow:
        assert await uow.notes.get("registry_logins.runpod") == "{}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["effect_then_reset", "effect_then_500"])
async def test_a_login_whose_making_was_not_answered_is_found_by_its_name(keeper: Place, kind: str) -> None:
    await keeper.tick()
    fault = {"on": "v2.registries", "kind": kind}
    async with ClientSession() as http, http.post(f"{keeper.sandbox.url}/_emu/runpod/fault", json=fault) as answer:
        assert answer.status == 200
    job_id = await keeper.submit()
    await keeper.tick(10)
    assert len(keeper.names()) == 1
    job = await keeper.job(job_id)
    assert job.main is not None
    assert job.main.has_run
    assert job.launches == 1


@pytest.mark.slow
async def test_a_login_that_a_killed_daemon_had_made_is_found_and_not_made_twice(keeper: Place) -> None:
    name = RegistryLogin("ghcr.io", "me", PASSWORD).name(INSTALL_ID, KEY)
    async with keeper.store.transaction() as uow:
        await uow.notes.set("registry_logins.runpod", json.dumps({name: None}))
    keeper.sandbox.runpod.registries.save(name, "me", PASSWORD, None)
    job_id = await keeper.submit()
    await keeper.tick(8)
    assert keeper.names() == [name]
    assert (await keeper.job(job_id)).launches == 1


async def test_ours_that_no_ledger_knows_are_deleted_and_others_are_never_touched(keeper: Place) -> None:
    registries = keeper.sandbox.runpod.registries
    others = ["mine", "ap1.install2.0123", "ap1.install11.0123", f"AP1.{INSTALL_ID}.0123"]
    for name in [*others, f"ap1.{INSTALL_ID}.{'0' * 32}"]:
        registries.save(name, "u", "p", None)
    await keeper.tick()
    assert keeper.names() == others


@pytest.mark.slow
async def test_a_login_that_somebody_deleted_is_made_again(keeper: Place) -> None:
    first = await keeper.submit()
    await keeper.tick(4)
    keeper.sandbox.runpod.registries.held.clear()
    second = await keeper.submit()
    await keeper.tick(20)
    assert (await keeper.job(first)).status is not JobStatus.FAILED
    main = (await keeper.job(second)).main
    assert main is not None
    assert main.has_run
    assert len(keeper.names()) == 1
