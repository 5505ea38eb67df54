"""What a job would cost, before it is accepted; and the reasons for not accepting it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from autopilot import render
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO, show
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.params import Params
from autopilot.domain.time import show_duration
from autopilot.planning.account_limits import AccountState, account_notes
from autopilot.planning.floor_prospects import Cheapest
from autopilot.planning.list_prices import hyperscaler_price
from autopilot.planning.prospects import Unlikely, may_begin, prospects
from autopilot.policy.budget import start_reserve
from autopilot.policy.eligibility import eligible
from autopilot.pricing.availability.forecast import Forecast
from autopilot.pricing.pressure import Verdict, measure_pressure
from autopilot.pricing.rule.cost import Candidate, best, price_candidates

ROWS = 8
SHOWN = Decimal("0.0001")


class OverBudget(UserError):
    """The money does not suffice for what is asked."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    answer: render.Json
    forecast: JobForecast | None
    """The one that the answer tells; None: nothing can be said."""
    may_begin: bool
    """Whether there is an offer now that the job would take, today or when its deadline asks for it."""
    least_rates: Mapping[str, Decimal]
    """By market: $/h that the cheapest machine there that fits costs at the most, disk included."""


def plan(
    job: Job,
    market: Market,
    now: datetime,
    params: Params,
    least_probability: float = LEAST_PROBABILITY,
    account: AccountState | None = None,
    spent: Decimal = ZERO,
    cheapest: Cheapest = MappingProxyType({}),
) -> JobPlan:
    """The choices as the policy ranks them, what the job will probably cost, and the verdict on deadline and budget.

    ``spent``: of the job so far, what is not posted yet included, $. ``cheapest``: the floors that were recorded.

    Blocking for a job with a deadline (about 1 s); call from a worker thread. Raises ``Unlikely`` for work that
    does not fit before the deadline, and ``OverBudget`` for a budget with which the job could not even start: less than
    one hour on the cheapest offer, or less than a safe start and stop there.
    """
    candidates = price_candidates(job, market, eligible(job, market, now, params), params)
    choice = best(candidates)
    on_demand = best(candidates, CapacityType.ON_DEMAND)
    if choice is not None and job.spec.budget is not None:
        _check_budget(job, min(candidates, key=lambda c: c.bid), job.spec.budget - job.spent, params)
    if measure_pressure(job, now, params).verdict is Verdict.WILL_MISS:
        raise Unlikely(
            "the work does not fit before the deadline, not even on demand from now on",
            hint="allow more time in [deadline], lower [work] estimate if it is too high, or drop the deadline",
        )
    likely = prospects(job, candidates, market, now, params, least_probability, cheapest)
    notes = [f"{len(candidates)} options, from {len(market.offers)} offers on the markets", *likely.notes]
    if choice is None:
        notes.append("no matching offers: the job would wait")
    elif job.remaining_work is None:
        notes.append(_by_the_hour(job, choice))
    expected = choice.cost if choice and job.remaining_work is not None else None
    if likely.forecast is not None:
        expected = _dollars(likely.forecast.mean)
    if account is not None:
        known = expected if job.remaining_work is not None else None  # else it is only the cost of a guessed length
        notes += account_notes(job, candidates, market, account, known, now, params)
    told = None if likely.forecast is None else forecast_of(job, likely.forecast, now, spent)
    answer = {
        "offers": [_row(c, job) for c in candidates[:ROWS]],
        "expected_cost": render.plain(expected),
        "on_demand_cost": render.plain(on_demand.cost) if on_demand else None,
        **_list_price(job, choice),
        "budget": render.plain(job.spec.budget),
        "deadline": render.plain(job.spec.deadline),
        "forecast": render.forecast(told),
        "array": None,
        "verdict": likely.verdict,
        "min_probability": least_probability,
        "refusal": likely.refusal,
        "ways_out": list(likely.ways_out),
        "notes": notes,
    }
    return JobPlan(answer, told, may_begin(job, candidates, market), _least_rates(job, candidates))


def _least_rates(job: Job, candidates: Iterable[Candidate]) -> dict[str, Decimal]:
    rates: dict[str, Decimal] = {}
    for each in candidates:
        rate = each.bid + each.offer.storage_rate(job.spec.disk_gb)
        rates[each.offer.provider] = min(rates.get(each.offer.provider, rate), rate)
    return rates


