"""The machine of a job that has failed: when it stays, for how long, and that it never outlives its money."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain import events as e
from autopilot.domain.actions import Action, Decision, Hold, Release
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, cost_by_day, keep_watched
from autopilot.domain.market import Allowance
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.decide import decide
from autopilot.policy.guard import guard
from tests.builders import (
    HOUR,
    MINUTE,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_new_home,
    a_spec,
    an_intent,
    at,
    decided,
    exposure,
    heartbeat,
    lease_of,
    limits,
    play,
    seen,
)

P = Params()
UNTIL = START + HOUR
HOLD = Hold("lease-1", UNTIL, Reason.COMMAND_FAILED)
RELEASE = Release("lease-1", Reason.COMMAND_FAILED)
RATE = D("0.304")
"""$/h of the machine with its disk: what an hour of hold sets aside."""


def a_failed_machine(**changes: Any) -> Lease:
    failed: dict[str, Any] = {"exit_code": 1, "agent_failures": 1, "agent_state": "finished"}
    return a_lease(**(failed | changes))


def a_failed_job(*leases: Lease, spec: dict[str, Any] | None = None, **changes: Any) -> Job:
    failed = {"status": JobStatus.FAILED, "reason": Reason.COMMAND_FAILED, "finished_at": START}
    return a_job(*(leases or (a_failed_machine(),)), spec=a_spec(**({"hold": HOUR} | (spec or {}))), **failed | changes)


def held(until: datetime = UNTIL, spec: dict[str, Any] | None = None, spent: str = "0", **changes: Any) -> Job:
    return a_failed_job(a_failed_machine(held_until=until, **changes), spec=spec, spent=D(spent))


def acts(job: Job, now: datetime = START, **market: Any) -> tuple[Action, ...]:
    return decide(job, a_market(**market), now, P).actions


def test_the_machine_of_the_last_failed_attempt_stays() -> None:
    assert acts(a_failed_job()) == (HOLD,)
    allowed, job = decided(a_failed_job(), a_market(), START)
    assert allowed == (HOLD,)
    assert job.status is JobStatus.FAILED
    assert job.on_hold is not None
    assert job.on_hold.held_until == UNTIL


def test_it_stays_for_no_longer_than_it_lives() -> None:
    assert acts(a_failed_job(a_failed_machine(not_after=at(600)))) == (replace(HOLD, until=at(600)),)


def test_it_is_reckoned_from_the_failure() -> None:
    assert acts(a_failed_job(), at(60)) == (HOLD,)


@pytest.mark.parametrize(
    ("machine", "job"),
    [
        ({}, {"spec": {"hold": None}}),
        ({}, {"status": JobStatus.SUCCEEDED, "reason": Reason.COMPLETED}),
        ({}, {"status": JobStatus.CANCELLED, "reason": Reason.USER_CANCELLED}),
        ({}, {"finished_at": START - 2 * MINUTE - timedelta(seconds=1)}),
        ({"exit_code": None}, {}),
        ({"role": Role.SAVE_AND_STOP}, {}),
        ({"state": LeaseState.PAUSED, "running_since": None}, {}),
        ({"running_since": None}, {}),
        ({"offline_since": START}, {}),
        ({"agent_state": "expired"}, {}),
        ({"not_after": START}, {}),
    ],
    ids=[
        *("not asked for", "succeeded", "cancelled", "too late", "no run", "told to stop"),
        *("paused", "loading", "offline", "its agent gave up", "its life is over"),
    ],
)
def test_any_other_machine_goes(machine: dict[str, Any], job: dict[str, Any]) -> None:
    given_up = acts(a_failed_job(a_failed_machine(**machine), **job))
    assert [type(action) for action in given_up] == [Release]


def test_its_next_home_goes_at_once() -> None:
    goes = Release("lease-2", Reason.COMMAND_FAILED)
    assert acts(a_failed_job(a_failed_machine(), a_new_home())) == (goes, HOLD)
    assert acts(a_failed_job(a_failed_machine(held_until=UNTIL), a_new_home())) == (goes,)
    loading = an_intent("lease-2", slot=a_new_home().slot)
    assert acts(a_failed_job(a_failed_machine(), loading)) == (goes, HOLD)


# --- money


STOP = budget.commitment(a_lease(), P)
"""Set aside for any machine: to end it safely."""


@pytest.mark.parametrize(
    ("room", "allowance", "lacking"),
    [
        (RATE, Allowance(), None),
        (RATE - D("0.000000001"), Allowance(), Reason.BUDGET_EXHAUSTED),
        (None, Allowance(day=RATE, month=RATE), None),
        (None, Allowance(day=RATE - D("0.000000001")), Reason.OVER_DAY_LIMIT),
        (None, Allowance(month=RATE - D("0.000000001")), Reason.OVER_MONTH_LIMIT),
        (None, Allowance(purse=RATE - D("0.000000001")), Reason.OVER_ALLOWANCE),
    ],
)
def test_it_does_not_begin_without_its_money(
    room: Decimal | None, allowance: Allowance, lacking: Reason | None
) -> None:
    total = None if room is None else 1 + STOP + room
    job = a_failed_job(spec={"budget": total}, spent=D(1))
    decision = decide(job, replace(a_market(), allowance=allowance), START, P)
    assert decision.actions == ((HOLD,) if lacking is None else (RELEASE,))
    assert [dict(note.numbers)["because"] for note in decision.notes if note.topic == "not_held"] == (
        [] if lacking is None else [lacking]
    )


def test_its_money_is_set_aside_and_goes_back_as_it_is_used_and_when_it_ends() -> None:
    lease = lease_of(held())
    assert budget.commitment(lease, P) == STOP + RATE
    later = lease_of(play(held(), seen(lease, InstanceStatus.RUNNING, at(1800))))
    assert budget.commitment(later, P) == STOP + RATE / 2
    assert budget.held_by_purpose(held(), P)["hold"] == RATE
    ended = lease_of(play(held(), e.ReleaseRequested("lease-1", Reason.USER_RELEASED, START)))
    assert budget.commitment(ended, P) == STOP


@pytest.mark.parametrize(
    ("job", "now", "why"),
    [
        (held(), UNTIL - timedelta(seconds=1), None),
        (held(), UNTIL, Reason.HOLD_OVER),
        (held(state=LeaseState.PAUSED, running_since=None, pause_cause=Reason.OUTBID), START, Reason.OUTBID),
        (held(offline_since=START), START + MINUTE, None),
        (held(offline_since=START), at(P.loading.offline_grace_s), Reason.HOST_LOST),
        (held(agent_state="expired"), START, Reason.AGENT_SILENT),
        (held(spec={"budget": STOP + RATE}), START, None),
        (held(spec={"budget": STOP + RATE}, spent="0.000000001"), START, Reason.BUDGET_EXHAUSTED),
    ],
)
def test_how_it_ends(job: Job, now: datetime, why: Reason | None) -> None:
    if job.on_hold is not None and why is not Reason.AGENT_SILENT and now > START:
        job = play(job, heartbeat(job.on_hold, now, "finished"))
    assert acts(job, now) == (() if why is None else (Release("lease-1", why),))


@pytest.mark.parametrize(
    ("allowance", "why"),
    [
        (Allowance(day=D(0), month=D(0)), None),
        (Allowance(day=D("-0.000000001")), Reason.OVER_DAY_LIMIT),
        (Allowance(month=D("-0.000000001")), Reason.OVER_MONTH_LIMIT),
    ],
)
def test_a_limit_of_the_account_ends_it(allowance: Allowance, why: Reason | None) -> None:
    actions = decide(held(), replace(a_market(), allowance=allowance), START, P).actions
    assert actions == (() if why is None else (Release("lease-1", why),))


def spent_by(job: Job, now: datetime) -> Decimal:
    return sum((sum(cost_by_day(lease, now).values(), D(0)) for lease in job.leases), D(0))


@given(
    rate=st.sampled_from(["0.100", "0.300", "2.500", "32.000"]),
    disk=st.sampled_from(["0", "0.004", "0.5"]),
    hold_s=st.integers(1, 6 * 3600),
    hours_of_money=st.floats(0, 8),
    gaps=st.lists(st.tuples(st.integers(1, 240), st.booleans()), min_size=1, max_size=12),
)
def test_a_held_machine_never_outlives_its_money(
    rate: str, disk: str, hold_s: int, hours_of_money: float, gaps: list[tuple[int, bool]]
) -> None:
    """Ticks of any length, some without a list, until it is given back; the market bills to the end of the destroy."""
    lease = a_failed_machine(bid=D(rate), storage_rate=D(disk), spans=())
    room = (lease.burn_upper * Decimal(hours_of_money)).quantize(D("0.000000001"))
    total = budget.commitment(lease, P) + room
    job = a_failed_job(lease, spec={"hold": timedelta(seconds=hold_s), "budget": total})
    now, was_held, tick = START, False, 0
    while True:
        if now == START or gaps[tick % len(gaps)][1]:
            job = play(job, seen(lease_of(job), InstanceStatus.RUNNING, now))
        job = play(job, heartbeat(lease, now, "finished"))
        main = lease_of(job)
        booked = sum(cost_by_day(keep_watched(main, now), now).values(), D(0))
        job = replace(job, spent=booked + budget.unobserved_cost(main, now, P))
        actions, job = decided(job, a_market(), now)
        if any(isinstance(action, Release) for action in actions):
            break
        was_held = was_held or job.on_hold is not None
        assert budget.sum_committed(job, P) <= total + budget.hold_reserve(lease_of(job))
        now += timedelta(seconds=gaps[tick % len(gaps)][0])
        tick += 1
        assert now <= START + timedelta(seconds=hold_s) + timedelta(seconds=480), "it was never given back"
    job = play(job, e.DestroySent(lease.id, True, now + timedelta(seconds=P.budget.destroy_s)))
    assert spent_by(job, now + HOUR) <= total
    if room >= budget.hold_reserve(replace(lease, held_until=START + timedelta(seconds=hold_s))):
        assert was_held
        assert now >= START + timedelta(seconds=hold_s), "its money was there, and it was ended all the same"


# --- the second reading


def veto(action: Hold, job: Job, **caps: Any) -> Reason | None:
    account = exposure(*job.leases)
    _, vetoes = guard(job, Decision((action,), ()), a_market(), account, limits(**caps), START, P)
    return vetoes[0].reason if vetoes else None


@pytest.mark.parametrize(
    ("action", "job", "why"),
    [
        (HOLD, a_failed_job(), None),
        (HOLD, a_failed_job(a_failed_machine(not_after=UNTIL)), None),
        (HOLD, a_failed_job(a_failed_machine(not_after=UNTIL - MINUTE)), Reason.SLOT_TAKEN),
        (HOLD, held(UNTIL - MINUTE), Reason.SLOT_TAKEN),
        (HOLD, a_failed_job(a_failed_machine(exit_code=0)), Reason.SLOT_TAKEN),
        (HOLD, a_failed_job(a_failed_machine(exit_code=None)), Reason.SLOT_TAKEN),
        (HOLD, a_job(a_failed_machine(), spec=a_spec(hold=HOUR)), Reason.SLOT_TAKEN),
        (replace(HOLD, lease_id="lease-2"), a_failed_job(), Reason.SLOT_TAKEN),
        (HOLD, a_failed_job(spec={"budget": STOP + RATE}), None),
        (HOLD, a_failed_job(spec={"budget": STOP + RATE - D("0.000000001")}), Reason.OVER_BUDGET),
    ],
)
def test_the_guard_knows_what_may_be_held(action: Hold, job: Job, why: Reason | None) -> None:
    assert veto(action, job) is why


def test_the_guard_holds_the_account_s_limits() -> None:
    assert veto(HOLD, a_failed_job(), day=STOP + RATE) is None
    assert veto(HOLD, a_failed_job(), day=STOP + RATE - D("0.000000001")) is Reason.OVER_DAY_LIMIT
    assert veto(HOLD, a_failed_job(), month=STOP + RATE - D("0.000000001")) is Reason.OVER_MONTH_LIMIT
