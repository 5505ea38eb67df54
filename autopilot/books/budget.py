"""Limits; what is posted, accrued and reserved against them; and the runway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from autopilot.answers.money import (
    AccountLaunches,
    AccountMoney,
    Against,
    Budget,
    JobLaunches,
    JobMoney,
    MarketMoney,
    ScheduleMoney,
    TokenMoney,
)
from autopilot.books.owners import name_makers
from autopilot.domain.delegation import NO_LIMITED_USERS, Delegation, Settled
from autopilot.domain.job import Job
from autopilot.domain.launches import NO_LAUNCHES, LaunchCount
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.params import Params
from autopilot.domain.time import month_bounds, start_of_day
from autopilot.engine.engine import Engine
from autopilot.engine.outstanding import Moment, Money, Outstanding, money, read_moment
from autopilot.planning.account_limits import AccountState
from autopilot.policy.guard import Exposure, Limits, allowance
from autopilot.ports.store import OwnerTotals, Totals, UnitOfWork

LONGEST = timedelta(days=3650)


async def budget(
    uow: UnitOfWork,
    moment: Moment,
    limits: Limits,
    credits: Mapping[str, Decimal | None],
    owner: int | None = None,
    settled: Settled = NO_LIMITED_USERS,
) -> Budget:
    """``credits``: of each market; ``owner``: whose jobs it is about, without the account; None: all.

    ``settled``: whom the settings limit."""
    whole = await read_account(uow, moment, limits, credits) if owner is None else None
    launches = await uow.leases.count_launches(moment.now - timedelta(minutes=10))
    return Budget(
        now=moment.now,
        currency="USD",
        account=whole,
        jobs=[
            _job(job, moment, _job_launches(launches.get(job.id, NO_LAUNCHES), limits))
            for job in moment.jobs
            if job.array_id is None  # what tasks cost and hold is their array's
            if owner in (None, job.owner)
        ],
        tokens=await _read_tokens(uow, moment, owner, settled),
        schedules=await _read_schedules(uow, moment, owner),
    )


def credits_of(engine: Engine) -> dict[str, Decimal | None]:
    """By market; None: it is not known."""
    return {name: watch.last.credit for name, watch in engine.watches.items()}


async def read_account(
    uow: UnitOfWork, moment: Moment, limits: Limits, credits: Mapping[str, Decimal | None]
) -> AccountMoney:
    """``credits``: of each market that is to be shown."""
    outstanding, now = list(moment.outstanding.values()), moment.now
    launches = _launches(await _count_hour(uow, now), limits)
    return _account(outstanding, await _read_totals(uow, now), limits, credits, now, launches)


async def account(uow: UnitOfWork, limits: Limits, now: datetime, params: Params) -> AccountState:
    """The account's limits, and what they still leave."""
    outstanding = (await read_moment(uow, now, params)).outstanding.values()
    totals = await _read_totals(uow, now)
    live = tuple(each.lease for each in outstanding if not each.lease.is_over)
    more = sum((each.accrued_total + each.unobserved for each in outstanding), ZERO)
    held = sum((each.held_total - each.unobserved for each in outstanding if each.lease.is_over), ZERO)
    exposure = Exposure(live, totals.day + more, totals.month + more, held=held)
    return AccountState(limits, allowance(exposure, limits, params), await _count_hour(uow, now))


async def _read_tokens(uow: UnitOfWork, moment: Moment, owner: int | None, settled: Settled) -> list[TokenMoney]:
    """Each allowance of a user, or of a token that is in force or has open jobs, and what counts against it: what all
    that it has made have spent, too."""
    owners, now = {job.id: job.owner for job in moment.jobs}, moment.now
    tokens = await uow.tokens.list_all()
    delegation = Delegation(tokens, settled)
    shown = [token for token in (*settled.users, *map(delegation.limit, tokens)) if owner in (None, token.owner)]
    makers = await name_makers(uow, shown)
    rows = []
    for token in shown:
        family = delegation.family(token.owner)
        if token.allowance is None or not (token.is_in_force(now) or family & set(owners.values())):
            continue
        sums = await uow.ledger.sum_owners(family, token.counts_from(now))
        live = [each for each in moment.outstanding.values() if owners.get(each.lease.job_id or "") in family]
        rows.append(
            TokenMoney(
                name=token.name,
                number=token.number,
                is_monthly=token.is_monthly,
                made_by=makers[token.number],
                **vars(_against_sums(token.allowance, sums, live)),
            )
        )
    return rows


async def _read_schedules(uow: UnitOfWork, moment: Moment, owner: int | None) -> tuple[ScheduleMoney, ...]:
    """Each active one with a budget over all firings, and what counts against it."""
    firings = {job.id: job.schedule_id for job in moment.jobs}
    rows = []
    for schedule in await uow.schedules.list_live():
        if schedule.budget is None or owner not in (None, schedule.owner):
            continue
        sums = await uow.ledger.sum_schedule(schedule.id, schedule.counts_from(moment.now))
        live = [each for each in moment.outstanding.values() if firings.get(each.lease.job_id or "") == schedule.id]
        against = _against_sums(schedule.budget, sums, live)
        is_monthly = schedule.cadence.is_monthly
        rows.append(ScheduleMoney(id=schedule.id, name=schedule.spec.name, is_monthly=is_monthly, **vars(against)))
    return tuple(rows)


