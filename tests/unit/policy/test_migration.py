"""A planned move step by step, and cut at every point by the loss of either machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Action, Promote, Release, SaveAndStop
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from tests.builders import (
    HOUR,
    START,
    D,
    a_checkpoint,
    a_job,
    a_lease,
    a_market,
    a_new_home,
    a_paused_lease,
    an_intent,
    an_offer,
    at,
    decided,
    heartbeat,
    lease_of,
    play,
    seen,
)

P = Params()
PROMOTE = Promote("lease-2", Reason.PROMOTED)
LOADING: dict[str, Any] = {"status": InstanceStatus.PROVISIONING, "running_since": None, "agent_state": ""}


def acts(job: Job, now: float = 60) -> tuple[Action, ...]:
    return decide(job, a_market(an_offer()), at(now), P).actions


def told(**changes: Any) -> Lease:
    return a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, **changes)


@pytest.mark.parametrize(
    ("main", "new", "actions"),
    [
        pytest.param(a_lease(), an_intent("lease-2", slot=Slot.NEXT), (), id="the new one is not there yet"),
        pytest.param(a_lease(), a_new_home(**LOADING), (), id="it loads"),
        pytest.param(a_lease(), a_new_home(agent_state="restoring"), (), id="it fetches"),
        pytest.param(a_lease(), a_new_home(), (SaveAndStop("lease-1", Reason.MOVING),), id="it waits"),
        pytest.param(told(), a_new_home(), (), id="the old one saves"),
        pytest.param(
            told(agent_saved=True), a_new_home(), (Release("lease-1", Reason.MOVING), PROMOTE), id="it has saved"
        ),
        pytest.param(
            a_paused_lease(), a_new_home(**LOADING), (Release("lease-1", Reason.OUTBID), PROMOTE), id="old outbid"
        ),
        pytest.param(
            a_lease(offline_since=START, running_since=None),
            a_new_home(),
            (Release("lease-1", Reason.HOST_LOST), PROMOTE),
            id="old host lost",
        ),
        pytest.param(
            a_paused_lease(), an_intent("lease-2", slot=Slot.NEXT), (), id="old outbid before the new one is there"
        ),
        pytest.param(
            a_lease(),
            a_new_home(state=LeaseState.PAUSED, pause_cause=Reason.OUTBID),
            (Release("lease-2", Reason.OUTBID),),
            id="new outbid",
        ),
        pytest.param(
            a_lease(exit_code=0), a_new_home(), (Release("lease-2", Reason.COMPLETED),), id="old has finished"
        ),
    ],
)
def test_the_next_step(main: Lease, new: Lease, actions: tuple[Action, ...]) -> None:
    assert acts(a_job(main, new, status=JobStatus.MIGRATING)) == actions


def test_a_new_home_whose_old_one_is_gone_is_promoted_at_once() -> None:
    gone = a_lease(state=LeaseState.DESTROY_SENT)
    assert acts(a_job(gone, a_new_home(**LOADING))) == (PROMOTE,)
    assert acts(a_job(gone, an_intent("lease-2", slot=Slot.NEXT))) == ()


def test_a_new_home_that_never_gets_ready_is_dropped() -> None:
    job = play(a_job(a_lease(), a_new_home(**LOADING)), heartbeat(a_lease(), at(P.loading.timeout_s - 60), "running"))
    assert acts(job, P.loading.timeout_s - 1) == ()
    assert acts(job, P.loading.timeout_s) == (Release("lease-2", Reason.STUCK_LOADING),)


def test_a_new_home_whose_agent_speaks_has_the_time_to_fetch_all_that_the_job_needs() -> None:
    job = play(a_job(a_lease(), a_new_home(agent_state="")), heartbeat(a_new_home(), at(60), "setting_up"))
    until = 60 + P.loading.preparing_least_s + 8000 * float(a_new_home().disk_gb) / P.loading.preparing_mbps
    alive = play(job, heartbeat(a_lease(), at(until - 1), "running"))
    assert acts(alive, until - 1) == ()
    assert acts(alive, until) == (Release("lease-2", Reason.STUCK_LOADING),)


def test_a_new_home_that_fetches_while_ever_newer_checkpoints_come_is_waited_for_no_longer() -> None:
    job = play(a_job(a_lease(), a_new_home(agent_state="")), heartbeat(a_new_home(), at(30), "setting_up"))
    job = play(job, heartbeat(job.leases[1], at(60), "restoring"))
    until = 60 + 2 * job.spec.checkpoint_interval.total_seconds()
    alive = play(job, heartbeat(a_lease(), at(until - 1), "running"))
    assert acts(alive, until - 1) == ()
    assert acts(alive, until) == (SaveAndStop("lease-1", Reason.MOVING),)


@pytest.mark.parametrize(("state", "after"), [("running", P.loading.silence_s), ("left", 1), ("expired", 1)])
def test_a_machine_whose_agent_is_lost_is_not_waited_for_until_its_new_home_is_ready(state: str, after: float) -> None:
    job = a_job(a_lease(), a_new_home(**{**LOADING, "agent_state": "setting_up"}))
    job = play(job, heartbeat(a_lease(), at(60), state))
    assert acts(job, 60 + after) == (Release("lease-1", Reason.AGENT_SILENT), PROMOTE)


def test_a_machine_near_its_end_saves_though_its_new_home_is_not_ready() -> None:
    soon = 600 - P.budget.save_timeout_s - P.timing.tick_lag_s
    job = a_job(a_lease(not_after=at(600)), a_new_home(**LOADING))
    assert acts(job, soon - 1) == ()
    assert acts(job, soon) == (SaveAndStop("lease-1", Reason.EXPIRING),)


def test_a_run_told_to_stop_waits_for_a_new_home_that_is_really_there() -> None:
    assert acts(a_job(told(agent_saved=True), an_intent("lease-2", slot=Slot.NEXT))) == ()


def test_saved_means_verified() -> None:
    main = told(agent_saved=True, last_checkpoint_number=4)
    new = a_new_home()
    for checkpoint in (None, a_checkpoint(main, 3), a_checkpoint(a_lease("lease-0"), 9)):
        assert acts(a_job(main, new, checkpoint=checkpoint)) == ()
    assert acts(a_job(main, new, checkpoint=a_checkpoint(main, 4))) == (Release("lease-1", Reason.MOVING), PROMOTE)


def test_an_agent_that_never_answers_does_not_hold_up_the_move() -> None:
    job = a_job(told(), a_new_home())
    assert acts(job, P.budget.save_timeout_s - 1) == ()
    assert acts(job, P.budget.save_timeout_s) == (Release("lease-1", Reason.MOVING), PROMOTE)


# The cuts: at each step of a move, each machine is lost in each way. The job must come out working on one machine.

STEPS: list[Callable[[Job], Job]] = [
    lambda job: play(job, e.LeaseIntended(an_intent("lease-2", slot=Slot.NEXT), at(0))),
    lambda job: play(job, e.LeaseAcquired("lease-2", "instance-of-lease-2", at(1))),
    lambda job: play(job, seen(lease_of(job, "lease-2"), InstanceStatus.RUNNING, at(2))),
    lambda job: play(job, heartbeat(lease_of(job, "lease-2"), at(3), "waiting")),
    lambda job: decided(job, a_market(), at(4))[1],  # the old one is told to save
    lambda job: play(job, e.CheckpointVerified(a_checkpoint(job.leases[0], 5, work_done=2 * HOUR), at(5))),
    lambda job: play(job, heartbeat(job.leases[0], at(6), "saving", saved=True, last_checkpoint_number=5)),
    lambda job: decided(job, a_market(), at(7))[1],  # released and promoted
    lambda job: play(job, heartbeat(lease_of(job, "lease-2"), at(8), "running")),
]

LOSSES: dict[str, Callable[[Lease], e.Event]] = {
    "outbid": lambda lease: seen(lease, InstanceStatus.STOPPED, at(10)),
    "host lost": lambda lease: seen(lease, InstanceStatus.OFFLINE, at(10)),
    "vanished": lambda lease: e.LeaseGone(lease.id, at(10)),
}


def _started() -> Job:
    return a_job(a_lease(), work_done=HOUR, checkpoint=a_checkpoint(a_lease(), 1))


def _settle(job: Job) -> Job:
    """Tick for two hours of nothing but bad news for what was lost, good news for the rest."""
    for n in range(240):
        now = at(20 + 30 * n)
        for lease in job.leases:
            held = lease_of(job, lease.id)
            if held.state is LeaseState.INTENT:
                job = play(job, e.LeaseAcquired(held.id, f"instance-of-{held.id}", now))
            elif held.is_wanted and held.state is not LeaseState.PAUSED and held.observed.offline_since is None:
                state = {Role.WAIT: "waiting", Role.RUN: "running", Role.SAVE_AND_STOP: "saving"}.get(
                    held.orders.role, ""
                )
                saved = held.orders.role is Role.SAVE_AND_STOP
                job = play(job, seen(held, InstanceStatus.RUNNING, now), heartbeat(held, now, state, saved=saved))
            elif held.state is LeaseState.DESTROY_REQUESTED:
                job = play(job, e.DestroySent(held.id, True, now))
        job = decided(job, a_market(), now, replace(P, bids=replace(P.bids, max_rebids=0)))[1]
    return job


def _who_works_on(step: int, lost: str) -> str | None:
    """Losses come after so many steps. From the fifth on the old machine has been told to stop and is given back."""
    if lost == "lease-1":
        return "lease-2" if step >= 1 else None
    return {0: "lease-1", 1: "lease-2"}.get(step, "lease-1" if step < 5 else None)  # an open create is not lost yet


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lost", ["lease-1", "lease-2"])
@pytest.mark.parametrize("step", range(len(STEPS) + 1))
def test_a_move_survives_a_loss_between_any_two_steps(step: int, lost: str, loss: str) -> None:
    job = _started()
    for go in STEPS[:step]:
        job = go(job)
    victim = next((lease for lease in job.leases if lease.id == lost and lease.instance_id and lease.is_wanted), None)
    if victim is not None:
        job = play(job, LOSSES[loss](victim))
    job = _settle(job)
    main = job.main
    assert (main and main.id) == _who_works_on(step, lost)
    if main is None:
        assert job.status is JobStatus.RECOVERING, "it looks for another machine"
    else:
        assert (main.orders.role, job.status) == (Role.RUN, JobStatus.RUNNING), (
            "a machine is paid for and does not work"
        )
        assert main.orders.run_epoch == job.run_epoch
    assert job.next is None
    for lease in job.leases:
        assert lease is main or not lease.is_wanted, "an unneeded machine is kept"


def test_a_whole_move_keeps_the_work_of_its_last_checkpoint() -> None:
    job = _started()
    for go in STEPS:
        job = go(job)
    assert job.main is not None
    assert (job.main.id, job.main.orders.run_epoch, job.run_epoch, job.status) == ("lease-2", 2, 2, JobStatus.RUNNING)
    assert job.work_done == 2 * HOUR
    assert lease_of(job).state is LeaseState.DESTROY_REQUESTED


def test_the_old_run_cannot_speak_for_the_job_after_the_promotion() -> None:
    job = _started()
    for go in STEPS:
        job = go(job)
    late = play(job, e.RunExited("lease-1", 1, 1, at(60)), heartbeat(lease_of(job), at(60), step=9, progress=D(1)))
    assert (late.status, late.failures, late.progress, late.step) == (job.status, 0, job.progress, job.step)
