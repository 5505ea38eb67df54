"""*Market*: what one GPU has cost, what we bid for it, and what we would bid now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from markupsafe import Markup

from autopilot.answers.plans import RankedOffer
from autopilot.answers.prices import MarketPrices
from autopilot.domain.errors import UserError
from autopilot.web import svg, words
from autopilot.web.hero import MARGIN, Panel
from autopilot.web.machines import MachineLife, read_machines
from autopilot.web.shapes import Figure
from autopilot.web.source import PageSource
from autopilot.web.svg import Axis, Scale

PERIODS = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
STEPS = 300
HEIGHT = 260
COLOURS = 4
OFFERS_SHOWN = 12


class OfferChoice(NamedTuple):
    market: str
    machine: str
    gpu: str
    floor: str
    on_demand: str
    bid: str
    per_work: str
    where: str


@dataclass(frozen=True)
class MarketPage:
    now: datetime
    newest_at: datetime | None
    gpu: str
    """Empty: none is known."""
    gpus: list[str]
    period: str
    periods: list[str]
    figures: list[Figure]
    markets: list[str]
    prices: Panel | None
    ruler: Markup
    data: dict[str, Any]
    """For the plot that zooms: seconds, then a line for each market and one for our bids."""
    offers: list[OfferChoice]
    hidden: int
    """Offers beyond those that are listed."""


async def build(source: PageSource, query: Mapping[str, str]) -> MarketPage:
    """Raises ``UserError`` for a GPU that no market lists and a period that there is not."""
    now, period = source.now, query.get("period", "7d")
    if period not in PERIODS:
        raise UserError(f"no period {period!r}", hint=f"one of: {', '.join(PERIODS)}")
    newest = await source.read_newest_machines()
    machines = [each for of in newest.values() for each in read_machines(of.leases, of.spans, of.events, now)]
    gpus = list(dict.fromkeys(each.lease.gpu for each in reversed(machines)))
    gpu = query.get("gpu", "").strip()[:60] or (gpus[0] if gpus else "")
    if not gpu:
        return MarketPage(now, source.newest_at, "", gpus, period, list(PERIODS), [], [], None, svg.NOTHING, {}, [], 0)
    axis = Axis(now - PERIODS[period], now)
    found = await source.prices(gpu, axis.start, axis.end, STEPS)
    offers = await source.list_offers(gpu)
    fit = [each for each in offers if each.bid is not None]
    bids = _list_bids([each for each in machines if each.lease.gpu in {row.gpu for row in found.markets} | {gpu}], axis)
    return MarketPage(
        now,
        source.newest_at,
        gpu,
        gpus if gpu in gpus else [gpu, *gpus],
        period,
        list(PERIODS),
        _list_figures(found.markets, fit),
        [f"{words.market(row.provider)} {words.plain(row.gpu)}" for row in found.markets],
        _draw(found.markets, bids, axis),
        svg.ruler(axis),
        _list_data(found.markets, bids),
        [_offer(each) for each in fit[:OFFERS_SHOWN]],
        len(fit[OFFERS_SHOWN:]),
    )


def _list_bids(machines: Sequence[MachineLife], axis: Axis) -> list[list[tuple[datetime, float]]]:
    """A line for each machine: from when to when we paid what, per GPU and hour."""
    made = []
    for machine in machines:
        start, end = machine.bars[0].start, machine.bars[-1].end
        if end <= axis.start:
            continue
        rate = float(machine.lease.bid) / machine.lease.num_gpus
        made.append([(max(start, axis.start), rate), (end, rate)])
    return made


def _draw(markets: Sequence[MarketPrices], bids: Sequence[Sequence[tuple[datetime, float]]], axis: Axis) -> Panel:
    lows = [[(step.at, float(step.low)) for step in row.steps if step.low is not None] for row in markets]
    asks = [[(step.at, float(step.on_demand)) for step in row.steps if step.on_demand is not None] for row in markets]
    top = max((value for line in (*lows, *asks, *bids) for _, value in line), default=0) or 0.1
    scale = Scale(top * MARGIN, HEIGHT)

    def place(points: Sequence[tuple[datetime, float]]) -> list[svg.Point]:
        return [(axis.x(at), scale.y(value)) for at, value in points]

    paths = [svg.line(place(line), "ask") for line in asks]
    paths += [svg.line(place(line), f"floor-{min(n, COLOURS - 1)}") for n, line in enumerate(lows)]
    paths += [svg.line(place(line), "ours") for line in bids]
    drawn = svg.picture(
        HEIGHT,
        svg.grid(axis, HEIGHT),
        scale.rules(),
        svg.stretch(HEIGHT, *paths),
        label="Cheapest floors per GPU and hour of each market, on-demand prices dashed, our bids",
    )
    return Panel(drawn, scale.gutter(svg.show_dollars), any(lows))


def _list_data(markets: Sequence[MarketPrices], bids: Sequence[Sequence[tuple[datetime, float]]]) -> dict[str, Any]:
    steps = markets[0].steps if markets else []
    at = [step.at for step in steps]

    def paid(instant: datetime) -> float | None:
        return next((line[0][1] for line in bids if line[0][0] <= instant <= line[-1][0]), None)

    return {
        "at": [instant.timestamp() for instant in at],
        "floors": [[_number(step.low) for step in row.steps] for row in markets],
        "on_demand": [[_number(step.on_demand) for step in row.steps] for row in markets],
        "bid": [paid(instant) for instant in at],
        "names": [f"{words.market(row.provider)} {words.plain(row.gpu)}" for row in markets],
    }


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _list_figures(markets: Sequence[MarketPrices], fit: Sequence[RankedOffer]) -> list[Figure]:
    figures = [
        Figure(
            words.market(row.provider),
            words.per_hour(row.last_low),
            f"cheapest floor now; {words.per_hour(row.low)} to {words.per_hour(row.high)} in this period, "
            f"{row.machines} {'machine' if row.machines == 1 else 'machines'}",
        )
        for row in markets
    ][:4]
    if fit:
        best = fit[0]
        how = f"{words.capacity(best.capacity_type)} on {words.market(best.provider)}, for the whole machine"
        figures.append(Figure("We would bid", words.per_hour(best.bid), how))
    return figures


def _offer(each: RankedOffer) -> OfferChoice:
    return OfferChoice(
        words.market(each.provider),
        words.plain(each.machine_id),
        f"{each.num_gpus} × {words.plain(each.gpu)}",
        words.per_hour(each.floor),
        words.per_hour(each.on_demand_price),
        f"{words.per_hour(each.bid)}, {words.capacity(each.capacity_type)}",
        words.money(each.cost_per_work_h, 3),
        words.plain(each.location),
    )
