"""What a plan looks like on a terminal, and the options that a decision weighed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from autopilot.answers.jobs import Note
from autopilot.answers.plans import Forecast, Plan, PlannedOffer
from autopilot.cli import array_views
from autopilot.cli.output import facts, table
from autopilot.domain.time import show_duration
from autopilot.words import text
from autopilot.words.options import tell_option

if TYPE_CHECKING:
    from rich.console import RenderableType


def plan(body: Plan, now: datetime) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if rows := body.offers:
        parts += [_offers_to_rent(rows), ""]
    if array := body.array:
        parts += [*array_views.plan(array, now), ""]
    parts.append(
        facts(
            [
                ("verdict", _verdict(body)),
                *[("alternative", text.plain(way)) for way in body.ways_out],
                ("expected cost", _show_expected(body)),
                *([] if body.array else [*_worst_tenth(body), *_likely(body.forecast)]),
                ("on demand", text.money(body.on_demand_cost)),
                ("list price", _list_price(body)),
                ("budget", text.money(body.budget)),
                ("time left", _time_left(body, now)),
                *[("note", text.plain(note)) for note in body.notes],
            ]
        )
    )
    return parts


def _verdict(body: Plan) -> str:
    if body.refusal:
        return f"{text.verdict(body.verdict)}: {text.plain(body.refusal)}"
    return text.verdict(body.verdict) if body.verdict else "none: the job has no deadline"


def _show_expected(body: Plan) -> str:
    expected, likely = text.money(body.expected_cost), body.forecast
    if not likely or body.array:
        return expected
    return f"{expected} ({text.money(likely.p10)} to {text.money(likely.p90)} in 8 of 10 markets)"


def _worst_tenth(body: Plan) -> list[tuple[str, str]]:
    """For a tight job: its mean says little about the cost if it must finish on demand."""
    likely = body.forecast
    if not likely or body.verdict != "tight":
        return []
    return [("worst tenth", f"{text.money(likely.p90)} or more; the expected cost is the mean of all")]


def _likely(likely: Forecast | None) -> list[tuple[str, str]]:
    if not likely:
        return []
    in_time = [] if likely.on_time is None else [("on time", f"{text.percent(likely.on_time)} likely")]
    return [*in_time, ("preemptions", f"{likely.preemptions:g} expected")]


def _list_price(body: Plan) -> str:
    if body.list_price_cost is None:
        return text.NONE
    return f"{text.money(body.list_price_cost)} ({text.plain(body.list_price)})"


def _time_left(body: Plan, now: datetime) -> str:
    return text.NONE if body.deadline is None else show_duration(body.deadline - now)


def _offers_to_rent(offers: list[PlannedOffer]) -> RenderableType:
    columns = ("MARKET", "MACHINE", "GPU", "TYPE", "BID", "DISK", "COST", "WHERE")
    rows = [
        (
            text.plain(offer.provider),
            text.plain(offer.machine_id),
            text.gpu(offer.num_gpus, offer.gpu),
            text.plain(offer.capacity_type).replace("_", " "),
            text.per_hour(offer.bid),
            text.per_hour(offer.storage_rate),
            text.money(offer.cost),
            text.plain(offer.location),
        )
        for offer in offers
    ]
    return table(columns, rows, right=("BID", "DISK", "COST"), drop=("DISK", "WHERE", "TYPE", "MACHINE"))


def options_weighed(notes: list[Note]) -> RenderableType:
    """The notes with topic ``option`` of one decision: the cost of each, and why it was chosen or not."""
    columns = ("  OPTION", "EXPECTED COST", "AT", "WHERE", "")
    return table(columns, [tell_option(note.numbers) for note in notes], right=("EXPECTED COST", "AT"))
