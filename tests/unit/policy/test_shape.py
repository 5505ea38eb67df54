"""Shapes of tables: rounded so that few tables serve many jobs, and never one that is too small."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain.job import Job
from autopilot.domain.offer import Offer
from autopilot.domain.outlook import Lives, ObservedTime, Outlook, Shape
from autopilot.domain.params import Hazard, Params
from autopilot.pricing.availability.prior import PHASES
from autopilot.pricing.availability.shape import shape_of, still_serves
from autopilot.pricing.rule.cost import price_candidates
from tests.builders import HOUR, START, D, a_job, a_market, a_spec, an_offer

P = Params(hazard=Hazard(preemptions_per_h=0.25))
SPOT = an_offer("spare", floor=D("0.200"), on_demand_price=None, storage_price=D(0), download_mbps=D(800))
DEDICATED = an_offer("dedicated", floor=None, on_demand_price=D(1), storage_price=D(0), download_mbps=D(800))
BOTH = (SPOT, DEDICATED)


def a_job_of(work: float = 10, due: float = 25, **changes: Any) -> Job:
    values = {"work_estimate": work * HOUR, "deadline": START + due * HOUR, "max_bid": D("0.9")}
    return a_job(spec=a_spec(**(values | changes)))


def made(job: Job, *offers: Offer, outlook: Outlook | None = None, params: Params = P) -> Shape | None:
    seen = replace(a_market(*offers), outlook=outlook or Outlook())
    return shape_of(job, price_candidates(job, seen, offers, params), seen.outlook, START, PHASES, params)


def wanted(**changes: Any) -> Shape:
    shape = made(a_job_of(**changes), *BOTH)
    assert shape is not None
    return shape


def test_a_job_that_would_rather_be_late_has_no_table() -> None:
    assert made(a_job_of(), *BOTH) is not None
    assert made(a_job_of(fall_back=False), *BOTH) is None


def test_times_are_rounded_up_and_the_rest_to_the_nearest_step() -> None:
    shape = wanted()
    assert shape.phases is PHASES
    assert shape.longest_s == 28 * 3600, "25 h"
    assert shape.most_slack_s == 16 * 3600, "15 h of slack"
    assert shape.restart_s == 240, "boot 120 s and 10 GB at 800 Mbit/s: 220 s"
    assert shape.spot_ratio == pytest.approx(0.2), "a bid of $0.21 on $1, to the nearest step"
    assert shape.hazard_per_h == pytest.approx(0.2), "0.25, to the nearest even"
    assert shape.lost_s == 300, "half a checkpoint interval"


def test_it_reaches_at_least_as_far_as_is_asked() -> None:
    for work, due in ((1, 1.1), (4, 8), (4, 8.01), (20, 21), (0.1, 40)):
        shape = wanted(work=work, due=due)
        assert due * 3600 <= shape.longest_s < due * 3600 + 4 * 3600
        assert (due - work) * 3600 <= shape.most_slack_s <= (due - work) * 3600 + 4 * 3600


def test_jobs_that_differ_a_little_share_a_table() -> None:
    assert wanted(work=10, due=25) == wanted(work=10.4, due=26.2)
    assert wanted(work=10, due=25) != wanted(work=10, due=28.5)


def test_the_ratio_counts_the_disk_and_is_never_above_one_nor_zero() -> None:
    dear_disk = [replace(offer, storage_price=D("7.3")) for offer in BOTH]
    shape = made(a_job_of(disk_gb=D(100)), *dear_disk)
    assert shape is not None
    disk = float(dear_disk[0].storage_rate(D(100)))
    assert shape.spot_ratio == pytest.approx(round((0.23 + disk) / (1 + disk) / 0.05) * 0.05)
    dearer = made(a_job_of(max_bid=D(2)), replace(SPOT, floor=D("1.5")), DEDICATED)
    assert dearer is not None
    assert dearer.spot_ratio == 1.0
    all_but_free = made(a_job_of(), replace(SPOT, floor=D("0.001")), DEDICATED)
    assert all_but_free is not None
    assert all_but_free.spot_ratio == 0.05


def test_the_hazard_is_that_of_the_best_spot_machine() -> None:
    lives = {("vastai", "machine", "spare"): Lives((ObservedTime(1000, 800), *Lives().by_age[1:]))}
    shape = made(a_job_of(), *BOTH, outlook=Outlook(lives=lives))
    assert shape is not None
    assert shape.hazard_per_h == pytest.approx(0.8)


def test_the_slower_start_counts() -> None:
    slow = replace(DEDICATED, download_mbps=D(80))
    shape = made(a_job_of(), SPOT, slow)
    assert shape is not None
    assert shape.restart_s == 1200, "120 s and 1000 s, rounded up"


@pytest.mark.parametrize(
    ("changes", "offers"),
    [
        ({"deadline": None}, BOTH),
        ({"work_estimate": None, "deadline": None}, BOTH),
        ({"due": 0.0}, BOTH),
        ({"due": -1.0}, BOTH),
        ({"due": 30 * 24 + 0.1}, BOTH),
        ({}, (SPOT,)),
        ({}, (DEDICATED,)),
        ({}, ()),
    ],
    ids=["no deadline", "no estimate", "now", "past", "far away", "no on-demand", "no spot", "nothing"],
)
def test_no_table_where_none_would_be_of_use(changes: dict[str, Any], offers: tuple[Offer, ...]) -> None:
    assert made(a_job_of(**changes), *offers) is None


def test_the_furthest_deadline_still_has_one() -> None:
    assert wanted(due=30 * 24).longest_s == 30 * 24 * 3600


BASE = Shape(PHASES, 28 * 3600.0, 16 * 3600.0, 240.0, 0.3, 0.2, 300.0)


@pytest.mark.parametrize(
    ("changes", "serves"),
    [
        ({}, True),
        ({"longest_s": 24 * 3600.0}, True),
        ({"longest_s": 32 * 3600.0}, False),
        ({"most_slack_s": 4 * 3600.0}, True),
        ({"most_slack_s": 20 * 3600.0}, False),
        ({"spot_ratio": 0.35}, True),
        ({"spot_ratio": 0.25}, True),
        ({"spot_ratio": 0.40}, False),
        ({"spot_ratio": 0.20}, False),
        ({"hazard_per_h": 0.3}, True),
        ({"hazard_per_h": 0.4}, False),
        ({"hazard_per_h": 0.0}, False),
        ({"restart_s": 360.0}, True),
        ({"restart_s": 480.0}, False),
        ({"lost_s": 600.0}, False),
        ({"phases": replace(PHASES, step_s=300.0)}, False),
    ],
)
def test_a_table_serves_what_is_no_larger_and_about_as_dear(changes: dict[str, Any], serves: bool) -> None:
    assert still_serves(BASE, replace(BASE, **changes)) is serves


def test_as_time_goes_by_a_table_goes_on_serving() -> None:
    first = wanted(work=10, due=25)
    for hours in range(0, 15, 3):
        later = shape_of(
            a_job_of(),
            price_candidates(a_job_of(), a_market(*BOTH), BOTH, P),
            Outlook(),
            START + timedelta(hours=hours),
            PHASES,
            P,
        )
        assert later is not None
        assert still_serves(first, later)
