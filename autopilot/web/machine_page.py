"""*Machine*: one lease from its first second to its bill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.instances import InstanceLease, InstanceLife, Reading
from autopilot.domain.money import ZERO
from autopilot.web import svg, words
from autopilot.web.machines import STATES, MachineLife, draw_bars, read_machines
from autopilot.web.shapes import Figure
from autopilot.web.source import PageSource
from autopilot.web.svg import Axis
from autopilot.words import story, text
from autopilot.words.bills import UNCONFIRMED, WAITS

LIFE_HEIGHT = 20


class BilledDay(NamedTuple):
    day: str
    kind: str
    posted: str
    billed: str


@dataclass(frozen=True)
class MachinePage:
    now: datetime
    newest_at: datetime | None
    lease: InstanceLease
    name: str
    where: str
    figures: list[Figure]
    life: Markup
    ruler: Markup
    states: list[tuple[str, str, str, str]]
    """State, from, for how long, and at which rate."""
    bids: list[tuple[str, str, str]]
    bills: list[BilledDay]
    bill_total: tuple[str, str]
    readings: list[tuple[str, ...]]
    events: list[tuple[str, str]]
    others: list[tuple[str, str]]
    """Further leases of that name: id, and when."""


async def build(source: PageSource, reference: str) -> MachinePage:
    """Raises ``JobNotFound`` for a machine that there is not."""
    found, now = (await source.instance(reference)).instances, source.now
    body, lease = found[0], found[0].lease
    lives = read_machines([lease], {lease.id: body.spans}, body.events, now)
    life, ruler = _draw_life(lives[0], now) if lives else (svg.NOTHING, svg.NOTHING)
    bills, total = _list_bills(body)
    return MachinePage(
        now,
        source.newest_at,
        lease,
        f"{lease.num_gpus} × {words.plain(lease.gpu)}",
        f"{words.market(lease.provider)} {words.plain(lease.instance_id or '')}",
        _list_figures(body, now),
        life,
        ruler,
        _list_states(lives),
        [(words.moment(bid.at), words.per_hour(bid.bid), words.words(bid.outcome)) for bid in body.bids],
        bills,
        total,
        [_tell_reading(each) for each in reversed(body.readings[-12:])],
        [(words.moment(line.at), str(line)) for line in reversed(story.tell_all(body.events))],
        [(each.lease.id, words.moment(each.lease.intended_at)) for each in found[1:]],
    )


def _draw_life(machine: MachineLife, now: datetime) -> tuple[Markup, Markup]:
    start, end = machine.bars[0].start, machine.bars[-1].end
    axis = Axis(start - (end - start) * 0.02, end + (end - start) * 0.02 + timedelta(seconds=1))
    bars = draw_bars(machine.bars, axis, 3, 14)
    drawn = svg.picture(LIFE_HEIGHT, svg.grid(axis, LIFE_HEIGHT), *bars, label="its states; the table below has each")
    return drawn, svg.ruler(axis)


def _list_figures(body: InstanceLife, now: datetime) -> list[Figure]:
    lease = body.lease
    cost = lease.posted + lease.accrued
    billed = sum((line.amount for line in body.invoice_lines), ZERO)
    code = lease.waits_for
    waits = "the bill is complete" if code is None else f"the bill: {WAITS.get(code, words.words(code))}"
    if code is None and not body.invoice_lines and cost:
        waits = UNCONFIRMED
    over = lease.gone_at
    how = f"{words.capacity(lease.capacity_type)}, disk {words.per_hour(lease.storage_rate)}"
    ended = words.moment(over) if over else ""
    return [
        Figure("State", words.words(lease.status if not over else "gone"), ended or words.words(lease.state)),
        Figure("Rate", words.per_hour(lease.bid), how),
        Figure("Cost", words.money(cost), "posted and accrued"),
        Figure("Billed", words.money(billed) if body.invoice_lines else "none yet", waits),
        Figure("Worked", words.duration(lease.running_s), "billed as running"),
    ]


def _list_states(lives: Sequence[MachineLife]) -> list[tuple[str, str, str, str]]:
    return [
        (STATES[bar.state], words.moment(bar.start), words.duration(bar.end - bar.start), bar.state)
        for life in lives
        for bar in life.bars
    ]


def _list_bills(body: InstanceLife) -> tuple[list[BilledDay], tuple[str, str]]:
    """By day and kind: what is posted, and what the market has billed."""
    posted: dict[tuple[date, str], Decimal] = {}
    billed: dict[tuple[date, str], Decimal] = {}
    for entry in body.entries:
        key = entry.day, entry.kind
        posted[key] = posted.get(key, ZERO) + entry.amount
    for line in body.invoice_lines:
        key = line.day, line.kind
        billed[key] = billed.get(key, ZERO) + line.amount
    keys = sorted(posted.keys() | billed.keys())
    rows = [{"posted": posted.get(key), "billed": billed.get(key)} for key in keys]
    ours, theirs, _ = text.Amounts(rows, ("posted", "billed")).sum_columns(["posted", "billed"])
    lines = [
        BilledDay(f"{day}", words.words(kind), ours[number], theirs[number] if (day, kind) in billed else "no bill yet")
        for number, (day, kind) in enumerate(keys)
    ]
    return lines, (ours[-1], theirs[-1])


def _tell_reading(each: Reading) -> tuple[str, ...]:
    """When, GPU, its memory, free disk, load."""
    busy, memory = (
        text.NONE if share is None else words.share(share) for share in (each.gpu_busy, each.gpu_memory_share)
    )
    load = text.NONE if each.load is None else f"{each.load:.1f}"
    return words.moment(each.at), busy, memory, words.whole(text.size(each.disk_free) or text.NONE), load
