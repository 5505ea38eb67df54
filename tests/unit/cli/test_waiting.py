"""What a job waits for is said each time that it changes, and no more often."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.answers.jobs import Job
from autopilot.cli.answers import read
from autopilot.cli.main import run
from autopilot.cli.waiting import STAGES, STATUSES, StageLines, tell_stage
from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from tests.unit.cli.sample_daemon import Daemon, sample

JOB: dict[str, Any] = sample("job")["job"]
VETO = {"topic": "veto", "numbers": {"action": "acquire", "because": "over_day_limit", "limit": "50"}}


def pending(offers: int) -> dict[str, Any]:
    search = {"topic": "search", "numbers": {"offers": offers, "fitting": 0, "gpus": "RTX 4090:1"}}
    return JOB | {
        "status": "pending",
        "main": None,
        "waiting": {"at": "2026-01-01T11:00:00+00:00", "vetoes": [], "notes": [search]},
    }


def test_each_stage_has_words() -> None:
    assert set(STAGES) == set(AgentState)
    assert set(STATUSES) == set(InstanceStatus) - {InstanceStatus.RUNNING}


def test_only_changes_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = StageLines()
    main = JOB["main"]
    for job in (
        *(pending(12), pending(13), pending(12)),
        JOB | {"main": main | {"state": "intent"}},
        *[JOB | {"main": main | {"status": "provisioning"}}] * 2,
        JOB | {"main": main | {"agent_state": "setting_up"}},
        JOB | {"main": main | {"status": "stopped", "pause_cause": "outbid"}},
    ):
        waiting.tell(read(Job, job))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "bert-qa: pending: 12 offers, none match",
        "bert-qa: vastai machine 4711: asked for",
        "bert-qa: vastai machine 4711: it loads the image and starts",
        "bert-qa: vastai machine 4711: it downloads code and inputs, and runs setup",
        "bert-qa: vastai machine 4711: it is stopped (outbid)",
    ]


def test_a_limit_that_forbids_it_is_said() -> None:
    job = JOB | {
        "status": "pending",
        "main": None,
        "waiting": {"at": "2026-01-01T11:00:00+00:00", "vetoes": [VETO], "notes": []},
    }
    assert tell_stage(read(Job, job)) == "pending: acquire: over day limit (the limit is $50.00)"


def test_logs_say_it_until_the_first_output(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.cli.logs.FOLLOW_INTERVAL_S", 0)
    chunk = {"key": "k", "lease_id": "a", "boot": 1, "where": "vastai machine 4711, 1 × RTX 4090", "text": "step 1\n"}
    none = {"chunks": [], "earlier": False, "finished": False}
    pages = [none, none, none | {"chunks": [chunk]}, none, none | {"finished": True}]
    daemon.answers["GET /v1/jobs/bert-qa/logs"] = (200, pages)
    done = sample("job") | {"job": JOB | {"status": "succeeded"}}
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, [{"job": pending(3)}, {"job": JOB}, done])
    assert run(["logs", "bert-qa", "-f"]) == 0
    out, err = capsys.readouterr()
    assert out == "step 1\n"
    assert err.splitlines() == [
        "bert-qa: pending: 3 offers, none match",
        "bert-qa: vastai machine 4711: the command runs",
        "──── started on vastai machine 4711, 1 × RTX 4090 ────",
    ]
