"""Certifications over the control API: start one, show its progress, accept a claim that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot import render
from autopilot.api.confirmations import PlanBook
from autopilot.certify.claim import HOW, CertifyFacts, MarketClaim
from autopilot.certify.job import spec_for
from autopilot.domain.certificate import MAY_BE_TRIED, ClaimFinding, ClaimVerdict, Lack
from autopilot.domain.errors import UserError
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.market import UncertifiedRoom
from autopilot.domain.money import ZERO, show
from autopilot.domain.offer import DeadMan
from autopilot.domain.reasons import Reason
from autopilot.domain.reconciliation import newest_revisions
from autopilot.domain.token import Token
from autopilot.engine.engine import Engine
from autopilot.engine.event_log import claim_accepted
from autopilot.engine.outstanding import Money
from autopilot.markets.installed import claims_of, facts_of
from autopilot.planning.gpu_check import check_gpus
from autopilot.policy.proof import LONGEST, most_cost
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import EventRecord, Store, UnitOfWork
from autopilot.words.certificates import tell_command


class CertifyService:
    def __init__(
        self, engine: Engine, store: Store, clock: Clock, ids: Ids, wake: Callable[[], None], plans: PlanBook
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._ids = ids
        self._wake = wake
        self._plans = plans

    async def begin(
        self, market: str, budget: Decimal, gpus: tuple[str, ...], *, owner: int, token: Token | None, plan_id: str = ""
    ) -> render.Json:
        """``token``, ``plan_id``: as for a submit. It costs money like any job, and a person is asked alike.

        Raises ``UserError``: no such market or GPU, a budget out of bounds, one under way already; ``ConfirmFirst``.
        """
        facts = self._check(market)
        now = self._clock.now()
        spec = spec_for(market, facts, budget, gpus, now)
        if gpus:
            spec = await check_gpus(spec, self._engine)
        job = Job(self._ids.new(), spec, JobStatus.PENDING, Reason.SUBMITTED, now, owner=owner, certifies=market)
        with self._plans.asking(token, f"certify {market}", spec, [market, str(budget), list(gpus)], plan_id):
            async with self._store.transaction() as uow:
                under_way = next((each for each in await uow.jobs.list_open() if each.certifies == market), None)
                if under_way is not None:
                    hint = f"autopilot certify {market} --resume shows it, autopilot cancel {under_way.id} ends it"
                    raise UserError(f"{market} is already being certified", hint=hint)
                await uow.jobs.save(job)
                await uow.events.add([EventRecord(now, "job.submitted", job.id, None, (("name", spec.name),))])
        self._wake()
        return {"job": render.job(job, now, self._engine.config.params, Money())}

    async def report(self, market: str) -> render.Json:
        """The newest certification, claim by claim, with what it cost; what use has shown since takes its place.

        Raises ``UserError``.
        """
        self._check(market)
        async with self._store.snapshot() as uow:
            newest = dict(await uow.certificates.newest_certifications()).get(market)
            job = await uow.jobs.find(newest) if newest else None
            found = {each.claim: each for each in await uow.certificates.list_findings(newest)} if newest else {}
            for each in await uow.certificates.list_findings_on(market):
                if each.used_on and (each.claim not in found or found[each.claim].at < each.at):
                    found[each.claim] = each
            cost = await _cost(uow, job)
            marks = await uow.certificates.list_marks(newest) if newest else ()
        return {
            "market": market,
            "certificate": certificate(self._engine, market, self._clock.now()),
            "certification": None if job is None else {"id": job.id, "status": job.status, "reason": job.reason},
            "steps": [{"step": mark.step, "over": mark.over_at is not None} for mark in marks],
            "claims": [_claim(claim, found.get(claim.id)) for claim in claims_of(market)],
            **cost,
        }

    async def accept(self, market: str, claim: str) -> render.Json:
        """Let new machines be rented although the claim does not hold. Raises ``UserError``."""
        self._check(market)
        now = self._clock.now()
        async with self._store.transaction() as uow:
            every = await uow.certificates.list_findings_on(market)
            found = {each.claim: each for each in every if each.verdict is not ClaimVerdict.NOT_SEEN}
            if claim not in found or found[claim].verdict is not ClaimVerdict.BROKEN:
                broken = ", ".join(sorted(name for name, each in found.items() if each.verdict is ClaimVerdict.BROKEN))
                raise UserError(f"no claim {claim!r} of {market} was found broken", hint=f"broken: {broken or 'none'}")
            accepted = replace(found[claim], accepted_at=now)
            await uow.certificates.save_findings([accepted])
            await uow.events.add([claim_accepted(market, accepted, now)])
            await self._engine.certification.load(uow, now)
        self._wake()
        return {"market": market, "claim": claim, "accepted_at": render.plain(now)}

    def _check(self, market: str) -> CertifyFacts:
        names = sorted(name for name in self._engine.watches if claims_of(name))
        facts = facts_of(market) if market in names else None
        if facts is None:
            hint = f"markets that can be: {', '.join(names) or 'none is configured'}"
            raise UserError(f"{market!r} cannot be certified", hint=hint)
        return facts.certify


def certificate(engine: Engine, market: str, now: datetime) -> render.Json:
    """``lack``: why nothing new may be rented there; None if it may. ``status``: what the certificate lacks."""
    held = engine.certification.statuses.get(market)
    found = None if held is None else held.certificate
    room = engine.uncertified_rooms().get(market)
    return {
        "lack": engine.certification.lack_of(market, now),
        "status": held.lack if held is not None else Lack.MISSING,
        "issued_at": render.plain(found.issued_at) if found else None,
        "ends_at": render.plain(found.ends_at) if found else None,
        "ended_because": found.ended_because if found else "",
        "version": found.version if found else None,
        "account": found.account if found else None,
        "broken": list(held.broken) if held else [],
        "uncertified": None if room is None else render.plain(room.allowance),
        "uncertified_left": None if room is None else render.plain(room.left),
        "proved_until": None if room is None else render.plain(room.proof.ends_at),
    }


def certificate_notes(engine: Engine, least_rates: Mapping[str, Decimal], now: datetime) -> list[str]:
    """For a plan: markets on which nothing new is rented, what proving one will cost, and certificates that end soon.

    ``least_rates``: as the plan found them.
    """
    notes = []
    for market in sorted(engine.watches):
        lack = engine.certification.lack_of(market, now)
        if lack is None:
            continue
        told = f"nothing new is rented on {market}"
        room = engine.uncertified_rooms().get(market)
        if room is not None and lack in MAY_BE_TRIED:
            left = f"{show(max(room.left, ZERO))} of the {show(room.allowance)} of limits.uncertified"
            told = f"{market} is rented from for the {left} that are left, "
            told += _tell_proof(engine, market, room, least_rates.get(market))
        notes.append(f"{told}: its certificate is {LACKS[lack]} ({tell_command(market, lack)})")
    for note in engine.certification.notes(now):
        numbers = dict(note.numbers)
        day = str(numbers["ends_at"])[:10]
        market = str(numbers["provider"])
        notes.append(f"the certificate of {market} ends on {day} ({tell_command(market)} renews it)")
    return notes


def _tell_proof(engine: Engine, market: str, room: UncertifiedRoom, per_hour: Decimal | None) -> str:
    """What use has proved, and what the next proof may cost before anything is paid for it.

    ``per_hour``: $ of the machine that would be rented now; None: there is none.
    """
    told = "one machine at a time"
    if room.proof.ends_at is not None:
        told = f"proved by use until {room.proof.ends_at:%Y-%m-%d}"
    is_asked = room.proof.is_due and engine.watches[market].provider.capabilities.dead_man is DeadMan.DESTROYS
    if not is_asked:
        return told
    minutes = round(LONGEST / timedelta(minutes=1))
    told = (
        f"{told}; after the first job that ends well there its permit is let run out, to see its machine go: "
        f"up to {minutes} minutes at its price"
    )
    if per_hour is None:
        return told
    return f"{told}, {show(most_cost(per_hour), 3)} at the present {show(per_hour, 3)} an hour"


LACKS = {
    Lack.MISSING: "missing",
    Lack.EXPIRED: "over",
    Lack.ENDED: "ended: a field that carries money was not what it was",
    Lack.OTHER_ACCOUNT: "another account's",
    Lack.OTHER_VERSION: "another version's",
    Lack.CLAIM_BROKEN: "stopped by a claim that does not hold",
    Lack.CERTIFYING_ONLY: "being made: the daemon was started with --certify-only",
}


def _claim(claim: MarketClaim, finding: ClaimFinding | None) -> render.Json:
    unsettled = "open" if claim.step is None else "waiting"
    return {
        "id": claim.id,
        "sentence": claim.sentence,
        "verdict": unsettled if finding is None else finding.verdict,
        "matters": claim.matters,
        "settled_by": HOW[claim.step] if claim.step else "",
        "changes": claim.changes,
        "at": render.plain(finding.at) if finding else None,
        "accepted_at": render.plain(finding.accepted_at) if finding else None,
        "seen": {name: render.plain(value) for name, value in finding.numbers} if finding else {},
    }


async def _cost(uow: UnitOfWork, job: Job | None) -> render.Json:
    """Dollars by our ledger and by the market's bill; the bill None until it shows a line."""
    if job is None:
        return {"budget": None, "ledger": None, "billed": None}
    leases = [lease.id for lease in await uow.leases.list_by_job(job.id)]
    lines = newest_revisions(await uow.invoices.list_by_lease(leases)).values()
    accrued = ZERO
    for books in (await uow.ledger.sum_books(leases)).values():
        accrued += sum(books.accrued.values(), ZERO)
    billed = sum((line.amount for line in lines if line.kind is not CostKind.CREDIT), ZERO)
    return {
        "budget": render.plain(job.spec.budget),
        "ledger": render.plain(accrued),
        "billed": render.plain(billed) if lines else None,
    }
