"""``autopilot confirm``, and commands that are told to have a plan confirmed first."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.cli.exits import Exit
from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon

PLAN = {
    "id": "01JX",
    "owner": -3,
    "what": "submit",
    "name": "bert\x1b[31m",
    "image": "python:3.12-slim",
    "run": "python3 train.py",
    "budget": "30",
    "max_rate": None,
    "max_hourly": None,
    "sha256": "0" * 64,
    "made_at": "2026-11-20T09:30:00+00:00",
    "is_confirmed": False,
}


@pytest.fixture
def waiting(daemon: Daemon) -> Daemon:
    daemon.answers["GET /v1/plans"] = (200, {"plans": [PLAN]})
    daemon.answers["POST /v1/plans/01JX/confirm"] = (200, {"plan": PLAN | {"is_confirmed": True}})
    return daemon


def test_what_waits_is_listed_and_no_word_of_it_reaches_the_terminal_raw(
    waiting: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["confirm"]) == 0
    out = capsys.readouterr().out
    assert "01JX" in out
    assert "$30.00" in out
    assert "\x1b" not in out


def test_confirm_needs_a_prompt_or_yes(waiting: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["confirm", "01JX"]) == Exit.USAGE
    assert "--yes" in capsys.readouterr().err
    assert [request[0] for request in waiting.requests] == ["GET /v1/plans"]
    assert run(["confirm", "01JX", "--yes"]) == 0
    assert "used once" in capsys.readouterr().out


def test_a_submit_that_needs_a_person_says_so_and_sends_the_plan(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    problem = {"title": "Conflict", "status": 409, "reason": "confirm_first", "detail": "plan 01JX waits", "hint": ""}
    submitted = daemon.answers["POST /v1/jobs"]
    daemon.answers["POST /v1/jobs"] = (409, problem)
    file = tmp_path / "job.toml"
    file.write_text('name = "x"\n')
    assert run(["submit", str(file)]) == Exit.REFUSED
    assert "plan 01JX waits" in capsys.readouterr().err
    daemon.answers["POST /v1/jobs"] = submitted
    assert run(["submit", str(file), "--plan", "01JX"]) == 0
    sent = [request[2] for request in daemon.requests if request[0] == "POST /v1/jobs"]
    assert [each.get("plan") for each in sent] == [None, "01JX"]
