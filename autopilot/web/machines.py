"""The lives of machines as bars: when one was billed, and what for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.instances import Span
from autopilot.answers.jobs import Event, Lease
from autopilot.web import svg, words
from autopilot.web.svg import Axis

STATES = {
    "spot": "working on spot",
    "demand": "working on demand",
    "setup": "setting up: billed, not yet working",
    "paused": "paused: only its disk is billed",
    "loading": "loading, not yet billed",
}
THIN = ("paused", "loading")
PAID = ("spot", "demand", "setup", "paused")
LOST = ("outbid", "displaced", "host_lost", "stuck_loading", "vanished")
"""Reasons of an involuntary end of a machine."""
_BAR, _LANE = 14, 20


class BilledTime(NamedTuple):
    state: str
    start: datetime
    end: datetime


class MachineLife(NamedTuple):
    """A lease, and its bars."""

    lease: Lease
    bars: tuple[BilledTime, ...]

    @property
    def name(self) -> str:
        lease = self.lease
        what = f"{lease.num_gpus} × {words.plain(lease.gpu)} {words.capacity(lease.capacity_type)}"
        where = f"{words.market(lease.provider)} {words.plain(lease.instance_id)}"
        return f"{where}, {what} at {words.per_hour(lease.bid)}"


def read_machines(
    leases: Iterable[Lease], spans: Mapping[str, Iterable[Span]], events: Iterable[Event], now: datetime
) -> list[MachineLife]:
    """Of a job, those that were ever seen, in the order in which they began. ``spans``: by lease."""
    worked_from: dict[str | None, list[datetime]] = {}
    for event in events:
        if event.name == "agent.reported" and event.fields.get("state") == "running":
            worked_from.setdefault(event.lease_id, []).append(event.at)
    made = []
    for lease in leases:
        bars = tuple(_join(_list_bars(lease, spans.get(lease.id, ()), worked_from.get(lease.id, []), now)))
        if bars:
            made.append(MachineLife(lease, bars))
    return sorted(made, key=lambda each: each.bars[0].start)


def _list_bars(
    lease: Lease, spans: Iterable[Span], worked_from: Sequence[datetime], now: datetime
) -> Iterator[BilledTime]:
    working = "demand" if lease.capacity_type == "on_demand" else "spot"
    for span in spans:
        start, end = span.started_at, span.ended_at or now
        if end <= start:
            continue
        if span.status != "running":
            yield BilledTime("paused" if span.status == "stopped" else "loading", start, end)
            continue
        begun = min((at for at in worked_from if at < end), default=end)
        if begun > start:
            yield BilledTime("setup", start, begun)
        if begun < end:
            yield BilledTime(working, max(begun, start), end)


def _join(bars: Iterable[BilledTime]) -> Iterator[BilledTime]:
    """Neighbours of one state are one bar."""
    last: BilledTime | None = None
    for bar in bars:
        if last is not None and last.state == bar.state and last.end == bar.start:
            last = BilledTime(bar.state, last.start, bar.end)
            continue
        if last is not None:
            yield last
        last = bar
    if last is not None:
        yield last


def draw_bars(bars: Iterable[BilledTime], axis: Axis, y: float, height: float, title: str = "") -> Iterator[Markup]:
    for bar in bars:
        if bar.end <= axis.start or bar.start >= axis.end:
            continue
        tall = height * 0.4 if bar.state in THIN else height
        width = max(100 * (axis.share(bar.end) - axis.share(bar.start)), 0.12)
        span = f"{words.moment(bar.start)} to {words.moment(bar.end)} ({words.duration(bar.end - bar.start)})"
        yield svg.element(
            "rect",
            svg.element("title", f"{title}{STATES[bar.state]}, {span}"),
            class_=f"bar {bar.state}",
            x=axis.percent(bar.start),
            y=f"{y + (height - tall) / 2:g}",
            width=f"{width:.2f}%",
            height=f"{tall:g}",
        )


def draw_strip(machines: Iterable[MachineLife], axis: Axis) -> Markup:
    """All machines of one job in one row."""
    bars = [bar for machine in machines for bar in machine.bars]
    return svg.picture(16, svg.grid(axis, 16), *draw_bars(bars, axis, 2, 12))


class MarketLane(NamedTuple):
    market: str
    picture: Markup
    height: float


def draw_lanes(machines: Sequence[MachineLife], axis: Axis) -> list[MarketLane]:
    """A lane for each market. A machine that overlaps another there, as in a move, gets a row of its own."""
    made = []
    for market in sorted({machine.lease.provider for machine in machines}):
        rows: list[datetime] = []
        parts: list[Markup] = []
        for machine in machines:
            if machine.lease.provider != market or machine.bars[-1].end <= axis.start:
                continue
            start, end = machine.bars[0].start, machine.bars[-1].end
            row = next((number for number, free_at in enumerate(rows) if free_at <= start), len(rows))
            rows[row : row + 1] = [end]
            y = 4 + _LANE * row
            parts += draw_bars(machine.bars, axis, y, _BAR, f"{machine.name}: ")
            if machine.lease.gone_at and machine.lease.reason in LOST:
                title = svg.element("title", f"{machine.name}: {words.words(machine.lease.reason)}")
                mark = svg.element("text", "✕", class_="lost mid", x=axis.percent(end), y=y + 11)
                parts.append(svg.element("g", title, mark))
        if rows:
            height = 4 + _LANE * len(rows)
            label = f"machines on {words.market(market)}; the table of machines has each"
            made.append(MarketLane(market, svg.picture(height, svg.grid(axis, height), *parts, label=label), height))
    return made


class Share(NamedTuple):
    state: str
    time: timedelta
    percent: str


def split_paid(machines: Iterable[MachineLife]) -> tuple[Markup, list[Share]]:
    """What the machines' time was paid for, as one bar and as figures."""
    sums = dict.fromkeys(PAID, timedelta(0))
    for bar in (bar for machine in machines for bar in machine.bars if bar.state in sums):
        sums[bar.state] += bar.end - bar.start
    total = sum(sums.values(), timedelta(0))
    shares, parts, x = [], [], 0.0
    for state, time in sums.items():
        if not time:
            continue
        width = 100 * (time / total)
        size = {"x": f"{x:.2f}%", "width": f"{width:.2f}%"}
        parts.append(svg.element("rect", class_=f"bar {state}", y=0, height=10, **size))
        shares.append(Share(state, time, words.whole(f"{width:.0f} %")))
        x += width
    return svg.picture(10, *parts), shares
