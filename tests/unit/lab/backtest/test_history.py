"""A market that was recorded is played as it was seen; too little of one is refused with what there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf, isinf
from pathlib import Path
from typing import Any

import pytest

from autopilot.cli.main import run
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice
from autopilot.domain.prices import PriceObservation
from autopilot.store.database import open_store
from autopilot_lab.backtest.history import history_suites
from autopilot_lab.backtest.suite import BidSuite, ticks_until
from autopilot_lab.backtest.synthetic import synthetic_suite
from autopilot_lab.backtest.tasks import DAY, TICK_S, Task
from tests.store_records import a_job

pytestmark = pytest.mark.slow

BEGINNING = datetime(2026, 9, 1, tzinfo=UTC)
GPU = "RTX 4090"
SHORT = Task("short", 2 * 3600.0, (4 * 3600.0,), 600.0, gpus=(GpuChoice(GPU),))

JOB = f"""
name = "short"
image = "python:3.12"
run = "python train.py"
trust = "any"
[resources]
gpu = "H100:8 | {GPU}:1"
disk = "72GB"
[work]
estimate = "2h"
[deadline]
within = "4h"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "10m"
"""


def seen(minutes: float, floor: str | None = "0.3", machine: str = "m1", **changes: Any) -> PriceObservation:
    values: dict[str, Any] = {
        "num_gpus": 1,
        "on_demand_price": Decimal("0.5"),
        "storage_price": Decimal("0.2"),
        "verified": True,
    }
    at = BEGINNING + timedelta(minutes=minutes)
    price = None if floor is None else Decimal(floor)
    return PriceObservation("vastai", machine, GPU, floor=price, observed_at=at, **(values | changes))


def calm(first_h: float, end_h: float, **changes: Any) -> Iterator[PriceObservation]:
    """One machine at one price, every five minutes."""
    return (seen(minutes, **changes) for minutes in range(int(first_h * 60), int(end_h * 60), 5))


def recorded_market(hours: int, beginning: datetime = BEGINNING) -> tuple[BidSuite, list[PriceObservation]]:
    """A made-up market, and what a daemon wrote down of it that looked some seconds after every tick."""
    market = synthetic_suite("vast", 5, starts=1)
    assert market.listing is not None
    made = []
    for tick in range(hours * 12):
        at = beginning + timedelta(seconds=tick * TICK_S)
        for number, row in enumerate(market.listing.shown[:10]):
            if not isinf(row[tick]):
                price, host = Decimal(f"{row[tick]:.9f}"), str(market.listing.hosts[number])
                each = PriceObservation("vastai", f"m{number}", GPU, 1, price, Decimal("0.51"), at, host_id=host)
                made.append(each)
    return market, made


def write(path: Path, observations: Sequence[PriceObservation], gpus: tuple[GpuChoice, ...] = ()) -> str:
    async def fill() -> None:
        store = await open_store(str(path))
        async with store.transaction() as work:
            await work.prices.add(observations)
            if gpus:
                job = a_job()
                await work.jobs.save(replace(job, spec=replace(job.spec, gpus=gpus)))
        await store.close()

    asyncio.run(fill())
    return str(path)


def suite_of(path: Path, observations: Sequence[PriceObservation], task: Task = SHORT) -> BidSuite:
    return asyncio.run(history_suites(write(path, observations), [task], BEGINNING))[0]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the settings say that the ledger is."""
    path = tmp_path / "ledger.db"
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", str(path))
    return path


def test_what_was_shown_is_shown_again(tmp_path: Path) -> None:
    market, observations = recorded_market(30)
    suite = suite_of(tmp_path / "ledger.db", observations)
    assert market.listing is not None
    assert suite.listing is not None
    seen_names = dict.fromkeys(f"vastai {each.machine_id}" for each in observations)
    assert list(suite.config.machines) == list(seen_names)
    for name, row in zip(suite.config.machines, suite.listing.shown, strict=True):
        original = market.listing.shown[int(name.removeprefix("vastai m"))]
        assert row[: 30 * 12] == pytest.approx(original[: 30 * 12], abs=1e-8)
    assert suite.config.on_demand_price == pytest.approx(0.51)
    assert suite.config.storage_rate == 0
    by_name = dict(zip(suite.config.machines, suite.listing.hosts, strict=True))
    for one in by_name:
        for other in by_name:
            is_shared = market.listing.hosts[int(one[8:])] == market.listing.hosts[int(other[8:])]
            assert (by_name[one] == by_name[other]) is is_shared


def test_runs_start_where_their_whole_deadline_was_recorded(tmp_path: Path) -> None:
    observations = [*calm(0, 20), *calm(30, 50)]
    suite = suite_of(tmp_path / "ledger.db", observations)
    assert [each.start / 12 for each in suite.runs] == [6, 10, 14, 30, 34, 38, 42, 46]
    recorded = [not isinf(floor) for floor in suite.floors[0]]
    for each in suite.runs:
        assert all(recorded[each.start : each.start + ticks_until(each.deadline_s, TICK_S) + 1])


def test_a_machine_that_is_soon_back_can_be_had_meanwhile_at_the_higher_price(tmp_path: Path) -> None:
    away = [
        *calm(0, 30, machine="always"),
        *calm(0, 10, floor="0.2"),
        *calm(10.5, 12, floor="0.25"),
        *calm(14, 30, floor="0.2"),
    ]
    away.sort(key=lambda each: each.observed_at)
    suite = suite_of(tmp_path / "ledger.db", away)
    assert suite.listing is not None
    number = suite.config.machines.index("vastai m1")
    shown, floors = suite.listing.shown[number], suite.floors[number]
    assert list(shown[119:127]) == [0.2, *[inf] * 6, 0.25]
    assert list(floors[119:127]) == [0.2, *[0.25] * 7]
    assert all(isinf(floor) for floor in floors[144:168])
    assert floors[168] == 0.2


