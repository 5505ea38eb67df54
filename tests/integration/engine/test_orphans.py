"""Machines that no job wants, told apart and priced; and the sweep of a host that has no ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.clock import ManualClock
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.labels import label_for
from autopilot.ids import UlidIds
from autopilot.ports.provider import Provider
from autopilot.service.far_sweep import OVERDUE, sweep
from autopilot.service.orphans import Kind, census
from tests.integration.engine.engine_world import INSTALL_ID, D, World

STRANGE = label_for("another8", "01KDVDNRY4R11887CN5CG1S8J6")


@pytest.fixture
def world(world_on_disk: World) -> World:
    """The census reads the ledger's file beside the daemon."""
    return world_on_disk


@pytest.fixture
def settings(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A configuration that points at the world's market and ledger, as the command line would read it."""
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(world.api_key)
    (tmp_path / "install-id").write_text(f"{INSTALL_ID}\n")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__BASE_URL", world.sandbox.url)
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE", str(key))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", world.ledger_url)
    return load_settings(None)


@pytest.fixture
async def far_away(world: World) -> AsyncIterator[Provider]:
    """The same account, from a host that has nothing else of ours."""
    provider = world.connect()
    yield provider
    await provider.close()


def a_label(world: World, age: timedelta, install_id: str = INSTALL_ID) -> str:
    return label_for(install_id, UlidIds(ManualClock(world.clock.now() - age)).new())


async def test_what_is_wanted_unwanted_unknown_and_not_ours_with_prices(world: World, settings: Settings) -> None:
    world.agents.total_steps = 100_000
    wanted = await world.running()
    empty = await census(settings, world.clock)
    assert (empty.wanted, empty.findings, empty.ours, empty.unreadable) == (1, [], False, {})

    duplicate = await world.rent_by_hand(wanted.label)
    unknown = await world.rent_by_hand(a_label(world, timedelta(hours=1)))
    strange, own = await world.rent_by_hand(STRANGE), await world.rent_by_hand("my own training")
    world.clock.advance(300)
    world.sandbox.synchronise()
    found = {each.instance.instance_id: each for each in (await census(settings, world.clock)).findings}
    assert {key: each.kind for key, each in found.items()} == {
        str(duplicate.id): Kind.UNWANTED,
        str(unknown.id): Kind.UNKNOWN,
        str(strange.id): Kind.FOREIGN,
        str(own.id): Kind.FOREIGN,
    }
    assert "another8" in found[str(strange.id)].why
    for each in found.values():
        assert each.instance.status is InstanceStatus.RUNNING
        assert each.instance.bills == each.instance.bid + each.instance.storage_rate > D("0.05")

    # A lease on its way out is unwanted until its machine is gone.
    await world.fault("destroy", "http_500", times=None)
    await world.jobs.cancel("train")
    await world.tick(2)
    now = await census(settings, world.clock)
    assert now.wanted == 0
    assert "asked" in next(each.why for each in now.findings if each.instance.instance_id == wanted.instance_id)
    assert now.bills(Kind.UNWANTED) > now.bills(Kind.UNKNOWN) > 0


async def test_looking_changes_nothing(world: World, settings: Settings, far_away: Provider) -> None:
    await world.running()
    await world.rent_by_hand(a_label(world, timedelta(days=9)))
    before = {kind: len(world.sent(kind)) for kind in ("instance.destroyed", "bid.changed")}, await world.entries()
    for _ in range(3):
        await census(settings, world.clock)
        await sweep([far_away], world.clock, INSTALL_ID, kill=False, older_than=timedelta(0))
    after = {kind: len(world.sent(kind)) for kind in ("instance.destroyed", "bid.changed")}, await world.entries()
    assert after == before


async def test_an_unreadable_market_is_named(world: World, settings: Settings, far_away: Provider) -> None:
    await world.rent_by_hand(a_label(world, timedelta(days=9)))
    await world.fault("list", "http_503", times=None)
    told = await census(settings, world.clock)
    assert list(told.unreadable) == ["vastai"]
    assert not told.findings
    swept = await sweep([far_away], world.clock, INSTALL_ID, kill=True, older_than=timedelta(0))
    assert (list(swept.unreadable), swept.seen, swept.gone) == (["vastai"], [], [])
    assert not world.sent("instance.destroyed")


@pytest.mark.slow
async def test_from_elsewhere_only_overdue_machines_are_destroyed(world: World, far_away: Provider) -> None:
    live = world.instance(await world.running())
    old = await world.rent_by_hand(a_label(world, timedelta(hours=74)))
    young = await world.rent_by_hand(a_label(world, timedelta(hours=71)))
    others = await world.rent_by_hand(a_label(world, timedelta(hours=99), "another8"))
    own = await world.rent_by_hand("my own training")
    looked = await sweep([far_away], world.clock, None, kill=False, older_than=OVERDUE)
    assert {(each.instance.instance_id, each.due) for each in looked.seen} == {
        (str(live.id), False),
        (str(old.id), True),
        (str(young.id), False),
        (str(others.id), True),
    }
    swept = await sweep([far_away], world.clock, INSTALL_ID, kill=True, older_than=OVERDUE)
    assert ([i.instance_id for i in swept.gone], swept.left) == ([str(old.id)], [])
    assert old.destroyed_at is not None
    assert [i.destroyed_at for i in (live, young, others, own)] == [None] * 4


async def test_from_elsewhere_a_destroy_is_verified_and_asked_for_again(world: World, far_away: Provider) -> None:
    first = await world.rent_by_hand(a_label(world, timedelta(hours=74)))
    second = await world.rent_by_hand(a_label(world, timedelta(hours=1)))
    await world.fault("destroy", "no_effect_success", times=5)
    swept = await sweep([far_away], world.clock, INSTALL_ID, kill=True, older_than=timedelta(0))
    assert {i.instance_id for i in swept.gone} == {str(first.id), str(second.id)}
    assert None not in (first.destroyed_at, second.destroyed_at)


async def test_from_elsewhere_what_stays_is_stopped_and_said_to_be_left(world: World, far_away: Provider) -> None:
    kept = await world.rent_by_hand(a_label(world, timedelta(hours=74)))
    await world.fault("destroy", "http_500", times=None)
    swept = await sweep([far_away], world.clock, INSTALL_ID, kill=True, older_than=OVERDUE)
    assert [i.instance_id for i in swept.left] == [str(kept.id)]
    assert kept.intended == "stopped"
