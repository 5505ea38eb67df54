"""What a GPU has cost on the markets, from the recorded observations, in as many steps as a plot has columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.api import render
from autopilot.api.gpu_check import unknown_gpu
from autopilot.api.models.money import PricesQuery
from autopilot.api.periods import instant
from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.money import floor_nano
from autopilot.domain.prices import PriceObservation
from autopilot.ports.store import Store


@dataclass(slots=True)
class _Step:
    floors: list[tuple[Decimal, int]] = field(default_factory=list)
    lows: list[Decimal] = field(default_factory=list)
    highs: list[Decimal] = field(default_factory=list)
    on_demand: list[Decimal] = field(default_factory=list)
    machines: set[tuple[str, int]] = field(default_factory=set)

    def add(self, seen: PriceObservation) -> None:
        """All per GPU, so that machines of several sizes compare."""
        self.machines.add((seen.machine_id, seen.num_gpus))
        if seen.floor is not None:
            self.floors.append((seen.floor / seen.num_gpus, seen.samples))
            self.lows.append((seen.floor if seen.floor_low is None else seen.floor_low) / seen.num_gpus)
            self.highs.append((seen.floor if seen.floor_high is None else seen.floor_high) / seen.num_gpus)
        if seen.on_demand_price is not None:
            self.on_demand.append(seen.on_demand_price / seen.num_gpus)

    def as_json(self, at: datetime) -> render.Json:
        samples = sum(weight for _, weight in self.floors)
        mean = sum((price * weight for price, weight in self.floors), Decimal(0)) / samples if samples else None
        return {
            "at": render.plain(at),
            "low": _money(min(self.lows, default=None)),
            "mean": _money(mean),
            "high": _money(max(self.highs, default=None)),
            "on_demand": _money(min(self.on_demand, default=None)),
            "machines": len(self.machines),
        }


async def prices(store: Store, query: PricesQuery, now: datetime, listed: Sequence[str]) -> render.Json:
    """``listed``: the GPUs that the markets list. Raises ``UserError``, also for a GPU that is in no list or record."""
    gpu, steps = query.gpu.strip(), query.steps
    if not gpu:
        raise UserError("prices of what?", hint="name a GPU, like 4090")
    since = instant(query.since, "since", now, now - timedelta(days=7))
    until = instant(query.until, "until", now, now)
    if since >= until:
        raise UserError("the period ends before it begins")
    async with store.snapshot() as uow:
        seen = [
            each
            for name in gpu_names.recorded_as(gpu)
            for each in await uow.prices.list_by_gpu(name, since, until, provider=query.provider)
        ]
    if not seen and not any(gpu_names.is_called(name, gpu) for name in listed):
        raise unknown_gpu(gpu, listed)
    by_market: dict[tuple[str, str], list[PriceObservation]] = defaultdict(list)
    for each in sorted(seen, key=lambda each: each.observed_at):
        by_market[each.provider, gpu_names.standard(each.gpu)].append(each)
    return {
        "gpu": gpu,
        "since": render.plain(since),
        "until": render.plain(until),
        "step_s": render.plain((until - since) / steps),
        "unit": "USD per GPU-hour",
        "markets": [
            {"provider": name, "gpu": model, **_summary(found), "steps": _in_steps(found, since, until, steps)}
            for (name, model), found in sorted(by_market.items())
        ],
    }


def _summary(seen: Sequence[PriceObservation]) -> render.Json:
    whole = _Step()
    for each in seen:
        whole.add(each)
    body = whole.as_json(seen[-1].observed_at)
    latest = [each for each in seen if each.observed_at == seen[-1].observed_at]
    now = min((each.floor / each.num_gpus for each in latest if each.floor is not None), default=None)
    return {
        "observations": sum(each.samples for each in seen),
        "machines": body["machines"],
        "low": body["low"],
        "mean": body["mean"],
        "high": body["high"],
        "on_demand": body["on_demand"],
        "last_low": _money(now),
        "last_seen_at": body["at"],
    }


def _in_steps(seen: Sequence[PriceObservation], since: datetime, until: datetime, count: int) -> list[render.Json]:
    made = [_Step() for _ in range(count)]
    width = (until - since) / count
    for each in seen:
        made[min(int((each.observed_at - since) / width), count - 1)].add(each)
    return [step.as_json(since + width * number) for number, step in enumerate(made)]


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else str(render.plain(floor_nano(amount)))