def test_hours_that_were_put_together_hold_for_as_long_as_the_machine_was_seen(tmp_path: Path) -> None:
    whole = [seen(60 * hour, "0.3", samples=12) for hour in range(30)]
    part = [seen(60 * hour, "0.2", "m2", samples=3) for hour in range(30)]
    together = sorted([*whole, *part], key=lambda each: each.observed_at)
    suite = suite_of(tmp_path / "ledger.db", together)
    assert suite.listing is not None
    shown = dict(zip(suite.config.machines, suite.listing.shown, strict=True))
    assert not any(map(isinf, shown["vastai m1"]))
    assert list(shown["vastai m2"][12:24]) == [*[0.2] * 4, *[inf] * 8]


def test_prices_are_medians_and_the_job_s_own_disk(tmp_path: Path) -> None:
    observations = [*calm(0, 10), *calm(10, 26, on_demand_price=Decimal("0.6"), storage_price=Decimal("0.1"))]
    task = Task("short", 7200.0, (14400.0,), 1200.0, gpus=(GpuChoice(GPU),), disk_gb=Decimal(72))
    config = suite_of(tmp_path / "ledger.db", observations, task).config
    assert (config.on_demand_price, config.checkpoint_s) == (0.6, 1200.0)
    assert config.storage_rate == pytest.approx(0.01)


def test_only_machines_that_the_job_would_take(tmp_path: Path) -> None:
    others = [*calm(0, 26), *calm(0, 26, machine="m2", verified=False), *calm(0, 26, machine="m3", num_gpus=2)]
    others.sort(key=lambda each: each.observed_at)
    path = tmp_path / "ledger.db"
    trusting = suite_of(path, others)
    careful = Task("short", 7200.0, (14400.0,), 600.0, gpus=(GpuChoice(GPU),), verified_only=True)
    (careful_suite,) = asyncio.run(history_suites(str(path), [careful], BEGINNING))
    assert trusting.config.machines == ("vastai m1", "vastai m2")
    assert careful_suite.config.machines == ("vastai m1",)


@pytest.mark.parametrize(
    ("observations", "task", "says"),
    [
        ([], SHORT, "RTX 4090: 0.0 h, 0 machines, 0 of them seen with a floor twice in a row"),
        (list(calm(0, 20)), SHORT, "RTX 4090: 20.1 h, 1 machines, 1 of them"),
        (list(calm(0, 30, floor=None)), SHORT, "30.1 h, 1 machines, 0 of them"),
        (list(calm(0, 30)), DAY, "the ledger has no jobs"),
        (list(calm(0, 30, on_demand_price=None)), SHORT, "no on-demand price was recorded"),
        (
            list(calm(0, 30)),
            Task("long", 2e4, (108000.0,), 600.0, gpus=(GpuChoice(GPU),)),
            "long: 30 h to the deadline do not fit into what is recorded of RTX 4090: at most 30.1 h",
        ),
    ],
)
def test_too_little(tmp_path: Path, observations: list[PriceObservation], task: Task, says: str) -> None:
    with pytest.raises(UserError) as refused:
        suite_of(tmp_path / "ledger.db", observations, task)
    assert says in refused.value.message


def test_the_command_plays_job_files_on_the_record(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(ledger, recorded_market(40, datetime.now(UTC) - timedelta(hours=40))[1])
    before = ledger.read_bytes()
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert run(["backtest", "--history", str(job), "--runs", "3", "--jobs", "1", "--json"]) == 0
    captured = capsys.readouterr()
    body = json.loads(captured.out)
    assert (body["suite"], body["runs"]) == ("history of RTX 4090", 3)
    assert "short: played on the history of RTX 4090" in captured.err
    rows = {row["policy"]: row for row in body["policies"]}
    assert rows["autopilot"]["late"] == rows["autopilot"]["overruns"] == 0
    # The optimum is of the bare suite, where the last tick and loading are paid for whole.
    assert 0.95 * rows["optimal"]["over_on_demand"] < rows["autopilot"]["over_on_demand"] < 1
    assert rows["autopilot"]["budget"]["affordable"] == 3
    assert {group["deadline_h"] for group in rows["autopilot"]["groups"]} == {4}
    assert ledger.read_bytes() == before


def test_without_a_job_file_a_day_is_played_on_what_the_ledger_s_jobs_use(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observations = recorded_market(60, datetime.now(UTC) - timedelta(hours=60))[1]
    write(ledger, observations, (GpuChoice("H100", 8), GpuChoice(GPU)))
    assert run(["backtest", "--history", "--policy", "on-demand", "--runs", "1", "--jobs", "1", "--json"]) == 0
    captured = capsys.readouterr()
    assert "24 h: played on the history of RTX 4090" in captured.err
    assert json.loads(captured.out)["policies"][0]["groups"][0]["setting"].startswith("24 h of work")


def test_prices_from_before_are_left_out(ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(ledger, recorded_market(40, datetime.now(UTC) - timedelta(hours=40))[1])
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert run(["backtest", "--history", str(job), "--since", "10h"]) == 2
    assert "too little is recorded: 8 x H100 NVL: 0.0 h" in capsys.readouterr().err


def test_no_ledger_is_made(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest", "--history"]) == 2
    assert "there is no ledger at" in capsys.readouterr().err
    assert not ledger.exists()


def test_a_broken_ledger(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.write_bytes(b"a letter to a friend" * 100)
    assert run(["backtest", "--history"]) == 2
    assert "run autopilot db check for details" in capsys.readouterr().err
