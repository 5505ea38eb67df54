"""What a job brings and takes away weighs in the choice of its machine, in its set-up and in its reserve."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.code import JobCode
from autopilot.domain.job import Checkpoint
from autopilot.domain.params import Params, Timing, TrafficSizes
from autopilot.policy.budget import traffic_cost
from autopilot.pricing.rule.cost import price_candidates
from autopilot.pricing.speed import setup_time
from tests.builders import START, a_job, a_market, a_spec, an_offer

PARAMS = Params(timing=Timing(boot_s=100), traffic=TrafficSizes(image_gb=Decimal(10), upload_gb=Decimal(5)))
D = Decimal


def test_inputs_take_their_time_over_the_host_s_link() -> None:
    offer = an_offer(download_mbps=D(800))
    assert setup_time(a_job(spec=a_spec(inputs_gb=D(40))), offer, PARAMS) == timedelta(seconds=600)


def test_a_large_input_is_worth_a_fast_link_and_free_traffic() -> None:
    slow, fast = an_offer("slow", floor=D("0.30"), download_mbps=D(100)), an_offer("fast", floor=D("0.33"))
    fast = replace(fast, download_mbps=D(2000))
    dear = an_offer("dear", floor=D("0.20"), download_mbps=D(2000), download_price=D("0.02"))
    offers = slow, fast, dear
    spec = a_spec(work_estimate=timedelta(hours=4))
    small = price_candidates(a_job(spec=spec), a_market(*offers), offers, PARAMS)
    assert small[0].offer.machine_id == "dear"
    large = price_candidates(a_job(spec=replace(spec, inputs_gb=D(200))), a_market(*offers), offers, PARAMS)
    assert large[0].offer.machine_id == "fast"


def test_outputs_are_paid_where_traffic_is() -> None:
    free, dear = an_offer("free", floor=D("0.25")), an_offer("dear", floor=D("0.20"), upload_price=D("0.01"))
    spec = a_spec(work_estimate=timedelta(hours=4))
    without = price_candidates(a_job(spec=spec), a_market(free, dear), (free, dear), PARAMS)
    with_them = price_candidates(
        a_job(spec=replace(spec, outputs_gb=D(100))), a_market(free, dear), (free, dear), PARAMS
    )
    assert [without[0].offer.machine_id, with_them[0].offer.machine_id] == ["dear", "free"]


def test_the_reserve_covers_them() -> None:
    prices = D("0.02"), D("0.01")
    plain, large = a_job(), a_job(spec=a_spec(inputs_gb=D(40), outputs_gb=D(50)))
    more = traffic_cost(*prices, large, PARAMS) - traffic_cost(*prices, plain, PARAMS)
    assert more >= D("0.01") * 40 + D("0.02") * (50 - 5)


def test_code_weighs_as_inputs_do() -> None:
    offer = an_offer(download_mbps=D(800), download_price=D("0.01"))
    code = JobCode("copy", "a" * 64, files=3, size_bytes=1_990_000_000, part_count=240, index_bytes=10_000_000)
    plain, large = a_job(), a_job(code=code)
    assert setup_time(large, offer, PARAMS) - setup_time(plain, offer, PARAMS) == timedelta(seconds=20)
    more = traffic_cost(D(0), D("0.01"), large, PARAMS) - traffic_cost(D(0), D("0.01"), plain, PARAMS)
    assert more == D("0.02")


def test_what_is_stored_here_comes_over_the_line_of_the_daemon_where_it_dials_its_machines() -> None:
    """5 GB at 20 Mbit/s are 33 minutes; image and inputs do not come from here."""
    offer = an_offer(download_mbps=D(8000))
    checkpoint = Checkpoint("job-1", "lease-1", 0, 1, 5, timedelta(hours=1), 5 * 10**9, 1, START)
    saved = replace(a_job(spec=a_spec(inputs_gb=D(40))), checkpoint=checkpoint)
    over_ssh = replace(PARAMS, traffic=replace(PARAMS.traffic, home_mbps=D(20)))
    assert setup_time(saved, offer, over_ssh) - setup_time(saved, offer, PARAMS) == timedelta(seconds=2000)
    fresh = replace(saved, checkpoint=None)
    assert setup_time(fresh, offer, over_ssh) == setup_time(fresh, offer, PARAMS)


def test_a_loss_costs_the_restore_over_that_line() -> None:
    checkpoint = Checkpoint("job-1", "lease-1", 0, 1, 5, timedelta(hours=1), 5 * 10**9, 1, START)
    job = replace(a_job(spec=a_spec(work_estimate=timedelta(hours=4))), checkpoint=checkpoint)
    over_ssh = replace(PARAMS, traffic=replace(PARAMS.traffic, home_mbps=D(20)))
    market = a_market(an_offer("one", floor=D("0.30")))
    cheap, dear = (price_candidates(job, market, market.offers, each)[0] for each in (PARAMS, over_ssh))
    # The set-up takes 2000 s longer, and so does each of the losses that are expected.
    assert dear.cost > cheap.cost + D("0.30") * D(2000) / D(3600)
