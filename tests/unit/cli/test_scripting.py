"""What scripts rely on: rows one a line, ids alone, outcomes as exit codes, several jobs at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from autopilot.cli import outcomes
from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon, sample

Capture = pytest.CaptureFixture[str]


def with_status(status: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = sample("job")
    body["job"] |= {"status": status} | more
    return body


def test_ids_alone_and_rows_one_a_line(daemon: Daemon, capsys: Capture) -> None:
    assert run(["ps", "-q"]) == 0
    ids = [job["id"] for job in sample("jobs")["jobs"]]
    assert capsys.readouterr().out.split() == ids
    assert run(["ps", "-o", "jsonl"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ids
    assert run(["why", "bert-qa", "-o", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(sample("why")["decisions"])
    assert run(["spend", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == sample("spend")


@pytest.mark.parametrize("argv", [["--json", "-o", "jsonl"], ["-q", "-w"], ["-q", "--json"], ["-o", "yaml"]])
def test_contradictions_are_refused(daemon: Daemon, capsys: Capture, argv: list[str]) -> None:
    assert run(["ps", *argv]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("alias", ["queue", "status"])
def test_other_names_of_ps(daemon: Daemon, capsys: Capture, alias: str) -> None:
    assert run([alias, "-q"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        ("succeeded", 0, "bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X) succeeded"),
        ("failed", 1, "failed with exit code 3"),
        ("parked", 4, "is parked: over day limit; autopilot resume bert-qa resumes it"),
        ("cancelled", 5, "was cancelled"),
    ],
)
def test_wait_ends_with_the_outcome(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch, status: str, code: int, said: str
) -> None:
    monkeypatch.setattr(outcomes, "POLL_S", 0.001)
    ended = with_status(status, reason="over_day_limit", exit_code=3)
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, [with_status("running"), with_status("running"), ended])
    assert run(["wait", "bert-qa"]) == code
    assert said in capsys.readouterr().err


def test_the_first_that_did_not_succeed_decides(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["GET /v1/jobs/a"] = (200, with_status("succeeded"))
    daemon.answers["GET /v1/jobs/b"] = (200, with_status("cancelled"))
    daemon.answers["GET /v1/jobs/c"] = (200, with_status("failed"))
    assert run(["wait", "a", "b", "c"]) == 5
    assert run(["wait", "a", "c", "b"]) == 1
    assert run(["wait", "a", "a"]) == 0
    assert run(["wait", "a", "unknown"]) == 2, "there is no such job"


def test_wait_outlives_a_restart_of_the_daemon(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "POLL_S", 0.001)
    waits = iter([None])

    def sleep(_: float) -> None:
        next(waits)
        daemon.answers["GET /v1/jobs/bert-qa"] = (200, with_status("succeeded"))

    monkeypatch.setattr(time, "sleep", sleep)
    daemon.answers["GET /v1/jobs/bert-qa"] = (503, {"detail": "the database is locked", "hint": ""})
    assert run(["wait", "bert-qa"]) == 0
    assert "the database is locked; waiting for it" in capsys.readouterr().err


def test_submit_and_wait(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("x")
    id = sample("submitted")["job"]["id"]
    daemon.answers[f"GET /v1/jobs/{id}"] = (200, with_status("failed"))
    assert run(["submit", str(file), "--wait"]) == 1
    assert run(["submit", str(file), "--wait", "--dry-run"]) == 2


def test_several_jobs_at_once(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["POST /v1/jobs/b/cancel"] = (422, {"detail": "job b is over: failed", "hint": ""})
    assert run(["cancel", "b", "bert-qa"]) == 2
    out, err = capsys.readouterr()
    assert "bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X) is cancelling" in out
    assert "error: job b is over: failed" in err
    assert run(["stop", "bert-qa"]) == 0
    assert "is stopping" in capsys.readouterr().out


def test_all_open_jobs_are_cancelled_after_a_yes(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in sample("jobs")["jobs"]:
        daemon.answers[f"POST /v1/jobs/{job['id']}/cancel"] = (200, {"job": job | {"status": "cancelling"}})
    assert run(["cancel", "--all"]) == 2, "no terminal to confirm this spending"
    assert "add --yes" in capsys.readouterr().err
    assert run(["cancel", "--all", "-y"]) == 0
    assert capsys.readouterr().out.count("is cancelling") == 2
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert run(["cancel", "--all"]) == 0
    assert "is cancelling" not in capsys.readouterr().out
    assert run(["cancel"]) == 2
    assert run(["cancel", "--all", "bert-qa"]) == 2


def test_change_sends_what_was_typed(daemon: Daemon, capsys: Capture) -> None:
    assert run(["change", "bert-qa", "budget=$30", "deadline=+6h"]) == 0
    assert daemon.requests[0][2] == {"budget": "$30", "deadline": "+6h", "min_probability": 0.8}
    assert "is changed: budget $2.00, due" in capsys.readouterr().out
    assert run(["change", "bert-qa", "budget="]) == 2
    assert "write budget=30" in capsys.readouterr().err
    assert run(["change", "bert-qa", "budget"]) == 2


def test_the_newest_lines(daemon: Daemon, capsys: Capture) -> None:
    page = sample("logs")["pages"][0]
    first = page["chunks"][0]
    chunks = [first | {"text": "a\nb\nc"}, first | {"text": "c\nd\n", "key": "k2"}]
    last = page | {"chunks": [], "earlier": False}
    for count, expected in ((0, ""), (1, "d\n"), (2, "cc\nd\n"), (3, "b\ncc\nd\n"), (9, "a\nb\ncc\nd\n")):
        daemon.answers["GET /v1/jobs/bert-qa/logs"] = (200, [page | {"chunks": chunks, "earlier": True}, last])
        assert run(["logs", "bert-qa", "--tail", str(count)]) == 0
        out, err = capsys.readouterr()
        assert out == expected
        assert "earlier output" not in err
    assert run(["logs", "bert-qa", "--tail", "-1"]) == 2
    assert run(["logs", "bert-qa", "--tail", "1", "--all"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(capsys: Capture, shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "submit" in script
    assert "--min-probability" in script
