"""One job on one axis of time: what the market asked, what we bid, what the machines did, what was decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.jobs import Decision, Event
from autopilot.answers.pages import DrawnLife
from autopilot.answers.prices import Prices, PriceStep
from autopilot.domain.time import show_duration
from autopilot.web import svg, words
from autopilot.web.machines import MachineLife, MarketLane, draw_lanes
from autopilot.web.svg import Axis, Scale

PRICE_HEIGHT, PROGRESS_HEIGHT, DECISIONS_HEIGHT = 230, 56, 34
MARGIN = 1.12
"""Above the highest price."""
APART = 1.9
APART_WHEN_NARROW = 8.0
"""Per cent of the width: marks nearer than that are one."""
SHORTEST_LOSS_S = 60
MARKS = {
    "acquire": "M0-6L6 0L0 6L-6 0Z",
    "promote": "M0-6L6 0L0 6L-6 0Z",
    "change_bid": "M0-6L6 5H-6Z",
    "release": "M-5-5H5V5H-5Z",
    "save_and_stop": "M-5-5H5V5H-5Z",
    "veto": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0Z",
}
"""By action, so that no mark depends on its colour alone. A cross marks a preempted machine."""


class Panel(NamedTuple):
    picture: Markup
    gutter: Markup
    is_known: bool
    """Whether anything is drawn in it."""


class Hero(NamedTuple):
    price: Panel
    lanes: list[MarketLane]
    decisions: Markup
    progress: Markup
    ruler: Markup


def draw_hero(
    life: DrawnLife,
    machines: Sequence[MachineLife],
    prices: Iterable[Prices],
    axis: Axis,
    chosen: str | None,
    *,
    is_linked: bool = True,
) -> Hero:
    """``chosen``: the id of the decision that is shown in full.

    ``is_linked``: on a page, where a mark leads to its decision; else one picture of decisions suffices.
    """
    return Hero(
        draw_prices(prices, machines, _list_bids(life, machines), axis),
        draw_lanes(machines, axis),
        svg.NOTHING.join(
            draw_decisions(life.decisions, axis, chosen, apart, is_linked=is_linked)
            for apart in ((APART, APART_WHEN_NARROW) if is_linked else (APART,))
        ),
        draw_progress(life, axis),
        svg.ruler(axis),
    )


class _Step(NamedTuple):
    at: datetime
    low: float
    high: float
    on_demand: float | None


def draw_prices(
    prices: Iterable[Prices],
    machines: Sequence[MachineLife],
    bids: Mapping[str, list[tuple[datetime, float]]],
    axis: Axis,
) -> Panel:
    """$ per GPU and hour: floors as a band from cheapest to dearest machine, on demand dashed, bids as steps."""
    steps = _list_steps(prices, axis)
    highest = [step.high for step in steps] + [step.on_demand or 0 for step in steps]
    highest += [value for line in bids.values() for _, value in line]
    scale = Scale((max(highest, default=0) or 0.1) * MARGIN, PRICE_HEIGHT)
    x, y = axis.x, scale.y
    low = [(x(step.at), y(step.low)) for step in steps]
    paths = [
        svg.area([(x(step.at), y(step.high)) for step in steps], low, "band"),
        svg.line(low, "floor"),
        svg.line([(x(step.at), y(step.on_demand)) for step in steps if step.on_demand], "ask"),
    ]
    for machine in machines:
        line = bids.get(machine.lease.id, [])
        if not line or line[-1][0] <= axis.start:
            continue
        corners = [(x(at), y(value)) for (start, value), (end, _) in pairwise(line) for at in (start, end)]
        paths.append(svg.line(corners, "paid" if machine.lease.capacity_type == "on_demand" else "bid"))
    drawn = svg.picture(
        PRICE_HEIGHT,
        svg.grid(axis, PRICE_HEIGHT),
        scale.rules(),
        svg.stretch(PRICE_HEIGHT, *paths),
        label="Prices per GPU and hour. The table of machines has what we bid.",
        name="price",
    )
    return Panel(drawn, scale.gutter(svg.show_dollars), bool(steps))


def _list_steps(prices: Iterable[Prices], axis: Axis) -> list[_Step]:
    """For each instant, the lowest and the highest price of all markets and GPUs that the job may use."""
    found: dict[datetime, list[PriceStep]] = defaultdict(list)
    for step in (step for answer in prices for market in answer.markets for step in market.steps):
        if step.low is not None and axis.start <= step.at <= axis.end:
            found[step.at].append(step)
    return [
        _Step(
            at,
            min(float(each.low or 0) for each in steps),
            max(float(each.high or 0) for each in steps),
            min((float(each.on_demand) for each in steps if each.on_demand is not None), default=None),
        )
        for at, steps in sorted(found.items())
    ]


def _list_bids(life: DrawnLife, machines: Iterable[MachineLife]) -> dict[str, list[tuple[datetime, float]]]:
    """By lease: our bids over time, $ per GPU and hour; the last entry is its end."""
    first = {
        event.lease_id: Decimal(str(event.fields["bid"]))
        for event in life.events
        if event.name == "lease.intended" and event.fields.get("bid")
    }
    made = {}
    for machine in machines:
        lease = machine.lease
        raised = [bid for bid in life.bids if bid.lease_id == lease.id and bid.outcome == "done"]
        start, end = machine.bars[0].start, machine.bars[-1].end
        values = [(start, first.get(lease.id, lease.bid)), *((bid.at, bid.bid) for bid in raised)]
        line = [(min(max(at, start), end), float(value) / lease.num_gpus) for at, value in values]
        made[lease.id] = [*line, (end, line[-1][1])]
    return made


def draw_decisions(
    decisions: Iterable[Decision],
    axis: Axis,
    chosen: str | None,
    apart: float = APART,
    *,
    is_linked: bool = True,
) -> Markup:
    """Each a link that shows it in full. Those too near to tell apart are one mark, with their number."""
    groups: list[tuple[float, list[Decision]]] = []
    for decision in sorted(decisions, key=lambda each: each.at):
        at = decision.at
        if not axis.start <= at <= axis.end:
            continue
        x = 100 * axis.share(at)
        if groups and x - groups[-1][0] < apart:
            groups[-1][1].append(decision)
        else:
            groups.append((x, [decision]))
    marks = [_draw_mark(x, members, chosen, is_linked) for x, members in groups]
    return svg.picture(DECISIONS_HEIGHT, *marks, label="decisions", name="marks", has_links=is_linked)


def _draw_mark(x: float, members: Sequence[Decision], chosen: str | None, is_linked: bool) -> Markup:
    shown = next((each for each in members if each.id == chosen), members[-1])
    kind = shown.actions[0].topic if shown.actions else "veto"
    parts = [
        svg.element("rect", class_="hit", x=-11, y=-12, width=22, height=24),
        svg.element("path", d=MARKS.get(kind, MARKS["acquire"])),
    ]
    said = f"{words.moment(shown.at)}: {words.tell_decision(shown)}"
    if len(members) > 1:
        parts.append(svg.element("text", str(len(members)), y=19, class_="tick mid", aria_hidden="true"))
        said = f"{len(members)} decisions, the last at {said}"
    is_chosen = any(each.id == chosen for each in members)
    inner = svg.element("svg", *parts, x=f"{x:.2f}%", y=12, overflow="visible")
    name = f"mark {kind if kind in MARKS else 'other'}{' chosen' if is_chosen else ''}"
    if not is_linked:
        return svg.element("g", inner, class_=name, aria_label=said)
    return svg.element("a", inner, href=f"?d={shown.id}#why", class_=name, aria_label=said)


def draw_progress(life: DrawnLife, axis: Axis) -> Markup:
    """Draws verified checkpoints as dots and lost work as triangles. Empty if the job's progress is unknown."""
    job = life.job
    share = float(job.progress or 0)
    total = job.step / share if share else 0
    saved = [
        (event.at, int(step))
        for event in life.events
        if event.name == "checkpoint.verified" and (step := event.fields.get("step")) is not None
    ]
    if not saved or not total:
        return svg.NOTHING
    height = PROGRESS_HEIGHT

    def y(step: int) -> float:
        return height - 4 - (height - 10) * min(step / total, 1)

    begun = max(axis.start, job.submitted_at)
    points = [(axis.x(begun), y(0)), *((axis.x(at), y(step)) for at, step in saved)]
    dots = [
        svg.element("circle", class_="dot", cx=axis.percent(at), cy=f"{y(step):.1f}", r=2)
        for at, step in saved
        if at >= axis.start
    ]
    lost = _list_losses(life.events, axis)
    drops = [
        svg.element(
            "g",
            svg.element("title", f"{words.moment(at)}: {show_duration(loss)} of work lost"),
            svg.element("text", "▼", class_="lost mid", x=axis.percent(at), y=height - 4),
        )
        for at, loss in lost
    ]
    top = max(y(saved[-1][1]) - 6, 10)
    share_done = svg.element(
        "text", words.percent(job.progress), class_="tick end", x=axis.percent(saved[-1][0]), y=f"{top:.1f}"
    )
    return svg.picture(
        height,
        svg.grid(axis, height),
        svg.stretch(height, svg.area(points, [(x, height) for x, _ in points], "done-area"), svg.line(points, "done")),
        *dots,
        *drops,
        share_done,
        label=f"{words.percent(job.progress)} done; {len(saved)} verified checkpoints, {len(lost)} losses of work",
    )


def _list_losses(events: Iterable[Event], axis: Axis) -> list[tuple[datetime, timedelta]]:
    found = []
    for event in events:
        seconds = event.fields.get("seconds") if event.name == "work.lost" else None
        if seconds is not None and float(seconds) >= SHORTEST_LOSS_S and event.at >= axis.start:
            found.append((event.at, timedelta(seconds=float(seconds))))
    return found
