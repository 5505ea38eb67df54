"""Events and the numbers of decisions as people read them."""

from __future__ import annotations

import inspect
import re
from datetime import datetime
from typing import Any

import pytest

from autopilot.answers.jobs import Event
from autopilot.api import submissions
from autopilot.domain.job import JobStatus
from autopilot.engine import event_log, firings, invoices
from autopilot.words import story, text

FIELDS = {
    "bid": "0.306",
    "from": "0.278123456",
    "reason": "too_many_launches",
    "cause": "out_of_credit",
    "message": "no_such_ask",
    "current_bid": "0.278",
    "instance_id": "47848147",
    "machine_id": "43668",
    "provider": "vastai",
    "gpu": "RTX 4090",
    "capacity_type": "on_demand",
    "number": 7,
    "step": 410,
    "bytes": 1_500_000_000,
    "seconds": 15,
    "state": "setting_up",
    "exit_code": 1,
    "run_epoch": 2,
    "since": "2026-01-01T11:18:00+00:00",
    "still_s": 2520,
    "accepted": "false",
    "uid": 1000,
    "ended": "timed_out",
    "until": "2026-11-20T14:20:00+00:00",
    "per_hour": "0.310000000",
    "estimate": "0.263012345",
}


def _names() -> set[str]:
    source = "".join(inspect.getsource(module) for module in (event_log, firings, invoices, submissions))
    source = re.sub(r"\blog\.\w+\(.*", "", source)  # what the daemon's log is told is no event
    return set(
        re.findall(
            r'"((?:image|lease|machine|bid|run|exec|checkpoint|agent|work|invoice|job|schedule|store|tunnel)\.[a-z_]+)"',
            source,
        )
    )


def an_event(name: str, fields: dict[str, Any], at: str = "06:00:00", lease: str | None = "L1") -> Event:
    when = datetime.fromisoformat(f"2026-01-01T{at}+00:00")
    return Event(seq=1, at=when, name=name, job_id=None, lease_id=lease, fields=fields)


def tell(name: str, **fields: Any) -> str:
    return story.tell(an_event(name, fields))


def test_each_event_of_the_log_has_its_sentence() -> None:
    assert len(_names()) > 25
    assert _names() == set(story.SENTENCES)


@pytest.mark.parametrize("name", sorted({*story.SENTENCES, *(f"job.{status}" for status in JobStatus)}))
def test_no_sentence_has_a_code_or_a_raw_number(name: str) -> None:
    for fields in (FIELDS, {}):
        told = tell(name, **fields).replace("no_such_ask", "")
        assert "_" not in told, told
        assert "=" not in told, told
        assert not re.search(r"\d\.\d{4}", told), told
        assert "." not in told[-1:], "the line is one sentence without its full stop"


def test_jobs_in_a_line() -> None:
    assert tell("job.failed", reason="command_failed") == "the job failed: command failed"
    fields = {"reason": "dependency_failed", "job": "prepare", "ended": "cancelled"}
    assert tell("job.failed", **fields) == "the job failed: prepare, which it waited for, is cancelled"
    begun = "the jobs it waited for have ended: it can start"
    assert tell("job.predecessors_ended", deadline=None) == begun
    due = "2026-01-02T12:00:00+00:00"
    assert tell("job.predecessors_ended", deadline=due) == f"{begun}; it is due 2026-01-02 12:00 UTC"


def test_the_story_of_an_outbid() -> None:
    assert tell("lease.paused", cause="outbid", bid="0.278") == "outbid at $0.278/h"
    assert tell("bid.intended", bid="0.306", **{"from": "0.278"}) == "raises the bid from $0.278/h to $0.306/h"
    assert tell("bid.intended", bid="0.25", **{"from": "0.278"}) == "lowers the bid from $0.278/h to $0.25/h"
    assert tell("lease.resumed", bid="0.306") == "the machine is back at $0.306/h"
    assert tell("work.lost", seconds=15) == "15 s of work lost"
    assert tell("lease.paused", cause="out_of_credit", bid="0.3") == "the market stopped the machine: out of credit"
    assert tell("lease.refused", reason="refused", message="no \x1b[2Jsuch ask").endswith("no [2Jsuch ask")
    assert tell("job.changed", key="budget", **{"from": None, "to": "12"}) == (
        "the owner changed the budget from none to $12.00"
    )
    assert tell("lease.paused", cause="console", bid="0.3") == "its user stopped the machine in the market's console"
    assert tell("lease.paused", cause="unknown", bid="0.3") == "the machine stopped, and nothing shows why"
    displaced = tell("lease.paused", cause="outbid", bid="0.3", price_to_win="0.25")
    assert displaced == "displaced at $0.30/h"
    assert tell("lease.paused", cause="outbid", bid="0.3", price_to_win="0.35") == "outbid at $0.30/h"
    assert tell("job.succeeded", reason="completed") == "the job succeeded"
    assert tell("job.failed", reason="never_started") == "the job failed: never started"
    assert tell("job.parked", reason="budget_exhausted") == "the job is parked: budget exhausted"


def story_of(*events: tuple[str, str, dict[str, Any]], lease: str | None = "L1") -> list[tuple[str, str]]:
    """Each event: when on one day, its name, its fields."""
    recorded = [an_event(name, fields, at, lease) for at, name, fields in events]
    return [(f"{line.at:%H:%M}", str(line)) for line in story.tell_all(recorded)]


