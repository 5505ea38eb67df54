"""What goes into the ledger of answers that have changed, and what is said of it, and how often."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from autopilot.clock import ManualClock
from autopilot.domain.certificate import Certificate
from autopilot.domain.drift import Drift, DriftKind
from autopilot.engine import drift
from autopilot.engine.drift import KEEP_EVERY, DriftLog
from autopilot_lab.memory_store.store import MemoryStore
from tests.store_records import a_job

START = datetime(2026, 11, 1, tzinfo=UTC)
READ = Drift("market", "instance", "price", DriftKind.TYPE, True, True, 1, START, START, "text")
IGNORED = replace(READ, field="score", is_read=False, is_money=False)


CERTIFICATE = Certificate("job-1", "market", "an account", "0.1", START, START + timedelta(days=30))


@pytest.fixture(autouse=True)
def fresh_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was used before keeps the settings that it had then, and its lines go past the test."""
    monkeypatch.setattr(drift, "log", structlog.get_logger())


class Answers:
    """The one thing that is asked of a provider here."""

    def __init__(self) -> None:
        self.seen: tuple[Drift, ...] = ()

    def drifts(self) -> tuple[Drift, ...]:
        return self.seen


class Bench:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock, self.store, self.answers = ManualClock(START), store or MemoryStore(), Answers()
        given: Any = {"market": self.answers}
        self.log = DriftLog(given, self.store, self.clock)

    async def keep(self, *seen: Drift) -> list[Any]:
        """What the log says."""
        self.answers.seen = seen
        with capture_logs() as lines:
            await self.log.keep()
        return lines

    async def kept(self) -> tuple[Drift, ...]:
        async with self.store.snapshot() as uow:
            return await uow.drifts.list()


async def certify(bench: Bench, *certificates: Certificate) -> None:
    async with bench.store.transaction() as uow:
        for certificate in certificates:
            await uow.jobs.save(a_job(certificate.job_id))
            await uow.certificates.save(certificate)


async def test_a_new_one_is_kept_and_said_at_once() -> None:
    bench = Bench()
    assert await bench.keep() == []
    (line,) = await bench.keep(READ)
    assert (line["event"], line["log_level"]) == ("market.answer_drifted", "warning")
    assert (line["provider"], line["answer"], line["field"], line["kind"]) == ("market", "instance", "price", "type")
    assert line["is_money"] is True
    (line,) = await bench.keep(READ, IGNORED)
    assert (line["field"], line["log_level"]) == ("score", "info")
    assert await bench.kept() == (READ, IGNORED)


async def test_counts_are_kept_now_and_then_and_never_twice() -> None:
    bench = Bench()
    await bench.keep(READ)
    more = replace(READ, count=40, last_seen_at=START + timedelta(minutes=1))
    assert await bench.keep(more) == []
    assert await bench.kept() == (READ,)
    bench.clock.advance(KEEP_EVERY.total_seconds())
    assert await bench.keep(more) == []
    assert await bench.keep(more) == []
    assert await bench.kept() == (more,)


async def test_a_restart_continues_the_count_and_reports_nothing_twice() -> None:
    bench = Bench()
    await bench.keep(replace(READ, count=7))
    again = Bench(bench.store)
    later = replace(READ, count=2, first_seen_at=START + timedelta(days=1), last_seen_at=START + timedelta(days=2))
    assert await again.keep(later) == []
    assert await again.kept() == (replace(READ, count=9, last_seen_at=START + timedelta(days=2)),)


async def test_without_anything_new_nothing_is_written() -> None:
    bench = Bench()
    await bench.keep(READ)
    bench.store.break_next_commit(is_kept=False)
    bench.clock.advance(KEEP_EVERY.total_seconds())
    assert await bench.keep(READ) == []


async def test_a_new_one_that_money_depends_on_ends_the_market_s_certificate() -> None:
    bench = Bench()
    await certify(bench, CERTIFICATE, replace(CERTIFICATE, job_id="job-2", provider="other"))
    await bench.keep(IGNORED)
    async with bench.store.snapshot() as uow:
        assert not any(each.ended_at for each in await uow.certificates.list_newest())
    lines = await bench.keep(IGNORED, READ)
    assert "certificate.ended" in [line["event"] for line in lines]
    async with bench.store.snapshot() as uow:
        ended = {each.provider: each.ended_because for each in await uow.certificates.list_newest() if each.ended_at}
    assert ended == {"market": "instance.price, which money depends on, has changed (type)"}


async def test_one_that_was_known_when_the_market_was_certified_ends_nothing() -> None:
    bench = Bench()
    await bench.keep(READ)
    await certify(bench, CERTIFICATE)
    bench.clock.advance(KEEP_EVERY.total_seconds())
    await bench.keep(replace(READ, count=9, last_seen_at=START + timedelta(minutes=5)))
    async with bench.store.snapshot() as uow:
        assert not any(each.ended_at for each in await uow.certificates.list_newest())
