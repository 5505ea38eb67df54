"""The last step on a market whose machines cannot end themselves: what is given back must be gone."""

from __future__ import annotations

from datetime import timedelta

from autopilot.certify.claim import Step
from autopilot.certify.run import OVER, WAIT, Move, Run
from autopilot.domain.actions import Release
from autopilot.domain.certificate import ClaimVerdict, StepMark
from autopilot.domain.lease import LeaseState
from autopilot.domain.reasons import Reason

GONE_WITHIN = timedelta(minutes=6)
"""From the moment it is given back until the lists and a look of its own say that it is gone."""


def give_back(run: Run, mark: StepMark | None) -> Move:
    main, last = run.main, run.last
    if mark is None:
        if main is None or main.instance_id is None:
            return OVER
        return Move((Release(main.id, Reason.COMPLETED),), run.begin(Step.END))
    waited = run.now - mark.begun_at
    seconds = ("seconds", round(waited.total_seconds()))
    if last is not None and last.state is LeaseState.GONE:
        return Move(findings=(run.find("delete-ends-it", ClaimVerdict.HELD, seconds),), is_over=True)
    if waited < GONE_WITHIN:
        return WAIT
    return Move(findings=(run.find("delete-ends-it", ClaimVerdict.BROKEN, seconds),), is_over=True)