def test_an_outbid_is_one_line() -> None:
    assert story_of(
        ("06:36:02", "lease.paused", {"cause": "outbid", "bid": "0.278"}),
        ("06:36:02", "work.lost", {"seconds": 15}),
        ("06:36:02", "job.paused", {"reason": "outbid"}),
        ("06:36:02", "bid.intended", {"bid": "0.306", "from": "0.278"}),
        ("06:36:05", "bid.changed", {"bid": "0.306"}),
        ("06:36:21", "lease.resumed", {"bid": "0.306"}),
        ("06:36:40", "agent.reported", {"state": "running"}),
        ("06:50:00", "bid.intended", {"bid": "0.29", "from": "0.306"}),
        ("06:50:01", "bid.changed", {"bid": "0.29"}),
    ) == [
        ("06:36", "outbid at $0.278/h; raised to $0.306/h; back after 19 s; 15 s of work lost"),
        ("06:50", "lowers the bid from $0.306/h to $0.29/h"),
    ]


def test_how_a_machine_was_rented_and_given_up_is_a_line_each() -> None:
    where = {"provider": "vastai", "machine_id": "43668", "gpu": "RTX 4090", "capacity_type": "spot", "bid": "0.278"}
    assert story_of(
        ("06:00:00", "lease.intended", where | {"reason": "cheapest"}),
        ("06:00:02", "lease.create_unknown", {"message": "no answer"}),
        ("06:00:20", "lease.adopted", {"instance_id": "1"}),
        ("06:01:55", "lease.running", {"bid": "0.278"}),
        ("06:02:00", "lease.promoted", {"run_epoch": 1}),
        ("06:10:00", "checkpoint.verified", {"number": 1, "step": 10, "bytes": 1000}),
        ("06:20:00", "checkpoint.verified", {"number": 2, "step": 20, "bytes": 1000}),
        ("06:30:00", "lease.paused", {"cause": "outbid", "bid": "0.278"}),
        ("06:31:30", "lease.release_requested", {"reason": "displaced"}),
        ("06:31:31", "lease.destroy_sent", {"accepted": "true"}),
        ("06:31:50", "lease.gone", {"reason": "displaced"}),
    ) == [
        ("06:00", "rents RTX 4090 on vastai machine 43668, spot at $0.278/h: cheapest; the answer was lost; "
         "the machine was found; runs after 1 min 55 s"),
        ("06:10", "checkpoint 2 is safe, step 20, 1 kB"),
        ("06:30", "outbid at $0.278/h; released after 1 min 30 s: displaced; gone"),
    ]  # fmt: skip


def test_a_move_and_an_end_are_a_line_each() -> None:
    assert story_of(
        ("06:00:00", "run.stop_ordered", {"reason": "moving"}),
        ("06:00:30", "checkpoint.verified", {"number": 2, "step": 20, "bytes": 1000}),
        ("06:00:45", "lease.release_requested", {"reason": "moving"}),
        ("06:01:00", "lease.gone", {"reason": "moving"}),
        ("06:30:00", "lease.settled", {}),
    ) == [
        ("06:00", "orders the machine to save and stop: moving; checkpoint 2 is safe, step 20, 1 kB; "
         "released after 45 s; gone; billed"),
    ]  # fmt: skip
    assert story_of(
        ("07:00:00", "run.exited", {"exit_code": 0}),
        ("07:00:00", "lease.release_requested", {"reason": "completed"}),
    ) == [("07:00", "the command ended with exit code 0; released")]


def test_a_refusal_is_shown_with_its_request() -> None:
    pool = {"provider": "runpod", "machine_id": "RTX 4090/COMMUNITY/-", "gpu": "RTX 4090", "bid": "0.2"}
    (line,) = story_of(
        ("06:00:00", "lease.intended", pool | {"capacity_type": "spot"}),
        ("06:00:02", "lease.refused", {"reason": "refused", "message": "no such ask"}),
    )
    asked = "rents RTX 4090 on runpod (community), spot at $0.20/h"
    assert line[1] == f"{asked}; the market refused to rent it: no such ask"


@pytest.mark.parametrize("name", story.CONTINUED)
def test_an_event_without_its_beginning_has_a_line_of_its_own(name: str) -> None:
    """The oldest events of a long job are not listed."""
    ((_, told),) = story_of(("06:00:00", name, FIELDS))
    assert told == tell(name, **FIELDS)
    assert {name, *story.CONTINUED[name].follows} <= set(story.SENTENCES)


def test_a_refused_login_names_the_registry_the_secret_and_the_way_out() -> None:
    told = tell("image.login_refused", server="ghcr.io", secret="ghcr", message="denied: denied")
    assert told.startswith("ghcr.io refused the login with the secret ghcr: denied: denied")
    assert "autopilot secret set ghcr --server ghcr.io" in told
    assert "add [registry] to the job file" in tell("image.login_refused", server="ghcr.io", message="unauthorized")


def test_what_a_later_version_logs_is_shown_as_it_is() -> None:
    assert tell("lease.polished", shine_s=90) == "lease.polished shine 1 min 30 s"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"slack_s": 9597}, "slack 2 h 39 min"),
        ({"left": "-0.000111908"}, "left -$0.0001"),
        ({"bid": "0.278", "floor": "0.25"}, "bid $0.278/h, floor $0.25/h"),
        ({"cost_of_waiting_per_h": "0.004148149"}, "cost of waiting $0.004/h"),
        ({"limit": "50", "would_be": "50.2"}, "limit 50, would be $50.20"),
        ({"estimate": "0.263012345"}, "estimate 0.263"),
        ({"status": "over_budget", "from": "pending"}, "status over budget, from pending"),
        ({"machine_id": "00123.4567891", "instance_id": None}, "machine id 00123.4567891"),
        ({}, ""),
    ],
)
def test_numbers_are_for_people(fields: dict[str, Any], shown: str) -> None:
    assert text.numbers(fields) == shown