def _by_the_hour(job: Job, choice: Candidate) -> str:
    """For a job of unknown length: the cost of an hour, and the hours that its budget covers."""
    hour = choice.expected_price + choice.offer.storage_rate(job.spec.disk_gb)
    told = f"about {show(hour, 3)} an hour on {choice.offer.provider}, disk included"
    if job.spec.budget is None or hour <= 0:
        return told
    lasts = timedelta(hours=float(max(job.spec.budget - job.spent, Decimal(0)) / hour))
    return f"{told}: the budget of {show(job.spec.budget)} lasts about {show_duration(lasts)}"


def forecast_of(job: Job, likely: Forecast, now: datetime, spent: Decimal) -> JobForecast:
    """What was played through from ``now`` on, as it is kept and told."""
    soon, usual, late = (None, None, None) if likely.done_s is None else likely.done_s
    return JobForecast(
        job.id,
        now,
        spent,
        mean=_dollars(likely.mean),
        p10=_dollars(likely.p10),
        p50=_dollars(likely.p50),
        p90=_dollars(likely.p90),
        done_p10=_instant(now, soon),
        done_p50=_instant(now, usual),
        done_p90=_instant(now, late),
        on_time=None if job.spec.deadline is None else round(likely.on_time, 3),
        finished=round(likely.finished, 3),
        parked=round(likely.parked, 3),
        preemptions=round(likely.preemptions, 1),
    )


def _instant(now: datetime, after_s: float | None) -> datetime | None:
    return None if after_s is None else now + timedelta(seconds=round(after_s))


def _list_price(job: Job, choice: Candidate | None) -> render.Json:
    """What the same work would cost by a hyperscaler's on-demand price list, where it has such a GPU."""
    price = hyperscaler_price(choice.offer.gpu) if choice else None
    if price is None or choice is None or choice.work is None:
        return {"list_price_cost": None, "list_price": None}
    hours = Decimal(str(choice.work / timedelta(hours=1)))
    cost = (price.low * choice.offer.num_gpus * hours).quantize(SHOWN)
    return {"list_price_cost": render.plain(cost), "list_price": price.source}


def _dollars(amount: float) -> Decimal:
    return Decimal(amount).quantize(SHOWN)


def ranked_offers(job: Job, market: Market, params: Params) -> list[render.Json]:
    """Every offer, those that fit first, by what an hour of useful work costs there: the same unit on all markets.

    ``cost_per_work_h`` is the cost to finish on the offer, set-up, storage, traffic and expected interruptions
    included, over the hours that the work takes on the GPU that the job's estimate is for.
    """
    hours = Decimal(str((job.remaining_work or timedelta(seconds=params.deadline.horizon_s)) / timedelta(hours=1)))
    rows: list[tuple[Decimal, render.Json]] = []
    for offer in market.offers:
        row = render.offer(offer, job, job.spec.disk_gb)
        candidate = best(price_candidates(job, market, (offer,), params)) if row["eligible"] else None
        per_hour = (candidate.cost / hours).quantize(SHOWN) if candidate else None
        row |= {
            "capacity_type": candidate.capacity_type if candidate else None,
            "bid": render.plain(candidate.bid) if candidate else None,
            "setup_s": render.plain(candidate.setup) if candidate else None,
            "cost_per_work_h": render.plain(per_hour),
        }
        rows.append((Decimal("Infinity") if per_hour is None else per_hour, row))
    return [row for _, row in sorted(rows, key=lambda pair: (pair[0], pair[1]["provider"], pair[1]["machine_id"]))]


def _check_budget(job: Job, cheapest: Candidate, budget: Decimal, params: Params) -> None:
    storage = cheapest.offer.storage_rate(job.spec.disk_gb)
    hour = cheapest.bid + storage
    reserve = start_reserve(job, cheapest.offer, cheapest.bid, params)
    needed = max(hour, reserve)
    if budget < needed:
        raise OverBudget(
            f"a budget of {show(budget)} does not cover one hour of the cheapest offer"
            f" ({show(needed, 3)} on {cheapest.offer.provider}, {cheapest.offer.gpu}, disk included)",
            hint="raise [budget] total, or ask for a cheaper GPU or a smaller disk in [resources]",
        )


def _row(candidate: Candidate, job: Job) -> render.Json:
    row = render.offer(candidate.offer, job, job.spec.disk_gb)
    return row | {
        "capacity_type": candidate.capacity_type,
        "bid": render.plain(candidate.bid),
        "cost": render.plain(candidate.cost),
    }
