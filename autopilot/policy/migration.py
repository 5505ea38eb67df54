"""A planned move, one step at a time, safe to be cut between any two:

the new machine in ``next`` loads and waits → the old one saves and stops → the daemon has verified that checkpoint →
the new one is promoted under a new run epoch → the old one is released. If the old machine is lost first, the new one
is promoted at once; if the new one is lost or stuck, the old one simply goes on.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.actions import Action, Promote, Release, SaveAndStop
from autopilot.domain.agent_state import ENDED, AgentState
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.market import Market
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.unfit import is_unfit
from autopilot.policy.loading import is_left_at_once, loads_too_long, prepares_too_long

FETCH_PATIENCE = timedelta(minutes=20)
"""A fetch that takes less is waited for, however often the job saves."""


def continue_move(job: Job, market: Market, now: datetime, params: Params) -> tuple[Action, ...]:
    main, new = job.main, job.next
    assert new is not None, "a move without a new home"
    if main is None:
        return (Promote(new.id, Reason.PROMOTED),) if new.instance_id is not None else ()
    if main.agent.exit_code is not None:
        return _drop(new, Reason.COMPLETED)
    if main.instance_id is None:
        return ()  # its create is not resolved: it holds its slot
    lost = _why_lost(main, now, params)
    if lost is not None:
        if new.instance_id is None:
            return ()
        return (Release(main.id, lost), Promote(new.id, Reason.PROMOTED))
    if main.orders.role is Role.SAVE_AND_STOP:
        if new.instance_id is not None and was_saved(job, main, now, params):
            return (Release(main.id, Reason.MOVING), Promote(new.id, Reason.PROMOTED))
        return ()
    return _while_both_run(job, market, main, new, now, params)


def _while_both_run(
    job: Job, market: Market, main: Lease, new: Lease, now: datetime, params: Params
) -> tuple[Action, ...]:
    """The old machine works on until the new one waits for its checkpoint, or is given up."""
    new_lost = new.state is LeaseState.PAUSED or new.observed.offline_since is not None
    is_stuck = prepares_too_long(new, now, params) if new.agent.state else loads_too_long(job, new, market, now, params)
    if now >= last_save(main, params):
        return (SaveAndStop(main.id, Reason.EXPIRING),)
    if new_lost or (is_stuck and new.agent.state is not AgentState.WAITING):
        return _drop(new, new.observed.pause_cause or Reason.STUCK_LOADING)
    if is_left_at_once(job, new, market, params):
        return _drop(new, Reason.FAILED_BEFORE)
    if is_unfit(job, new, now):
        return _drop(new, Reason.HOST_UNFIT)
    may_be_promoted = new.agent.state is AgentState.WAITING or _falls_behind(job, new, now)
    if new.observed.running_since is not None and may_be_promoted:
        return (SaveAndStop(main.id, Reason.MOVING),)
    return ()


def _why_lost(main: Lease, now: datetime, params: Params) -> Reason | None:
    """A machine that no longer works is not waited for while its new home gets ready."""
    if main.state is LeaseState.PAUSED or main.observed.offline_since is not None:
        return main.observed.pause_cause or Reason.HOST_LOST
    return Reason.AGENT_SILENT if main.agent.state and is_given_up(main, now, params) else None


def _falls_behind(job: Job, new: Lease, now: datetime) -> bool:
    """It fetches for so long that there are newer checkpoints all the time: what it is to fetch must stand still."""
    since = new.agent.preparing_since
    patience = max(2 * job.spec.checkpoint_interval, FETCH_PATIENCE)
    return new.agent.state is AgentState.RESTORING and since is not None and now - since >= patience


def last_save(lease: Lease, params: Params) -> datetime:
    """When a machine must begin to save, so as to have saved at the end of its life."""
    return lease.not_after - timedelta(seconds=params.budget.save_timeout_s + params.timing.tick_lag_s)


def is_given_up(lease: Lease, now: datetime, params: Params) -> bool:
    """Whether its agent has stopped for good, or has not been heard for too long since it ran."""
    seen_at = lease.agent.seen_at or lease.intended_at
    running_since = lease.observed.running_since or lease.intended_at
    silent_for = now - max(seen_at, running_since)
    is_silent = silent_for >= timedelta(seconds=params.loading.silence_s)
    return is_silent or lease.agent.state in ENDED


def was_saved(job: Job, lease: Lease, now: datetime, params: Params) -> bool:
    """True once the lease's last checkpoint is verified, or the wait for it has lasted too long.

    Too long for one that is claimed, too: a claim may be a lie, and a virtual machine does not end itself.
    """
    since = lease.orders.stop_ordered_at
    has_waited = since is not None and now - since >= timedelta(seconds=params.budget.save_timeout_s)
    if lease.observed.running_since is None or has_waited:
        return True
    if lease.agent.has_saved:
        newest = job.checkpoint
        last = lease.agent.last_checkpoint
        if last is None:
            return True
        return newest is not None and newest.lease_id == lease.id and newest.number >= last
    return False


def _drop(lease: Lease, reason: Reason) -> tuple[Action, ...]:
    return (Release(lease.id, reason),) if lease.instance_id is not None else ()
