"""Hosts that differ, in the simulator: what a start there comes to, what it costs, and what is counted."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from autopilot.domain.start_faults import find_telling_line
from autopilot.providers.runpod.wire import log_events, start_line
from autopilot_lab.sandbox.host_traits import Boot, HostTraits, StartStage, Truth, draw_zoo, find_failure, is_excluded
from autopilot_lab.sandbox.image_traits import AMD64_ONLY, NEEDS_CUDA_12_8
from tests.simulation.checks.hosts import Hosts
from tests.simulation.ground.books import Meter
from tests.simulation.ground.machines import Box, Host, Place, State
from tests.simulation.markets.runpod import Runpod, request
from tests.simulation.zoo.play import Played, play, take_away
from tests.simulation.zoo.stock import MARKETS, stock
from tests.simulation.zoo.sums import line, line_beside, sums


def count_duds(share: float) -> int:
    return sum(host.is_dud for host in draw_zoo(random.Random("a zoo"), 50, share))


def test_a_zoo_has_its_share_of_hosts_that_never_boot_and_all_kinds_of_drivers() -> None:
    assert [count_duds(share) for share in (0, 0.3, 0.58, 1)] == [0, 15, 29, 50]
    few, many = (draw_zoo(random.Random("a zoo"), 50, share) for share in (0.3, 0.58))
    assert all(more.is_dud for one, more in zip(few, many, strict=True) if one.is_dud)
    stated = [{replace(host, truth=Truth()) for host in hosts} for hosts in (few, many)]
    assert stated[0] == stated[1], "a larger share changes what is true, not what is said"
    assert {host.cuda for host in many} >= {"13.0", "12.8", "12.4"}
    with pytest.raises(ValueError, match="a share lies between 0 and 1"):
        draw_zoo(random.Random(), 5, 30)


def test_an_image_does_not_start_where_the_driver_or_the_processor_is_another() -> None:
    old, other = HostTraits(driver="535.183.01", cuda="12.2"), HostTraits(arch="arm64")
    failure = find_failure(old, NEEDS_CUDA_12_8)
    assert failure is not None
    assert failure.stage is StartStage.CREATE
    assert "unsatisfied condition: cuda>=12.8" in failure.words
    assert is_excluded(old, NEEDS_CUDA_12_8)
    assert find_failure(old, "some/image:1") is None
    assert find_failure(other, AMD64_ONLY) is not None
    assert "linux/arm64/v8" in find_failure(other, AMD64_ONLY).words  # type: ignore[union-attr]
    assert find_failure(HostTraits(cuda="12.10"), NEEDS_CUDA_12_8) is None, "12.10 is newer than 12.8"


@pytest.mark.parametrize(
    ("boots", "stage", "words"),
    [
        (Boot.FOR_EVER, StartStage.LOADING, ""),
        (Boot.NO_RUNTIME, StartStage.CREATE, "OCI runtime create failed"),
        (Boot.FULL_DISK, StartStage.PULL, "no space left on device"),
    ],
)
def test_a_dud_fails_every_image(boots: Boot, stage: StartStage, words: str) -> None:
    failure = find_failure(HostTraits(truth=Truth(boots)), "some/image:1")
    assert failure is not None
    assert failure.stage is stage
    assert words in failure.words


@pytest.mark.parametrize("market", MARKETS)
def test_a_stock_is_the_seeds(market: str) -> None:
    one, again, more = stock(market, 3, 0.3), stock(market, 3, 0.3), stock(market, 3, 0.58)
    assert one == again
    assert [host.floor for host in one] == [host.floor for host in more]
    assert all(len(host.places) == host.room for host in one)


def test_minutes_beside_a_machine_that_works_are_not_lost() -> None:
    assert take_away([(0.0, 10.0), (20.0, 30.0)], [(5.0, 22.0)]) == [(0.0, 5.0), (22.0, 30.0)]
    assert take_away([(0.0, 10.0)], [(2.0, 3.0)]) == [(0.0, 2.0), (3.0, 10.0)]


def test_a_line_of_many_jobs() -> None:
    well = Played("vastai", 0.3, 1, "succeeded", 8.5, 1.0, 1, 0, 0, 0, 0.0, 0.0)
    failed = replace(well, seed=2, status="failed", launches=4, duds=4, again=1, lost_dollars=1.0, lost_minutes=60.0)
    assert Played.from_json(failed.to_json()) == failed
    said = line("vastai", 0.3, sums([well, failed]))
    assert "vastai 30%: 2 jobs, 1 failed of hosts, 0 not done; 5 launches, 4 on duds (1 on one again)" in said
    assert "lost a job $0.5000 (90 %: $1.0000) and 30.0 min (90 %: 60.0)" in said
    better = replace(failed, status="succeeded", lost_dollars=0.2)
    said = line_beside([well, better], [well, failed])
    assert "beside 2 of the same seeds: $0.1000 a job, then $0.5000 (20% of it)" in said
    assert said.endswith("failed of hosts 0, then 1")


@pytest.mark.slow
def test_where_nothing_boots_all_that_is_paid_is_lost() -> None:
    """On RunPod, where a pod is billed from the rental on."""
    played = play("runpod", 1.0, 1, most_h=2.0)
    assert not played.is_done
    assert played.duds == played.launches > 1
    assert played.lost_dollars == played.cost > 0
    assert not played.violations


def test_runpods_log_tells_what_its_host_says_of_a_pod_that_it_cannot_start() -> None:
    box = a_dud(0.0)
    box.failure = find_failure(HostTraits(truth=Truth(Boot.NO_RUNTIME)), "some/image:1")
    assert box.failure is not None
    market: Any = SimpleNamespace(boxes={box.id: box}, ground=SimpleNamespace(now_s=0.0))
    asked = request("GET", f"/v2/pods/{box.id}/logs", {"tail": "100"}, None)
    events = Runpod(market).answer(asked).text
    assert find_telling_line("\n".join(map(start_line, log_events(events)))) == ("", "")
    box.words = box.failure.words
    events = Runpod(market).answer(asked).text
    assert find_telling_line("\n".join(map(start_line, log_events(events))))[0] == "container_refused"


def test_runpods_log_tells_what_our_start_text_says_where_there_is_no_network() -> None:
    place = Place("101", HostTraits(truth=Truth(Boot.NO_NETWORK)))
    box = replace(a_dud(0.0), place=place, failure=None, state=State.RUNNING, up_at_s=100.0)
    for now_s, fault in ((161.0, "pull_failed"), (163.0, "no_network")):
        market: Any = SimpleNamespace(boxes={box.id: box}, ground=SimpleNamespace(now_s=now_s))
        events = Runpod(market).answer(request("GET", f"/v2/pods/{box.id}/logs", {"tail": "100"}, None)).text
        assert find_telling_line("\n".join(map(start_line, log_events(events))))[0] == fault


@pytest.mark.slow
@pytest.mark.parametrize("market", MARKETS)
def test_a_job_gets_done_where_all_hosts_are_sound(market: str) -> None:
    played = play(market, 0.0, 1)
    assert played.is_done
    assert played.lost_dollars == 0 or played.excluded
    assert not played.violations


@pytest.mark.slow
def test_a_job_that_fails_of_hosts_is_a_violation_where_that_is_asked_for() -> None:
    """As long as launches that come to nothing end a job, whichever host they were on."""
    played = play("runpod", 1.0, 1, most_h=2.0, rules=("S41",))
    fails = [what for what in played.violations if what.startswith("S41")]
    assert bool(fails) is (played.status == "failed")


def test_a_return_to_a_host_that_never_came_up_is_seen() -> None:
    ground: Any = SimpleNamespace(scenario=SimpleNamespace(host_rules={"S40"}), committed={})
    first, later = a_dud(0.0, gone_s=1500.0), a_dud(1600.0)
    market: Any = SimpleNamespace(past={first.id: first}, boxes={later.id: later})
    found: list[str] = []
    check = Hosts(ground, {"vastai": market}, lambda checker, what: found.append(f"{checker}: {what}"))
    check.look()
    check.look()
    assert found == ["S40: vastai/1600 is where vastai/0 never came up, 100 s after it"]
    first.state = State.STOPPED
    later.id = "another"
    check.look()
    assert len(found) == 1, "a machine that was outbid while it loaded says nothing of its host"


def a_dud(created_s: float, gone_s: float | None = None) -> Box:
    place = Place("101", HostTraits(truth=Truth(Boot.FOR_EVER)))
    host = Host("101", "201", "RTX 4090", Decimal(1), Decimal(1), Decimal(0), Decimal(0), places=(place,))
    box = Box(
        f"{created_s:.0f}", "vastai", "x", host, True, Decimal(1), 20, Decimal(0), "", created_s, Meter("job"), "job",
        "lease", place=place, failure=find_failure(place.traits, "some/image:1"),
    )  # fmt: skip
    box.is_gone, box.gone_s = gone_s is not None, gone_s or 0.0
    return box
