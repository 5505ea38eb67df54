"""Waits, vetoes and notes in sentences."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from autopilot.answers.jobs import Note, Waiting
from autopilot.domain import host_fit
from autopilot.policy import eligibility, image_fit, wait
from autopilot.words import reasons
from tests.unit.cli.sample_daemon import sample_job


def removed(condition: str, has: Any = None, wanted: Any = None) -> str:
    numbers = {"condition": condition, "offers": 3, "has": has, "wanted": wanted, "provider": "vastai"}
    return reasons.tell(Note(topic="removed", numbers=numbers))


def test_each_condition_has_its_words() -> None:
    source = inspect.getsource(eligibility) + inspect.getsource(wait) + inspect.getsource(host_fit)
    named = set(re.findall(r'(?:Unfit|HostLack)\(\s*"([a-z_]+)"', source)) | {
        "max_price",
        "max_hourly",
        "on_demand_share",
    }
    named |= {*host_fit.MEASURES, *image_fit.OF_IMAGE}
    assert {"vram_gb", "no_on_demand", "max_rate"} <= named
    assert named | {"no_spot"} == set(reasons.CONDITIONS)


@pytest.mark.parametrize(
    "condition",
    sorted(reasons.CONDITIONS.keys() - {"driver", "arch", "country", "region", "image_arch", "image_driver"}),
)
def test_no_condition_shows_a_raw_number(condition: str) -> None:
    told = removed(condition, 0.123456789, 7200.123456)
    assert told.startswith("3 ")
    assert not re.search(r"=|\d\.\d{4}", told), told


@pytest.mark.parametrize(
    ("condition", "has", "wanted", "told"),
    [
        ("max_price", "0.95", "0.3", "3 above your max_price: cheapest floor $0.95/h, your max_price $0.30/h"),
        ("max_hourly_on_demand", "1.5", "1", "3 above your max_hourly: cheapest on-demand price $1.50/h, your "
         "max_hourly $1.00/h"),
        ("not_certified", "expired", None, "3 on vastai, which has no valid certificate (expired): "
         'autopilot certify vastai --budget "$1.00"'),
        ("not_certified", "claim_broken", None, "3 on vastai, which has no valid certificate (stopped: a claim that "
         "matters is broken): autopilot certify vastai --resume"),
        ("one_uncertified", None, None, "3 on vastai, which has no valid certificate: one machine at a time; "
         'autopilot certify vastai --budget "$1.00" lifts that'),
        ("over_uncertified", "0.31", "0.72", "3 on vastai, which has no valid certificate: $0.31 is left of "
         'limits.uncertified, the cheapest needs $0.72; autopilot certify vastai --budget "$1.00" lifts that'),
        ("vram_gb", "16", "24", "3 with too little GPU memory: the nearest has 16 GB, the job needs 24 GB"),
        ("disk_gb", "90.5", "100", "3 with too little disk: the nearest has 90.5 GB, the job needs 100 GB"),
        ("lasts_s", 3600, 9600, "3 that end too soon: the nearest in 1 h, the job may need 2 h 40 min"),
        ("lost_bid", "0.139", "0.135", "3 where our bids lost: the nearest needs at least $0.139/h, your cap is "
         "$0.135/h"),
        ("cuda", "12.2", "12.8", "3 with a driver for an older CUDA: the nearest has 12.2, the job needs 12.8"),
        ("ram_gb", "31.9", "64", "3 with too little RAM: the nearest has 31.9 GB, the job needs 64 GB"),
        ("driver", "470.42", "535", "3 with an older driver: the nearest has 470.42, the job needs 535"),
        ("country", None, "DE", "3 not known to be in the country: the nearest has none that its market states, "
         "the job needs DE"),
        ("verified", None, None, "3 on unverified hosts"),
        ("a_later_one", None, None, "3 a later one"),
    ],
)  # fmt: skip
def test_a_condition_says_by_how_much(condition: str, has: Any, wanted: Any, told: str) -> None:
    assert removed(condition, has, wanted) == told


@pytest.mark.parametrize(
    ("on", "status", "told"),
    [
        ("ok", "running", "waits until prepare succeeds; it is running"),
        ("fail", "pending", "waits until prepare fails or is cancelled; it is pending"),
        ("any", "parked", "waits until prepare is over; it is parked: autopilot resume prepare resumes it"),
    ],
)
def test_a_job_says_which_others_it_waits_for(on: str, status: str, told: str) -> None:
    numbers = {"job": "01KDZ3V8", "name": "prepare", "on": on, "status": status}
    assert reasons.brief(sample_job(waiting=a_wait(("after", numbers)))) == told


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        (
            {"action": "acquire", "because": "too_many_launches", "in_10_minutes": 3, "limit": 3},
            "acquire: too many launches (in 10 minutes 3, the limit is 3)",
        ),
        (
            {"action": "acquire", "because": "over_rate_limit", "burn": "1.204999999", "limit": "1"},
            "acquire: over rate limit (burn $1.205/h, the limit is $1.00/h)",
        ),
        (
            {"action": "acquire", "because": "low_credit", "credit": "0.100000001", "reserve": "0.2"},
            "acquire: low credit (credit $0.10, reserve $0.20)",
        ),
        (
            {"action": "change_bid", "because": "market_unknown", "lease_id": "01K", "unobserved_s": 9600},
            "change bid: market unknown (lease id 01K, unobserved 2 h 40 min)",
        ),
        ({"action": "promote", "because": "slot_taken"}, "promote: slot taken"),
    ],
)
def test_vetoes(numbers: dict[str, Any], told: str) -> None:
    assert reasons.tell_veto(Note(topic="veto", numbers=numbers)) == told


def a_wait(*notes: tuple[str, dict[str, Any]], vetoes: tuple[dict[str, Any], ...] = ()) -> Waiting:
    listed = [Note(topic=topic, numbers=numbers) for topic, numbers in notes]
    refused = [Note(topic="veto", numbers=numbers) for numbers in vetoes]
    return Waiting(at=datetime(2026, 1, 1, 12, tzinfo=UTC), vetoes=refused, notes=listed)


SEARCH: dict[str, Any] = {"gpus": "1×H100", "disk_gb": "20", "offers": 4, "fitting": 0}


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        (None, ""),
        (a_wait(("search", SEARCH | {"offers": 0})), "no offers"),
        (a_wait(("search", SEARCH | {"offers": 1}), ("removed", {"condition": "held", "offers": 1})),
         "1 offer, none match; 1 that the job is still releasing"),
        (a_wait(("search", SEARCH | {"only_on_demand": 4}), ("removed", {"condition": "no_spot", "offers": 4})),
         "4 offers, none match (on demand 4); 4 without spot"),
        (a_wait(("option", {"option": "wait", "cost": "0.4123", "chosen": 1}), ("search", SEARCH | {"fitting": 2})),
         "waiting is cheapest, $0.41 expected to the end"),
        (a_wait(("search", SEARCH | {"offers": 0}), ("unsearched", {"provider": "vastai", "problem": "HTTP 503"})),
         "no offers; vastai could not be searched: HTTP 503"),
        (a_wait(("paused", {"cause": "out_of_credit", "paused_s": 120, "cost_of_waiting_per_h": "0.0041"})),
         "out of credit for 2 min: its disk costs $0.004/h"),
        (a_wait(("paused", {"cause": "console", "paused_s": 120, "kept_for_s": 780, "cost_of_waiting_per_h": 0.0041})),
         "stopped in the market's console 2 min ago, and left alone: start it there and the job resumes; else it is "
         "given back in 13 min and the job is parked, for autopilot resume; until then its disk costs $0.004/h"),
        (a_wait(("paused", {"cause": "unknown", "paused_s": 120, "cost_of_waiting_per_h": "0.0041"})),
         "stopped, and nothing shows why, for 2 min: its disk costs $0.004/h"),
        (a_wait(vetoes=({"action": "acquire", "because": "over_day_limit"},)),
         "acquire: over day limit"),
    ],
)  # fmt: skip
def test_the_line_below_the_list_of_jobs(waiting: Waiting | None, told: str) -> None:
    assert reasons.brief(sample_job(waiting=waiting)) == told


def test_a_bid_that_lost() -> None:
    numbers: dict[str, Any] = {"provider": "vastai", "machine_id": "7", "bid": "0.138", "times": 2, "for_s": 7200}
    told = "2 bids up to $0.138/h lost on vastai machine 7; assumed to need a higher bid for 2 h"
    assert reasons.tell(Note(topic="lost_bid", numbers=numbers)) == told


def test_what_a_job_file_names_cannot_command_the_terminal() -> None:
    told = reasons.tell(Note(topic="search", numbers=SEARCH | {"gpus": "1×\x1b[2JH100"}))
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"recorded_h": 31, "learnt": 1, "learning": 0}, "bids are learned from 31 h of recorded floors"),
        (
            {"recorded_h": None, "learnt": 0, "learning": 1},
            "learning bids from recorded floors; the first rental waits up to 2 minutes for that",
        ),
        (
            {"recorded_h": 3, "learnt": 0, "learning": 0},
            "bids follow the default rule and a shipped prior: 3 h of floors recorded, learning needs 4 h",
        ),
    ],
)
def test_what_bids_come_from(numbers: dict[str, Any], told: str) -> None:
    assert reasons.tell(Note(topic="floors", numbers=numbers)) == told
