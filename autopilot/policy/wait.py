"""Why a job rents nothing: what was looked for, what each condition left of it, and what came nearest."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from math import inf

from autopilot.domain.actions import Note
from autopilot.domain.host import describe
from autopilot.domain.job import GpuChoice, Job, JobSpec, SpotPolicy, Trust
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.offer import Capabilities, Offer
from autopilot.domain.params import Params
from autopilot.policy.eligibility import Unfit, judge
from autopilot.pricing.rule.bidding import bounds, first_bid

SEARCH, REMOVED, UNSEARCHED = "search", "removed", "unsearched"
"""Topics of the notes: the search as a whole, one condition that removed offers, a market without an answer."""


def wait_notes(job: Job, market: Market, now: datetime, params: Params) -> tuple[Note, ...]:
    """The search, then each condition with the offers that it removed, those first where the least is missing.

    An offer is counted once, for the first condition that it does not meet. One that could be rented on demand alone
    counts for what keeps a bid from it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    nearest: dict[tuple[str, str], tuple[float, Decimal, tuple[str, str, int], Offer, Unfit]] = {}
    only_on_demand = 0
    for offer, unmet in judge(job, market, now, params):
        unfit, has_other_way = _with_price(job.spec, offer, unmet, market, params)
        if unfit is None:
            continue
        only_on_demand += has_other_way
        # Each market has a certificate of its own.
        cause = unfit.condition, offer.provider if unfit.is_uncertified else ""
        counts[cause] += 1
        # The key last: of equals the same one is nearest, in any order of arrival.
        found = (_gap(unfit), offer.floor or offer.on_demand_price or ZERO, offer.key, offer, unfit)
        if cause not in nearest or found[:3] < nearest[cause][:3]:
            nearest[cause] = found
    ranked = sorted(nearest.items(), key=lambda each: each[1][:3])
    fitting = len(market.offers) - counts.total()
    return (
        _search_note(job.spec, len(market.offers), fitting, only_on_demand),
        *(_removed_note(offer, unfit, counts[cause]) for cause, (*_, offer, unfit) in ranked),
        *(
            Note(UNSEARCHED, (("provider", name), ("problem", view.search_problem)))
            for name, view in sorted(market.providers.items())
            if view.search_problem
        ),
    )


def _search_note(spec: JobSpec, offers: int, fitting: int, only_on_demand: int) -> Note:
    return Note(
        SEARCH,
        (
            ("gpus", " or ".join(map(_gpu_words, spec.gpus))),
            ("min_vram_gb", spec.min_vram_gb or None),
            ("disk_gb", spec.disk_gb),
            ("trust", None if spec.trust is Trust.ANY else spec.trust),
            ("host", describe(spec.host) or None),
            ("policy", None if spec.spot_policy is SpotPolicy.AUTO else spec.spot_policy),
            ("offers", offers),
            ("fitting", fitting),
            ("only_on_demand", only_on_demand or None),
        ),
    )


def _gpu_words(gpu: GpuChoice) -> str:
    return f"{gpu.count}×{gpu.name}"


def _removed_note(nearest: Offer, unfit: Unfit, count: int) -> Note:
    return Note(
        REMOVED,
        (
            ("condition", unfit.condition),
            ("offers", count),
            ("has", unfit.has),
            ("wanted", unfit.wanted),
            ("provider", nearest.provider),
            ("machine_id", nearest.machine_id),
            ("price", nearest.floor or nearest.on_demand_price),
        ),
    )


def _gap(unfit: Unfit) -> float:
    """By how much the condition is not met, as a share of what is wanted; what is no matter of degree comes last."""
    if unfit.missing is not None:
        return unfit.missing
    if unfit.has is None or not unfit.wanted:
        return inf
    return abs(float(unfit.has) - float(unfit.wanted)) / abs(float(unfit.wanted))


def _with_price(
    spec: JobSpec, offer: Offer, unmet: Unfit | None, market: Market, params: Params
) -> tuple[Unfit | None, bool]:
    """``unmet``, or what is wrong with the price; a certificate is wanting only where its price would do."""
    if unmet is not None and not unmet.is_uncertified:
        return unmet, False
    unfit, has_other_way = _price_misfit(spec, offer, market, params)
    return (unmet, False) if unmet is not None and (unfit is None or has_other_way) else (unfit, has_other_way)


def _price_misfit(spec: JobSpec, offer: Offer, market: Market, params: Params) -> tuple[Unfit | None, bool]:
    """Why an offer that fits cannot be had by a bid, or at all; and whether it could be had on demand even so."""
    able = market.providers[offer.provider].capabilities
    on_demand = _unfit_on_demand(spec, offer, able)
    if spec.spot_policy is SpotPolicy.ON_DEMAND:
        return on_demand, False
    spot = _unfit_for_a_bid(spec, offer, able, params)
    if spot is not None and any(lost.concerns(offer) for lost in market.lost_bids):
        spot = Unfit("lost_bid", spot.has, spot.wanted)
    if spot is None or spec.spot_policy is SpotPolicy.SPOT:
        return spot, False
    return (spot, True) if on_demand is None else (min(spot, on_demand, key=_gap), False)


def _unfit_for_a_bid(spec: JobSpec, offer: Offer, able: Capabilities, params: Params) -> Unfit | None:
    if not able.spot or offer.floor is None:
        return Unfit("no_spot")
    bid = first_bid(spec, offer, params)
    if bid is not None:
        return _over_rate(spec, offer, bid)
    limits = bounds(spec, offer.on_demand_price, params)
    if not limits:
        return Unfit("no_bound")
    name, limit = min(limits.items(), key=lambda each: each[1])
    return Unfit(name, offer.floor, limit)


def _unfit_on_demand(spec: JobSpec, offer: Offer, able: Capabilities) -> Unfit | None:
    price = offer.on_demand_price
    if not able.on_demand or price is None:
        return Unfit("no_on_demand")
    if spec.max_hourly is not None and price > spec.max_hourly:
        return Unfit("max_hourly_on_demand", price, spec.max_hourly)
    return _over_rate(spec, offer, price)


def _over_rate(spec: JobSpec, offer: Offer, price: Decimal) -> Unfit | None:
    rate = price + offer.storage_rate(spec.disk_gb)
    return Unfit("max_rate", rate, spec.max_rate) if spec.max_rate is not None and rate > spec.max_rate else None
