"""What machines have shown fades, and adds to what they cost; it never keeps a job from its only machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from autopilot.domain.hosts import HALF_LIFE, HostRecord, KnownHosts
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import FailedStart
from autopilot.policy.eligibility import Eligibility, Unfit
from autopilot.pricing.host_odds import UNBURDENED, is_known_dud, weigh_host
from autopilot.pricing.rule.cost import Candidate, price_candidates
from tests.builders import HOUR, START, D, a_job, a_lease, a_spec, an_offer, capabilities

P = Params()
JOB = a_job()
IMAGE = JOB.spec.image


def a_host(machine_id: str, host_id: str = "h", **changes: object) -> HostRecord:
    return replace(HostRecord("vastai", machine_id, host_id, "RTX 4090", START), **changes)  # type: ignore[arg-type]


def failed(machine_id: str, times: float = 1.0, host_id: str = "h") -> HostRecord:
    return a_host(machine_id, host_id, launches=times, failed=times)


def hosts(*records: HostRecord) -> KnownHosts:
    return KnownHosts.of({record.key: record for record in records})


def candidates(*records: HostRecord, work: timedelta = 8 * HOUR, dearer: str = "0.20") -> list[Candidate]:
    """Of two machines, the second a little dearer; both a host of their own."""
    offers = (
        an_offer("cheap", host_id="h", floor=D("0.19"), on_demand_price=D(20)),
        an_offer("other", host_id="g", floor=D(dearer), on_demand_price=D(20)),
    )
    view = ProviderView(capabilities(), True, None)
    job = a_job(spec=a_spec(work_estimate=work, deadline=None))
    found = price_candidates(job, Market({"vastai": view}, offers, START, hosts=hosts(*records)), offers, P)
    return [each for each in found if each.capacity_type is CapacityType.SPOT]


def test_what_was_seen_counts_half_after_the_half_life() -> None:
    record = a_host("m", launches=2.0, failed=1.0, pace=0.2)
    later = record.at(START + HALF_LIFE)
    assert (later.launches, later.failed, later.pace) == (1.0, 0.5, 0.6)
    assert record.at(START - HOUR) == record, "the clock was wrong then"
    evening = record.at(START + 12 * HOUR)
    assert evening.pace is not None
    assert evening.pace < 0.5, "slow in the morning, slow in the evening"


def test_a_launch_that_came_to_nothing_makes_a_machine_dearer_and_not_unfit() -> None:
    assert [each.offer.machine_id for each in candidates()] == ["cheap", "other"]
    assert [each.offer.machine_id for each in candidates(failed("cheap"))] == ["other", "cheap"]
    assert [each.offer.machine_id for each in candidates(failed("cheap"), dearer="0.90")] == ["cheap", "other"]


def test_what_is_long_ago_no_longer_decides() -> None:
    old = failed("cheap").at(START + 8 * HALF_LIFE)
    assert [each.offer.machine_id for each in candidates(old)] == ["cheap", "other"]


def test_a_host_that_fails_again_and_again_costs_more_each_time() -> None:
    costs = [candidates(failed("cheap", n), dearer="9")[0].cost for n in (1.0, 2.0, 3.0)]
    steps = [second - first for first, second in pairwise(costs)]
    assert min(steps) > D("0.19"), "more than an hour of it each"


def test_a_slow_machine_costs_as_much_more_as_it_is_slower() -> None:
    slow, other = candidates(a_host("cheap", pace=0.1))[::-1]
    assert (slow.offer.machine_id, slow.work) == ("cheap", 80 * HOUR)
    assert slow.cost > 9 * other.cost * D("0.9")


def test_machines_of_one_host_share_its_faults_and_those_of_a_pool_hardly() -> None:
    known = hosts(failed("m"))
    sibling, stranger = an_offer("n", host_id="h"), an_offer("o", host_id="g")
    costs = [
        weigh_host(known, offer, JOB, D(1), P, is_pooled=False).lost
        for offer in (stranger, sibling, an_offer("m", host_id="h"))
    ]
    assert costs == sorted(costs)
    assert costs[0] < D("0.05") < costs[1] < D(1) < costs[2]
    pooled = weigh_host(known, an_offer("m", host_id="h"), JOB, D(1), P, is_pooled=True).lost
    assert pooled < costs[1]


def test_a_dud_is_charged_for_as_long_as_it_is_waited_for() -> None:
    """Half of the launches fail there, and the image took five minutes elsewhere: ten are waited for at the least, half
    as long again after each silent machine, and 25 at the most."""
    half = a_host("m", launches=100.0, failed=50.0)
    known = hosts(half, a_host("n", "g", launches=200.0, failed=100.0, loads=((IMAGE, 300),)))
    waits_min = [10, 15, 22.5] + [25] * 60
    expected = sum(minutes * 0.5 ** (number + 1) for number, minutes in enumerate(waits_min))
    burden = weigh_host(known, an_offer("m", host_id="h"), JOB, D(60), P, is_pooled=False)
    assert float(burden.lost) == pytest.approx(expected, rel=0.1)
    assert burden.waited.total_seconds() == pytest.approx(5 * 60, rel=0.1)
    whole = weigh_host(hosts(half), an_offer("m", host_id="h"), JOB, D(60), P, is_pooled=False)
    assert float(whole.lost) == pytest.approx(25, rel=0.1), "an image that never came up is waited for the whole time"
    silent = replace(JOB, failed_starts=(FailedStart("l", "x", "", "", START, is_over=True),) * 3)
    later = weigh_host(known, an_offer("m", host_id="h"), silent, D(60), P, is_pooled=False)
    assert float(later.lost) == pytest.approx(float(whole.lost), rel=0.01), "after three silent ones all are"
    beside = weigh_host(known, an_offer("m", host_id="h"), a_job(a_lease()), D(60), P, is_pooled=False)
    assert beside.lost == later.lost, "and beside a machine that works"


def test_what_may_be_waited_for_in_vain_is_part_of_the_way_to_the_command() -> None:
    [cheap] = [each for each in candidates(failed("cheap")) if each.offer.machine_id == "cheap"]
    [sound] = [each for each in candidates() if each.offer.machine_id == "cheap"]
    assert timedelta(minutes=20) < cheap.setup - sound.setup < timedelta(minutes=25), "one launch of it, all but sure"


def test_nothing_seen_costs_nothing() -> None:
    assert weigh_host(KnownHosts(), an_offer("m"), JOB, D(1), P, is_pooled=False) == UNBURDENED
    good = hosts(a_host("m", launches=3.0))
    assert weigh_host(good, an_offer("m"), JOB, D(1), P, is_pooled=False).lost == 0


def test_a_blocked_machine_is_unfit_until_it_is_forgiven() -> None:
    blocked = a_host(
        "cheap", blocked_at=START, failed=1.0, launches=1.0, last_fault=Reason.HOST_LOST, loads=((IMAGE, 9),)
    )
    offer, view = an_offer("cheap"), ProviderView(capabilities(), True, None)
    for record, unfit in ((blocked, Unfit("blocked")), (blocked.forgive(), None)):
        market = Market({"vastai": view}, (offer,), START, hosts=hosts(record))
        assert Eligibility(a_job(), market, START, P).unmet(offer) == unfit
    assert blocked.forgive() == a_host("cheap", loads=((IMAGE, 9),))


def test_a_fault_counts_less_where_nothing_of_the_job_came_up_elsewhere_either() -> None:
    record = a_host("m").with_fault(Reason.STUCK_LOADING, START, 0.5, was_heard=False)
    assert (record.launches, record.failed, record.last_fault) == (0.5, 0.5, Reason.STUCK_LOADING)
    heard = record.with_loaded(IMAGE, 90.4).with_fault(Reason.HOST_LOST, START, 1.0, was_heard=True)
    assert (heard.launches, heard.failed, heard.load_s(IMAGE)) == (1.5, 1.5, 90.0)


POOL = "RTX 4090/COMMUNITY"


def placed(host_id: str) -> Lease:
    """A machine of the pool, once its market has named its host."""
    return a_lease(machine_id=POOL, host_id=host_id)


@pytest.mark.parametrize(
    ("record", "is_dud"),
    [
        (failed("one", host_id=POOL), True),
        (failed("one", 0.25, host_id=POOL), True),
        (failed("one", host_id=POOL).with_loaded(IMAGE, 60), False),
        (failed("one", host_id=POOL).at(START + timedelta(days=14)), False),
        (failed("another", host_id=POOL), False),
        (a_host("one", blocked_at=START), True),
        (a_host("one", POOL), False),
    ],
    ids=["it failed", "in doubt", "it came up since", "long ago", "another", "blocked", "nothing seen"],
)
def test_a_host_is_known_to_fail(record: HostRecord, is_dud: bool) -> None:
    assert is_known_dud(hosts(record), placed("one")) is is_dud
    assert not is_known_dud(hosts(record), placed("")), "its market has not named it yet"


def test_what_the_hosts_of_a_pool_have_shown_counts_for_the_pool() -> None:
    offer = an_offer(POOL, host_id="")
    by_host = hosts(failed("one", host_id=POOL), failed("two", host_id=POOL), a_host("three", POOL, launches=1.0))
    as_pool = hosts(replace(failed(POOL, 2.0, host_id=""), launches=3.0))
    costs = [weigh_host(known, offer, JOB, D(1), P, is_pooled=True).lost for known in (by_host, as_pool)]
    assert costs[0] == costs[1] > 0
