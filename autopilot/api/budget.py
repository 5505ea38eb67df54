"""Where the money stands: limits, what is spent and committed against them, and how long it lasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from autopilot.api import render
from autopilot.api.account_limits import AccountState
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import LeaseBooks
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.params import Params
from autopilot.domain.time import month_bounds, start_of_day
from autopilot.engine.accrue import accruals
from autopilot.engine.engine import Engine
from autopilot.policy.budget import commitment, unobserved_cost
from autopilot.policy.guard import Exposure, Limits, allowance
from autopilot.ports.store import Store, Totals

LONGEST = timedelta(days=3650)


async def budget(engine: Engine, store: Store, now: datetime) -> render.Json:
    params, limits = engine.config.params, engine.config.limits
    jobs, leases, beyond, totals = await _read(store, now, params)
    credits = {name: watch.last.credit for name, watch in engine.watches.items()}
    return {
        "now": render.plain(now),
        "currency": "USD",
        "account": _account(leases, beyond, totals, limits, credits, now, params),
        "jobs": [_job(job, beyond, now, params) for job in jobs],
    }


async def account(store: Store, limits: Limits, now: datetime, params: Params) -> AccountState:
    """The account's limits, and what they still leave."""
    _, leases, beyond, totals = await _read(store, now, params)
    more = sum(beyond.values(), ZERO)
    live = tuple(lease for lease in leases if not lease.is_over)
    exposure = Exposure(live, totals.day + more, totals.month + more)
    return AccountState(limits, allowance(exposure, limits, params))


async def _read(
    store: Store, now: datetime, params: Params
) -> tuple[tuple[Job, ...], list[Lease], dict[str, Decimal], Totals]:
    """Open jobs; the leases of theirs and of none; what each of these costs beyond what is posted; what is posted."""
    async with store.snapshot() as uow:
        jobs = await uow.jobs.list_open()
        orphans = await uow.leases.list_orphans()
        leases = [*(lease for job in jobs for lease in job.leases), *orphans]
        books = await uow.ledger.sum_books([lease.id for lease in leases])
        totals = await uow.ledger.sum_totals(now.astimezone(UTC).date())
    return jobs, leases, {lease.id: _beyond_posted(lease, books[lease.id], now, params) for lease in leases}, totals


def burning(leases: Iterable[Lease]) -> Decimal:
    """$/h that is being billed now, as the market last said."""
    open_spans = (lease.spans[-1] for lease in leases if lease.spans and lease.spans[-1].ended_at is None)
    return sum((span.billed_rate + span.storage_rate for span in open_spans), ZERO)


def lasts(left: Decimal | None, burn: Decimal) -> timedelta | None:
    """How long ``left`` lasts at that burn ($/h); None: for ever."""
    if left is None or burn <= ZERO:
        return None
    if left <= ZERO:
        return timedelta(0)
    hours = left / burn
    return timedelta(hours=float(hours)) if hours < LONGEST // timedelta(hours=1) else None


def _beyond_posted(lease: Lease, books: LeaseBooks, now: datetime, params: Params) -> Decimal:
    """What has accrued and is not posted, and what the market may have billed since it last gave word."""
    due, unposted = accruals(lease, books.accrued, now)
    return unposted + sum((entry.amount for entry in due), ZERO) + unobserved_cost(lease, now, params)


def _account(
    leases: Sequence[Lease],
    beyond: dict[str, Decimal],
    totals: Totals,
    limits: Limits,
    credits: dict[str, Decimal | None],
    now: datetime,
    params: Params,
) -> render.Json:
    day_end, month_end = _ends(now)
    spent_day, spent_month = (posted + sum(beyond.values(), ZERO) for posted in (totals.day, totals.month))
    committed = sum((commitment(lease, params) for lease in leases), ZERO)
    burn = burning(leases)
    left_month = None if limits.month is None else limits.month - spent_month - committed
    forecast = spent_month + accrue(burn, month_end - now)
    return {
        "day": _against(limits.day, spent_day, committed, burn, day_end - now),
        "month": _against(limits.month, spent_month, committed, burn, month_end - now),
        "max_hourly": render.plain(limits.max_hourly),
        "max_instances": limits.max_instances,
        "instances": sum(not lease.is_over for lease in leases),
        "burn": render.plain(burn),
        "burn_at_most": render.plain(sum((lease.burn_upper for lease in leases if not lease.is_over), ZERO)),
        "runway_s": render.plain(lasts(left_month, burn)),
        "month_ends_at": render.plain(month_end),
        "forecast_month": render.plain(
            forecast if limits.month is None else min(forecast, max(limits.month, spent_month))
        ),
        "forecast_reaches_limit": limits.month is not None and forecast > limits.month,
        "markets": [
            {
                "name": name,
                "credit": render.plain(credit),
                "burn": render.plain(here := burning(lease for lease in leases if lease.provider == name)),
                "runway_s": render.plain(lasts(credit, here)),
            }
            for name, credit in credits.items()
        ],
    }


def _job(job: Job, beyond: dict[str, Decimal], now: datetime, params: Params) -> render.Json:
    spent = job.spent + sum((beyond[lease.id] for lease in job.leases), ZERO)
    committed = sum((commitment(lease, params) for lease in job.leases), ZERO)
    burn = burning(job.leases)
    remaining = job.remaining_work
    forecast = None if remaining is None or not burn else spent + accrue(burn, remaining)
    return {
        "id": job.id,
        "name": job.spec.name,
        "status": job.status,
        **_against(job.spec.budget, spent, committed, burn, None),
        "max_rate": render.plain(job.spec.max_rate),
        "burn": render.plain(burn),
        "forecast": render.plain(forecast),
    }


def _against(
    limit: Decimal | None, spent: Decimal, committed: Decimal, burn: Decimal, ends_in: timedelta | None
) -> render.Json:
    """``runway_s`` None: the limit is not reached at this burn (before its period ends)."""
    left = None if limit is None else limit - spent - committed
    runway = lasts(left, burn)
    if runway is not None and ends_in is not None and runway > ends_in:
        runway = None
    return {
        "limit": render.plain(limit),
        "spent": render.plain(spent),
        "committed": render.plain(committed),
        "left": render.plain(left),
        "runway_s": render.plain(runway),
    }


def _ends(now: datetime) -> tuple[datetime, datetime]:
    """The ends of the UTC day and month."""
    today = now.astimezone(UTC).date()
    tomorrow = datetime.combine(today + timedelta(days=1), time(), UTC)
    return tomorrow, start_of_day(month_bounds(f"{today:%Y-%m}")[1])
