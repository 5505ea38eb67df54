"""A machine that falls behind the job's own pace is left, as soon as finishing elsewhere costs less."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.actions import Acquire, Note
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.pace import slow_share
from autopilot.domain.reasons import Reason
from autopilot.policy.options import is_affordable
from autopilot.policy.situation import Answer, Situation
from autopilot.pricing.pressure import is_at_work
from autopilot.pricing.rule.cost import lease_cost_to_finish

CENT = Decimal("0.01")


def leave_slow(situation: Situation, main: Lease) -> Answer | None:
    """None: it is not slow, or nothing else finishes for less."""
    job, params, now = situation.job, situation.params, situation.now
    share = slow_share(job, main)
    if share is None or not is_at_work(main):
        return None
    stay = lease_cost_to_finish(job, main, main.computes_at, 0, situation.market.outlook, now, params)
    choice = next((each for each in situation.candidates if is_affordable(job, each, params)), None)
    if choice is None or choice.cost >= stay:
        return None
    numbers = (("pace", share.quantize(CENT)), ("stay", stay.quantize(CENT)), ("move", choice.cost.quantize(CENT)))
    take = Acquire(Slot.NEXT, choice.offer, choice.capacity_type, choice.bid, Reason.MACHINE_SLOW)
    return (take,), (Note("machine_slow", numbers),)
