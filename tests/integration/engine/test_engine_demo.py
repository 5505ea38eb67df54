"""The decisions that the demo rests on, at its own prices and blows, without its processes and in virtual time.

As real processes it is played by ``tests/acceptance/test_demo.py``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config.paths import packaged_config
from autopilot.ports.provider import Provider
from autopilot.providers import registry
from autopilot_lab.demo.all_markets import ALL_MARKETS
from autopilot_lab.demo.script import Script, Story
from autopilot_lab.demo.theatre import KEYS, Theatre
from autopilot_lab.demo.two_markets import TWO_MARKETS
from tests.integration.engine.engine_agents import Agents
from tests.integration.engine.engine_world import D, World, a_world
from tests.integration.engine.mithril_world import MithrilAgents
from tests.integration.engine.nebius_world import NebiusAgents
from tests.integration.engine.nebius_world import connect as connect_nebius

MOST_TICKS = 240
"""An hour of market time: the acts take half of it."""


LONG_WORK = 24 * 3600
"""Steps, of a second each: no job ends here."""


class TwoMarketsWorld(World):
    """``TWO_MARKETS``' daemon."""

    def connect_others(self) -> tuple[Provider, ...]:
        settings = {"base_url": self.sandbox.url, "api_key": KEYS["runpod"], "timeout_s": self.timeout_s}
        return (registry.connect("runpod", settings, self.clock),)


class AllMarketsWorld(World):
    """``ALL_MARKETS``' daemon. Machines say nothing of notices here."""

    async def start(self) -> None:
        if not isinstance(self.agents, AllAgents):
            self.agents = AllAgents(self)
        await super().start()

    def connect_others(self) -> tuple[Provider, ...]:
        settings = {"base_url": self.sandbox.url, "api_key": KEYS["mithril"], "timeout_s": self.timeout_s}
        return registry.connect("mithril", settings, self.clock), connect_nebius(self)


class AllAgents(Agents):
    """Those of each market."""

    def __init__(self, world: World) -> None:
        super().__init__(world.blobs, world.market)
        self._others = MithrilAgents(self, world.sandbox.mithril), NebiusAgents(self, world.sandbox.nebius)
        for each in self._others:
            each.total_steps = LONG_WORK

    async def act(self, now: datetime) -> None:
        await super().act(now)
        for each in self._others:
            await each.act(now)


async def unanswered(world: World, story: Story, root: Path) -> list[str]:
    """Plays the acts; returns the titles of those whose answer did not come."""
    stage = Theatre(root, seed=1, speed=1)
    stage.market_url = world.sandbox.url
    await asyncio.to_thread(story.set_stage, stage)
    world.agents.total_steps = LONG_WORK
    await world.tick()
    await world.submit((packaged_config().parent / "jobs" / f"{story.job}.toml").read_text())
    script = Script(stage, story.acts)
    for _ in range(MOST_TICKS):
        body = await world.jobs.show(world.job_id)
        if script.is_over and script.is_answered(body):
            return []
        await asyncio.to_thread(script.play, body, world.clock.now())
        await world.tick()
    return [act.title for act in story.acts[max(len(script.struck) - 1, 0) :]]


async def costs_when_outbid(world: World) -> tuple[Decimal, Decimal]:
    """What a raise and what leaving would have cost, $ to the end of the job, as the first outbid was decided upon."""
    notes = [note for each in (await world.jobs.why(world.job_id, limit=100))["decisions"] for note in each["notes"]]
    numbers = [note["numbers"] for note in notes if note["topic"] == "paused"][-1]
    return D(numbers["cost_of_rebid"]), D(numbers["cost_of_leaving"])


@pytest.mark.slow
async def test_the_raise_of_the_demo_costs_less_than_leaving_with_room_to_spare(tmp_path: Path) -> None:
    """It must hold on slow machines, too: the acts that follow need the machine that was won back."""
    story = replace(TWO_MARKETS, acts=TWO_MARKETS.acts[:1])
    assert story.acts[-1].name == "outbid"
    async with a_world(tmp_path, kind=TwoMarketsWorld) as world:
        assert await unanswered(world, story, tmp_path) == [], await world.story()
        raising, leaving = await costs_when_outbid(world)
        assert raising * D("1.1") < leaving


@pytest.mark.slow
async def test_each_blow_of_the_demo_gets_its_answer(tmp_path: Path) -> None:
    async with a_world(tmp_path, kind=TwoMarketsWorld) as world:
        assert await unanswered(world, TWO_MARKETS, tmp_path) == [], await world.story()


@pytest.mark.slow
async def test_each_market_of_the_long_demo_is_where_the_job_goes_next(tmp_path: Path) -> None:
    acts = tuple(
        replace(act, answer=tuple(name for name in act.answer if name != "lease.notice")) for act in ALL_MARKETS.acts
    )
    story = replace(ALL_MARKETS, acts=acts)
    async with a_world(tmp_path, kind=AllMarketsWorld, nebius_port=0) as world:
        assert await unanswered(world, story, tmp_path) == [], await world.story()
        rented = [lease.provider for lease in await world.leases() if lease.instance_id]
        assert tuple(rented) == ALL_MARKETS.markets
