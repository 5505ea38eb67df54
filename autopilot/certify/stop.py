"""The steps that stop a machine and start it again by a bid, on markets where a running machine's bid is fixed."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from autopilot.certify.claim import Step
from autopilot.certify.claims import settled_by
from autopilot.certify.run import FIRST, OVER, PER_PORT, PER_RUN, RAISED, SPEAKS_WITHIN, WAIT, Move, Run, round_up
from autopilot.domain.actions import ChangeBid, Stop
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict, StepMark
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot.domain.remark import scrub

STOPS_WITHIN = timedelta(minutes=5)
STARTS_WITHIN = timedelta(minutes=10)
GRACE_S = range(3, 13)
"""Seconds from SIGTERM to SIGKILL that count as about five: the machine's program counts whole ones."""
_RESUMED = re.compile(r"(Rented|Resumed) by ")


def stop(run: Run, mark: StepMark | None) -> Move:
    main = run.main
    if main is None or not main.is_spot or not settled_by(run.claims, Step.START):
        return OVER
    if mark is None:
        if main.state is not LeaseState.ACTIVE or run.job.step < PER_RUN:
            return OVER
        return Move((Stop(main.id, Reason.CERTIFYING),), run.begin(Step.STOP))
    return OVER if main.state is LeaseState.PAUSED or run.now - mark.begun_at >= STOPS_WITHIN else WAIT


def start(run: Run, mark: StepMark | None) -> Move:
    main = run.main
    if main is None or not settled_by(run.claims, Step.START):
        return OVER
    if mark is None:
        floor = dict(run.marks[Step.RENT].numbers).get("floor") if Step.RENT in run.marks else None
        if main.state is not LeaseState.PAUSED or floor is None:
            return OVER
        bid = round_up(Decimal(str(floor)) * FIRST, run.params)
        if run.market.providers[main.provider].capabilities.rebid_needs_stop:
            # Another than it has: whether it can be changed is what is not known.
            bid = round_up(main.bid * RAISED, run.params)
        numbers = (("bid", bid), ("boot", main.agent.boot), ("step", run.job.step))
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.START, *numbers))
    if main.state is LeaseState.ACTIVE and main.observed.running_since is not None:
        return _watch(run, main, mark)
    if run.now - mark.begun_at < STARTS_WITHIN:
        return WAIT
    return Move(findings=(run.find("bid-resumes", ClaimVerdict.BROKEN, *mark.numbers[:1]),), is_over=True)


def _watch(run: Run, main: Lease, mark: StepMark) -> Move:
    """It runs again: its program is awaited, which says what came before the stop."""
    findings: tuple[ClaimFinding, ...] = ()
    if "bid-resumes" not in run.findings:
        waited = ("seconds", round((run.now - mark.begun_at).total_seconds()))
        findings = (run.find("bid-resumes", ClaimVerdict.HELD, waited), *_judge_words(run))
    before = {name: int(str(value)) for name, value in mark.numbers if name in ("boot", "step")}
    has_begun = run.job.step // PER_RUN > before["step"] // PER_RUN
    since = main.observed.running_since
    is_late = since is not None and run.now - since >= SPEAKS_WITHIN
    if not has_begun and not is_late:
        return Move(findings=findings)
    # An agent on a new disk counts its boots from one again, and its reports are taken for old ones.
    is_kept = main.agent.boot > before["boot"]
    kept = run.find("volume-kept", ClaimVerdict.HELD if is_kept else ClaimVerdict.BROKEN)
    return Move(findings=(*findings, kept, *(_judge_grace(run) if has_begun else ())), is_over=True)


def _judge_grace(run: Run) -> tuple[ClaimFinding, ...]:
    seconds = run.job.step % PER_PORT
    verdict = ClaimVerdict.HELD if seconds in GRACE_S else ClaimVerdict.BROKEN
    return (run.find("sigterm-five-seconds", verdict, ("seconds", seconds)),)


def _judge_words(run: Run) -> tuple[ClaimFinding, ...]:
    said = run.instance.message if run.instance is not None else ""
    if not said:
        return ()
    verdict = ClaimVerdict.HELD if _RESUMED.match(said) else ClaimVerdict.BROKEN
    return (run.find("resumed-words", verdict, ("words", scrub(said.partition(":")[0]))),)
