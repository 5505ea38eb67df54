"""What a GPU has cost on the markets, from the recorded observations, in as many steps as a plot has columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from autopilot import render
from autopilot.answers.models.money import PricesQuery
from autopilot.books.periods import instant
from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.money import from_nano, to_nano
from autopilot.domain.prices import PriceSum, step_width
from autopilot.domain.time import MICROSECOND
from autopilot.planning.gpu_check import unknown_gpu
from autopilot.ports.store import UnitOfWork


async def prices(uow: UnitOfWork, query: PricesQuery, now: datetime, listed: Sequence[str]) -> render.Json:
    """``listed``: the GPUs that the markets list. Raises ``UserError``, also for a GPU that is in no list or record."""
    gpu = query.gpu.strip()
    if not gpu:
        raise UserError("which GPU?", hint="pass a GPU model, like 4090")
    since = instant(query.since, "since", now, now - timedelta(days=7))
    until = instant(query.until, "until", now, now)
    if since >= until:
        raise UserError("the period ends before it starts")
    names: dict[str, list[str]] = defaultdict(list)
    for name in gpu_names.recorded_as(gpu):
        names[gpu_names.standard(name)].append(name)
    markets = [
        each
        for model, called in names.items()
        for each in await _read_markets(uow, model, called, (since, until), query)
    ]
    if not markets and not any(gpu_names.is_called(name, gpu) for name in listed):
        raise unknown_gpu(gpu, listed)
    return {
        "gpu": gpu,
        "since": render.plain(since),
        "until": render.plain(until),
        "step_s": render.plain((until - since) / query.steps),
        "unit": "USD per GPU-hour",
        "markets": sorted(markets, key=lambda each: (each["provider"], each["gpu"])),
    }


async def _read_markets(
    uow: UnitOfWork, model: str, names: Sequence[str], period: tuple[datetime, datetime], query: PricesQuery
) -> list[render.Json]:
    """``names``: all that the model was recorded as."""
    by_market: dict[str, list[PriceSum]] = defaultdict(list)
    for each in await uow.prices.sum_by_step(names, *period, steps=query.steps, provider=query.provider):
        by_market[each.provider].append(each)
    machines = await uow.prices.count_machines(names, *period, provider=query.provider) if by_market else {}
    return [
        {
            "provider": market,
            "gpu": model,
            "observations": sum(each.samples for each in sums),
            **_put_together(sums),
            "machines": machines[market],
            **await _read_last(uow, names, market, max(each.last_at for each in sums)),
            "steps": _in_steps(sums, *period, query.steps),
        }
        for market, sums in by_market.items()
    ]


async def _read_last(uow: UnitOfWork, names: Sequence[str], market: str, at: datetime) -> render.Json:
    seen = [
        each for name in names for each in await uow.prices.list_by_gpu(name, at, at + MICROSECOND, provider=market)
    ]
    floors = (Fraction(to_nano(each.floor), each.num_gpus) for each in seen if each.floor is not None)
    return {"last_low": _money(min(floors, default=None)), "last_seen_at": render.plain(at)}


def _in_steps(sums: Iterable[PriceSum], since: datetime, until: datetime, count: int) -> list[render.Json]:
    made: list[list[PriceSum]] = [[] for _ in range(count)]
    for each in sums:
        made[each.step].append(each)
    width = step_width(since, until, count)
    return [{"at": render.plain(since + width * number), **_put_together(step)} for number, step in enumerate(made)]


def _put_together(sums: Sequence[PriceSum]) -> render.Json:
    """All per GPU, so that machines of several sizes compare."""
    samples = sum(each.floors for each in sums)
    whole = sum((Fraction(to_nano(each.total), each.num_gpus) for each in sums), Fraction(0))
    lows = (Fraction(to_nano(each.low), each.num_gpus) for each in sums if each.low is not None)
    highs = (Fraction(to_nano(each.high), each.num_gpus) for each in sums if each.high is not None)
    asked = (
        Fraction(to_nano(each.on_demand_price), each.num_gpus) for each in sums if each.on_demand_price is not None
    )
    return {
        "low": _money(min(lows, default=None)),
        "mean": _money(whole / samples if samples else None),
        "high": _money(max(highs, default=None)),
        "on_demand": _money(min(asked, default=None)),
        "machines": sum(each.machines for each in sums),
    }


def _money(nano: Fraction | None) -> str | None:
    return None if nano is None else str(render.plain(from_nano(nano.numerator // nano.denominator)))
