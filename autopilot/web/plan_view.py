"""A plan as the page shows it: the figures of ``autopilot plan``."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from autopilot.answers.plans import Plan, PlannedOffer
from autopilot.web import words
from autopilot.web.shapes import Figure
from autopilot.words import text


class OfferLine(NamedTuple):
    market: str
    machine: str
    gpu: str
    how: str
    bid: str
    disk: str
    cost: str
    where: str


class PlanView(NamedTuple):
    refusal: str
    """Why a submit would be refused; empty: it would not."""
    hints: list[str]
    figures: list[Figure]
    offers: list[OfferLine]
    notes: list[str]


def view_plan(plan: Plan, now: datetime) -> PlanView:
    return PlanView(
        words.plain(plan.refusal) if plan.refusal else "",
        [words.plain(way) for way in plan.ways_out],
        _list_figures(plan, now),
        [_line(offer) for offer in plan.offers],
        [words.plain(note) for note in plan.notes],
    )


def _list_figures(plan: Plan, now: datetime) -> list[Figure]:
    likely, figures = plan.forecast, []
    span = f"{words.money(likely.p10)} to {words.money(likely.p90)} in 8 of 10 markets" if likely else ""
    figures.append(Figure("Expected cost", words.money(plan.expected_cost), span or "at current prices"))
    if likely and likely.on_time is not None:
        due = words.duration(plan.deadline - now) if plan.deadline else ""
        figures.append(Figure("On time", words.whole(text.percent(likely.on_time)), f"chance, within {due}"))
    else:
        figures.append(Figure("On time", "-", "the job has no deadline"))
    preempted = f"{likely.preemptions:g} preemptions expected" if likely else "no forecast"
    figures.append(Figure("Budget", "none" if plan.budget is None else words.money(plan.budget), preempted))
    figures.append(Figure("On demand", words.money(plan.on_demand_cost), "for the same work, without bidding"))
    listed = words.plain(plan.list_price) if plan.list_price else "no list price is known"
    figures.append(Figure("List price", words.money(plan.list_price_cost), listed))
    return figures


def _line(offer: PlannedOffer) -> OfferLine:
    return OfferLine(
        words.market(offer.provider),
        words.plain(offer.machine_id),
        f"{offer.num_gpus} × {words.plain(offer.gpu)}",
        words.capacity(offer.capacity_type),
        words.per_hour(offer.bid),
        words.per_hour(offer.storage_rate),
        words.money(offer.cost),
        words.plain(offer.location),
    )
