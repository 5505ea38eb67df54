"""A market that changes its answers under a daemon: it goes on, and says what has changed."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from structlog.testing import capture_logs

from autopilot.config.settings import ApiSettings, ProviderSettings, Settings
from autopilot.domain.drift import DriftKind
from autopilot.providers.drift.counter import DriftCounter
from autopilot.service import doctor
from autopilot.service.wiring import Daemon, daemon
from tests.integration.wire.recorded_market import RecordedMarket, recorded_market, vastai

LIST = "GET /api/v1/instances/"


@dataclass
class World:
    market: RecordedMarket
    settings: Settings
    joined: Daemon

    async def drifts(self, query: str = "") -> list[dict[str, Any]]:
        connector = aiohttp.UnixConnector(str(self.settings.socket_path))
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.get(f"http://localhost/v1/drift{query}") as answer,
        ):
            assert answer.status == 200
            body: list[dict[str, Any]] = (await answer.json())["drifts"]
            return body

    def change(self, key: str, how: Callable[[Any], Any]) -> None:
        """``how`` changes the body in place."""
        body = copy.deepcopy(vastai()[key])
        how(body)
        self.market.bodies[key] = body


@asynccontextmanager
async def running(market: RecordedMarket, root: Path) -> AsyncIterator[World]:
    key = root / "key"
    key.touch(mode=0o600)
    key.write_text("k" * 20)
    settings = Settings(
        state_dir=root / "state",
        api=ApiSettings(socket=root / "run" / "s"),
        providers={"vastai": ProviderSettings(base_url=market.url, api_key_file=key)},
    )
    async with daemon(settings) as joined:
        yield World(market, settings, joined)


@pytest.fixture(autouse=True)
def fresh_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was used before keeps the settings that it had then, and its lines go past the test."""
    monkeypatch.setattr("autopilot.engine.drift.log", structlog.get_logger())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with recorded_market(vastai()) as market, running(market, Path(name)) as made:
            yield made


@pytest.mark.slow
async def test_a_market_that_answers_as_recorded_shows_nothing(world: World) -> None:
    with capture_logs() as logs:
        await world.joined.engine.tick()
    assert world.joined.engine.watches["vastai"].last.known
    assert await world.drifts() == []
    assert [line for line in logs if line["event"] == "market.answer_drifted"] == []


@pytest.mark.slow
async def test_what_has_changed_is_kept_shown_and_said_once(world: World) -> None:
    def other(body: Any) -> None:
        body["instances"][0] |= {
            "dph_base": "0.165",
            "status_msg": ["x"],
            "actual_status": "hibernating",
            "surcharge": 0.25,
        }
        del body["instances"][1]["cpu_name"]

    world.change(LIST, other)
    with capture_logs() as logs:
        await world.joined.engine.tick()
        await world.joined.engine.tick()
    reading = world.joined.engine.watches["vastai"].last
    assert reading.instances is not None
    assert len(reading.instances) == 3
    shown = {(each["field"], each["kind"], each["is_read"], each["is_money"]) for each in await world.drifts()}
    assert shown == {
        ("dph_base", "type", True, True),
        ("status_msg", "type", True, False),
        ("actual_status", "value", True, False),
        ("surcharge", "new", False, False),
        ("cpu_name", "missing", False, False),
    }
    said = [(line["field"], line["log_level"]) for line in logs if line["event"] == "market.answer_drifted"]
    assert sorted(said) == [
        ("actual_status", "warning"),
        ("cpu_name", "info"),
        ("dph_base", "warning"),
        ("status_msg", "warning"),
        ("surcharge", "info"),
    ]
    assert await world.drifts("?provider=runpod") == []
    async with world.joined.engine._store.snapshot() as uow:
        (money,) = await uow.drifts.list(provider="vastai", money=True)
    assert (money.answer, money.field, money.kind, money.sample) == ("instance", "dph_base", DriftKind.TYPE, "text")


@pytest.mark.slow
async def test_a_market_that_cannot_be_read_any_more_says_why(world: World) -> None:
    def other(body: Any) -> None:
        for row in body["instances"]:
            row["label"] = "ap1.test.one"
            del row["is_bid"]

    world.change(LIST, other)
    await world.joined.engine.tick()
    assert not world.joined.engine.watches["vastai"].last.known
    (drift,) = await world.drifts()
    assert (drift["field"], drift["kind"], drift["count"]) == ("is_bid", "missing", 3)


@pytest.mark.slow
async def test_a_defect_in_comparing_stops_no_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(DriftCounter, "_note", fail)
    world.change(LIST, lambda body: body["instances"][0].pop("cpu_name"))
    await world.joined.engine.tick()
    assert world.joined.engine.watches["vastai"].last.known


@pytest.mark.slow
async def test_doctor_says_what_has_changed_and_what_is_merely_new(world: World) -> None:
    async def check() -> doctor.Check:
        found = [each async for each in doctor._each_market(world.settings, [])]
        return next(each for each in found if each.name == "vastai answers")

    assert await check() == doctor.Check("vastai answers", True, "as known")
    world.change(LIST, lambda body: body["instances"][0].update(surcharge=0.25))
    assert (await check()).detail == "as known, but for 1 field that is not read"
    world.change(LIST, lambda body: [row.update(dph_base="0.1", host_id="x", label=1) for row in body["instances"]])
    changed = await check()
    assert changed.ok is None
    assert changed.detail == (
        "3 fields that are read have changed: instance: dph_base (type), instance: host_id (type), "
        "instance: label (type)"
    )
    assert "autopilot drift" in changed.hint


@pytest.mark.slow
async def test_doctor_knows_what_the_daemon_has_seen(world: World) -> None:
    world.change(LIST, lambda body: body["instances"][0].update(actual_status="hibernating"))
    await world.joined.engine.tick()
    world.market.bodies[LIST] = vastai()[LIST]
    found = [each async for each in doctor._each_market(world.settings, [])]
    answers = next(each for each in found if each.name == "vastai answers")
    assert answers.detail == "1 field that is read has changed: instance: actual_status (value)"


@pytest.mark.slow
async def test_it_outlives_a_restart() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with recorded_market(vastai()) as market:
            async with running(market, Path(name)) as world:
                world.change(LIST, lambda body: body["instances"][0].update(actual_status="hibernating"))
                await world.joined.engine.tick()
            market.bodies[LIST] = vastai()[LIST]
            async with running(market, Path(name)) as world:
                await world.joined.engine.tick()
                (drift,) = await world.drifts()
                assert (drift["field"], drift["sample"], drift["count"]) == ("actual_status", "hibernating", 1)
