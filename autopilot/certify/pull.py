"""The step that rents a machine with a login that its registry must refuse: is it taken, and is the refusal told?"""

from __future__ import annotations

from datetime import timedelta

from autopilot.certify.claim import Step
from autopilot.certify.run import MOST_MACHINES, OVER, WAIT, Move, Run, choose
from autopilot.domain.actions import Acquire, Release
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict, StepMark
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.money import Number
from autopilot.domain.reasons import Reason

TOLD_WITHIN = timedelta(minutes=10)
"""From the rental until the market tells that the image was refused."""
_IN_VAIN = (Reason.STUCK_LOADING, Reason.NEVER_STARTED)


def pull(run: Run, mark: StepMark | None) -> Move:
    if run.main is not None:
        # It may still be that of the step before.
        return WAIT if mark is None or run.main.instance_id is None else _watch(run, run.main)
    tried = [lease for lease in run.leases if mark is not None and lease.intended_at >= mark.begun_at]
    last = tried[-1] if tried else None
    if last is not None and (last.instance_id is not None or last.reason is Reason.INVALID):
        return Move(findings=_judge(run, last), is_over=True)
    if any(not lease.is_over for lease in run.job.leases):
        return WAIT
    chosen = choose(run) if len(tried) < MOST_MACHINES else None
    if chosen is None:
        return OVER
    offer, capacity_type, bid = chosen
    acquire = Acquire(Slot.MAIN, offer, capacity_type, bid, Reason.CERTIFYING_PULL)
    return Move((acquire,), mark or run.begin(Step.PULL))


def _watch(run: Run, main: Lease) -> Move:
    if main.has_run:
        # The image was pulled without the login, or the registry does not check it.
        return Move(
            (Release(main.id, Reason.CERTIFYING),), findings=_of_login(run, main, ClaimVerdict.BROKEN), is_over=True
        )
    if main.acquired_at is not None and run.now - main.acquired_at >= TOLD_WITHIN:
        waited = ("seconds", round((run.now - main.acquired_at).total_seconds()))
        told = run.find("refused-pull-is-told", ClaimVerdict.BROKEN, waited)
        return Move((Release(main.id, Reason.STUCK_LOADING),), findings=(told,), is_over=True)
    return WAIT


def _judge(run: Run, lease: Lease) -> tuple[ClaimFinding, ...]:
    """Findings for a machine that was given up, or never created."""
    if lease.reason is Reason.IMAGE_LOGIN_REFUSED:
        told = run.find("refused-pull-is-told", ClaimVerdict.HELD)
        return (told, *_of_login(run, lease, ClaimVerdict.HELD))
    if lease.reason in _IN_VAIN and run.has_held("list-shows-label"):  # words are asked for by it
        return (run.find("refused-pull-is-told", ClaimVerdict.BROKEN, ("ended_as", lease.reason)),)
    if lease.instance_id is None and lease.reason is Reason.INVALID:
        return _of_login(run, lease, ClaimVerdict.BROKEN, ("refused_as", lease.reason))
    return ()


def _of_login(run: Run, lease: Lease, verdict: ClaimVerdict, *numbers: tuple[str, Number]) -> tuple[ClaimFinding, ...]:
    """Findings for the market's claim on logins; one such claim is about spot only."""
    spot = (run.find("login-made-through-rest", verdict, *numbers),) if lease.is_spot else ()
    return (run.find("login-is-taken", verdict, *numbers), *spot)
