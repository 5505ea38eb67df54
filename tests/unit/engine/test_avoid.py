"""How long a job keeps away from a machine, and from a pool of them."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from autopilot.domain.reasons import Reason
from autopilot.engine.calls import AVOID_AFTER_RELEASE, POOL_AVOIDED, Avoid
from tests.builders import START, a_lease, capabilities


@pytest.mark.parametrize("is_pooled", [False, True])
def test_a_lost_machine_is_avoided_for_long_and_its_pool_for_a_moment(is_pooled: bool) -> None:
    market: Any = SimpleNamespace(capabilities=capabilities(is_pooled=is_pooled))
    avoid, lease = Avoid({"vastai": market}), a_lease(machine_id="m")
    span = AVOID_AFTER_RELEASE[Reason.HOST_LOST]
    avoid.add(lease, START, span)
    assert lease.job_id is not None
    kept_away = POOL_AVOIDED if is_pooled else span
    assert avoid.machines(lease.job_id, START + kept_away - timedelta(seconds=1)) == {("vastai", "m")}
    assert avoid.machines("another job", START) == frozenset()
    assert avoid.machines(lease.job_id, START + kept_away) == frozenset()


def test_a_host_that_is_full_and_yet_listed_is_asked_less_and_less_often() -> None:
    avoid, lease = Avoid({}), a_lease(machine_id="m")
    assert lease.job_id is not None
    now, pauses = START, []
    for _ in range(6):
        avoid.add_refused(lease, now, timedelta(minutes=2))
        asked = now
        while avoid.machines(lease.job_id, now):
            now += timedelta(minutes=1)
        pauses.append((now - asked) / timedelta(minutes=1))
    assert pauses == [2, 4, 8, 16, 16, 16]


def test_after_a_while_a_refusal_is_the_first_again() -> None:
    avoid, lease = Avoid({}), a_lease(machine_id="m")
    avoid.add_refused(lease, START, timedelta(minutes=2))
    later = START + timedelta(minutes=6)
    avoid.add_refused(lease, later, timedelta(minutes=2))
    assert lease.job_id is not None
    assert avoid.machines(lease.job_id, later + timedelta(minutes=2)) == frozenset()