def _against_sums(limit: Decimal, sums: OwnerTotals, live: Sequence[Outstanding]) -> Against:
    """``live``: machines whose bill is not complete. What is held for those that are gone is in ``sums``."""
    held = sum((each.held_total for each in live if not each.lease.is_over), sums.held)
    total = Money(sums.posted, sum((each.accrued_total for each in live), ZERO), held)
    return _against(limit, total, burning(each.lease for each in live), None)


async def _read_totals(uow: UnitOfWork, now: datetime) -> Totals:
    return await uow.ledger.sum_totals(now.astimezone(UTC).date())


async def _count_hour(uow: UnitOfWork, now: datetime) -> LaunchCount:
    """Launches of all jobs in the last hour."""
    return sum((await uow.leases.count_launches(now - timedelta(hours=1))).values(), NO_LAUNCHES)


def _launches(count: LaunchCount, limits: Limits) -> AccountLaunches:
    """In the last hour, against the account's limits."""
    return AccountLaunches(
        rented=count.rented,
        limit=limits.launches_per_hour,
        kept_back=limits.kept_back_per_hour,
        refused=count.refused,
        refused_limit=limits.refused_per_hour,
    )


def _job_launches(count: LaunchCount, limits: Limits) -> JobLaunches:
    """In the last ten minutes, against the limits of a job."""
    return JobLaunches(
        rented=count.rented,
        limit=limits.launches_per_job_10min,
        refused=count.refused,
        refused_limit=limits.refused_per_job_10min,
    )


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


def _account(
    outstanding: Sequence[Outstanding],
    totals: Totals,
    limits: Limits,
    credits: Mapping[str, Decimal | None],
    now: datetime,
    launches: AccountLaunches,
) -> AccountMoney:
    day_end, month_end = _ends(now)
    leases = [each.lease for each in outstanding]
    day, month = money(totals.day, outstanding), money(totals.month, outstanding)
    burn = burning(leases)
    left_month = None if limits.month is None else limits.month - sum(month, ZERO)
    spent_month = month.posted + month.accrued
    forecast = spent_month + accrue(burn, month_end - now)
    return AccountMoney(
        day=_against(limits.day, day, burn, day_end - now),
        month=_against(limits.month, month, burn, month_end - now),
        held_for=_purposes(outstanding),
        max_hourly=limits.max_hourly,
        max_instances=limits.max_instances,
        instances=sum(not lease.is_over for lease in leases),
        burn=burn,
        burn_at_most=sum((lease.burn_upper for lease in leases if not lease.is_over), ZERO),
        runway_s=_seconds(lasts(left_month, burn)),
        month_ends_at=month_end,
        forecast_month=forecast if limits.month is None else min(forecast, max(limits.month, spent_month)),
        forecast_reaches_limit=limits.month is not None and forecast > limits.month,
        markets=[_market(name, credit, leases) for name, credit in credits.items()],
        launches=launches,
    )


def _market(name: str, credit: Decimal | None, leases: Iterable[Lease]) -> MarketMoney:
    burn = burning(lease for lease in leases if lease.provider == name)
    return MarketMoney(name=name, credit=credit, burn=burn, runway_s=_seconds(lasts(credit, burn)))


def _job(job: Job, moment: Moment, launches: JobLaunches) -> JobMoney:
    total = moment.money_of(job)
    outstanding = moment.of_whole(job)
    burn = burning(each.lease for each in outstanding)
    remaining = None if job.is_array else job.remaining_work
    return JobMoney(
        id=job.id,
        name=job.spec.name,
        status=job.status,
        **vars(_against(job.spec.budget, total, burn, None)),
        held_for=_purposes(outstanding),
        max_rate=job.spec.max_rate,
        burn=burn,
        forecast=None if remaining is None or not burn else total.posted + total.accrued + accrue(burn, remaining),
        launches=launches,
    )


def _purposes(outstanding: Iterable[Outstanding]) -> dict[str, Decimal]:
    """The reserves, by purpose."""
    sums: dict[str, Decimal] = {}
    for held in (held for each in outstanding for held in each.held):
        sums[held.purpose] = sums.get(held.purpose, ZERO) + held.amount
    return dict(sorted(sums.items()))


def _against(limit: Decimal | None, total: Money, burn: Decimal, ends_in: timedelta | None) -> Against:
    """``runway_s`` None: the limit is not reached at this burn (before its period ends)."""
    left = None if limit is None else limit - sum(total, ZERO)
    runway = lasts(left, burn)
    if runway is not None and ends_in is not None and runway > ends_in:
        runway = None
    return Against(limit=limit, **total._asdict(), left=left, runway_s=_seconds(runway))


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _ends(now: datetime) -> tuple[datetime, datetime]:
    """The ends of the UTC day and month."""
    today = now.astimezone(UTC).date()
    tomorrow = datetime.combine(today + timedelta(days=1), time(), UTC)
    return tomorrow, start_of_day(month_bounds(f"{today:%Y-%m}")[1])
