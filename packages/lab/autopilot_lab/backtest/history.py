"""The market that the user's own daemon recorded, as a suite of bids.

A machine that is not in the record of a moment is not shown then; nor does a bid run on it, unless it is back soon:
then the higher of its floors before and after is taken for those between.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import inf, isinf
from statistics import median
from typing import NamedTuple

from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice
from autopilot.domain.money import HOURS_PER_STORAGE_MONTH
from autopilot.domain.prices import PriceObservation
from autopilot.ports.store import StoreUnavailable, UnitOfWork
from autopilot.pricing.auction.recorded import EVER, Grid, on_grid
from autopilot.store.database import unopened_store
from autopilot.store.migrate import check_revision
from autopilot.store.urls import database_path, postgres_url
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidRun, BidSuite, Listing, ticks_until
from autopilot_lab.backtest.tasks import MIGRATE_S, RESUME_S, TICK_S, TICKS_PER_H, Task

TICK = timedelta(seconds=TICK_S)
SOON_TICKS = TICKS_PER_H
"""So long may a machine be out of sight, and the record itself be broken off."""
LEAST_H = 24
WARM_UP_TICKS = 6 * TICKS_PER_H
"""Recorded before the first run starts: policies learn from it."""
APART_TICKS = 4 * TICKS_PER_H
NEWEST_JOBS = 100


async def history_suites(url: str, tasks: Sequence[Task], since: datetime) -> list[BidSuite]:
    """A suite for each task, of what the ledger at ``url`` has on its GPU since then. Nothing is written.

    Raises UserError when it cannot be read, and when there is too little.
    """
    if postgres_url(url) is None and not database_path(url).exists():
        raise UserError(f"there is no ledger at {database_path(url)}", hint="the daemon makes it, and records prices")
    store = unopened_store(url)
    try:
        async with store.reading() as connection:
            await connection.run_sync(check_revision)
        async with store.snapshot() as uow:
            return [await _suite(uow, task, since) for task in tasks]
    except StoreUnavailable as problem:
        raise UserError(
            str(problem), hint="only the daemon's user may read it; run autopilot db check for details"
        ) from None
    finally:
        await store.close()


async def _suite(uow: UnitOfWork, task: Task, since: datetime) -> BidSuite:
    gpus = task.gpus
    if not gpus:
        jobs = await uow.jobs.list_newest(limit=NEWEST_JOBS)
        gpus = tuple(dict.fromkeys(gpu for job in jobs for gpu in job.spec.gpus))
    lacks = []
    for gpu, names in _models(gpus):
        seen = [each for name in names for each in await uow.prices.list_by_gpu(name, since, EVER)]
        fitting = [
            each for each in seen if each.num_gpus == gpu.count and not (task.verified_only and each.verified is False)
        ]
        record = _Record(on_grid(fitting, TICK))
        lack = record.lack()
        if not lack:
            return _suite_of(gpu, record, fitting, task)
        lacks.append(f"{_name(gpu)}: {lack}")
    raise UserError(
        f"too little is recorded: {'; '.join(lacks) or 'the ledger has no jobs'}",
        hint=f"{LEAST_H} h are needed; the daemon records prices of a GPU while a job that may use it is not over",
    )


def _models(gpus: Iterable[GpuChoice]) -> Iterator[tuple[GpuChoice, tuple[str, ...]]]:
    """Each model that the choices stand for, and the names that it may have in the record."""
    for gpu in gpus:
        for model in gpu_names.expand(gpu.name):
            yield GpuChoice(model, gpu.count), tuple(dict.fromkeys((*gpu_names.recorded_as(model), gpu.name)))


class _Record(NamedTuple):
    grid: Grid

    @property
    def paired(self) -> list[int | None]:
        """For each machine the first tick at which it was seen twice in a row."""
        return [
            next((tick for tick, (old, new) in enumerate(pairwise(row), 1) if max(old, new) < inf), None)
            for row in self.grid.shown
        ]

    def lack(self) -> str:
        """Why it is too little, or nothing."""
        hours, twice = sum(self.grid.recorded) / TICKS_PER_H, sum(tick is not None for tick in self.paired)
        if hours >= LEAST_H and twice:
            return ""
        return f"{hours:.1f} h, {len(self.grid.machines)} machines, {twice} of them seen with a floor twice in a row"

    def stretches(self) -> list[tuple[int, int]]:
        """First tick and end of what was recorded without a longer break."""
        ticks = [tick for tick, is_recorded in enumerate(self.grid.recorded) if is_recorded]
        breaks = [place for place, (one, other) in enumerate(pairwise(ticks), 1) if other - one > SOON_TICKS]
        return [(ticks[first], ticks[end - 1] + 1) for first, end in pairwise([0, *breaks, len(ticks)])]


def _suite_of(gpu: GpuChoice, record: _Record, seen: Sequence[PriceObservation], task: Task) -> BidSuite:
    rates = [each.on_demand_price for each in seen if each.on_demand_price is not None]
    if not rates:
        raise UserError(f"{_name(gpu)}: no on-demand price was recorded", hint="backtests compare with it")
    storage = [each.storage_price for each in seen if each.storage_price is not None]
    config = BidConfig(
        tick_s=TICK_S,
        on_demand_price=float(median(rates)),
        storage_rate=float(median(storage or [Decimal(0)]) * task.disk_gb / HOURS_PER_STORAGE_MONTH),
        migrate_s=MIGRATE_S,
        resume_s=RESUME_S,
        checkpoint_s=task.checkpoint_s,
        machines=tuple(map(" ".join, record.grid.machines)),
    )
    learnt = min(tick for tick in record.paired if tick is not None) + TICKS_PER_H
    runs = tuple(
        BidRun(start, task.work_s, deadline_s, "bid")
        for deadline_s in task.deadlines_s
        for first, end in record.stretches()
        for start in range(max(first, learnt, WARM_UP_TICKS), end - ticks_until(deadline_s, TICK_S), APART_TICKS)
    )
    if not runs:
        longest = max(end - first for first, end in record.stretches()) / TICKS_PER_H
        raise UserError(
            f"{task.name}: {min(task.deadlines_s) / HOUR_S:g} h to the deadline do not fit into what is recorded of "
            f"{_name(gpu)}: at most {longest:.1f} h without a break, some of them to learn from",
            hint="let the daemon record for longer, or give a nearer deadline",
        )
    floors = tuple(map(_carry, record.grid.shown))
    return BidSuite(f"history of {_name(gpu)}", config, floors, runs, Listing(record.grid.shown, record.grid.hosts))


def _carry(shown: array[float]) -> array[float]:
    """The floors at which bids run, where a machine that is out of sight for a moment can still be had."""
    floors, before = array("d", shown), -1
    for tick, floor in enumerate(shown):
        if isinf(floor):
            continue
        away = tick - before - 1
        if before >= 0 and 0 < away <= SOON_TICKS:
            floors[before + 1 : tick] = array("d", [max(shown[before], floor)]) * away
        before = tick
    return floors


def _name(gpu: GpuChoice) -> str:
    return gpu.name if gpu.count == 1 else f"{gpu.count} x {gpu.name}"
