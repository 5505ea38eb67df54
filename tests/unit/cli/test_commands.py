"""Commands against a real server: what is asked, what is printed, and the exit code."""

from __future__ import annotations

import io
import json
import re
import socket
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.cli import logs
from autopilot.cli.main import run
from autopilot.config.job_file import parse_job
from autopilot.domain.host import Arch, HostNeeds
from autopilot.words import text
from tests.unit.cli.sample_daemon import Daemon, sample

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *argv: str, code: int = 0) -> str:
    """stdout of a command that ends with ``code``; stdout, then stderr when it is not 0."""
    assert run(argv) == code, capsys.readouterr().err
    out, err = capsys.readouterr()
    return out if code == 0 else out + err


def test_ps_is_readable_at_80_columns(daemon: Daemon, capsys: Capture) -> None:
    out = printed(capsys, "ps")
    header, first, second = (line for line in out.splitlines() if line.startswith(("JOB", "01KDZ3V")))
    assert header.split()[:3] == ["JOB", "NAME", "STATUS"]
    assert " ".join(header.split()).endswith("BID POSTED RESERVED DONE LEFT"), (
        "the cents since the last posting have no room"
    )
    assert " ".join(first.split()[:3]) == "01KDZ3V8XQ bert-qa running"
    assert "$0.312/h $0.29 $0.11 42%" in " ".join(first.split())
    assert "[bold]nasty" in second
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert daemon.requests[0] == ("GET /v1/jobs", "", None)
    printed(capsys, "ps", "-a")
    assert daemon.requests[-2] == ("GET /v1/jobs", "all=1", None)


def test_ps_has_the_sum_of_all_jobs_that_it_shows(daemon: Daemon, capsys: Capture) -> None:
    jobs = sample("jobs")["jobs"]
    total = "total of 2 jobs: $0.29 spent, $0.11 reserved; 15% of $2.00 in the budgets of 1"
    assert total in printed(capsys, "ps").splitlines()
    assert "total of" not in printed(capsys, "ps", "-q") + printed(capsys, "ps", "--json")
    array = jobs[0] | {"id": "01ARRAY", "name": "sweep", "posted": "1", "accrued": "0.5", "budget": "10"}
    counts = dict.fromkeys(("unbegun", "waiting", "parked", "ending", "succeeded", "failed", "cancelled"), 0)
    array |= {"tasks": counts | {"count": 9, "needed": 9, "parallel": 9, "max_failures": None, "running": 1}}
    task = jobs[0] | {"id": "01TASK", "array": "01ARRAY", "budget": None, "is_estimate": True, "posted": "0.75"}
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": [*jobs, array, task]})
    total = "total of 3 jobs: $1.79 spent, $0.21 reserved; 15% of $12.00 in the budgets of 2"
    assert total in printed(capsys, "ps", "--tasks").splitlines(), "the array's cost has that of its tasks"
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": [task], "next": None})
    assert "total of 1 job: ~$0.75 spent, $0.11 reserved" in printed(capsys, "ps", "sweep").splitlines()
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": [jobs[0]]})
    total = "total of 1 job: $0.29 spent, $0.11 reserved; 15% of $2.00 in its budget"
    assert total in printed(capsys, "ps").splitlines()


@pytest.mark.parametrize(("argv", "path"), [(["ps"], "GET /v1/jobs"), (["show", "bert-qa"], "GET /v1/jobs/bert-qa")])
def test_an_answer_that_lacks_a_field_is_one_line(daemon: Daemon, capsys: Capture, argv: list[str], path: str) -> None:
    body = daemon.answers[path][1]
    job = body["jobs"][0] if "jobs" in body else body["job"]
    del job["held"]
    said = printed(capsys, *argv, code=1)
    assert said.startswith("error: the daemon's answer cannot be read: Job without held\nhint: ")


def test_ps_and_show_say_that_a_job_does_nothing(daemon: Daemon, capsys: Capture) -> None:
    shown = sample("jobs")
    job = shown["jobs"][0]
    job["reason"], job["main"]["stalled_since"] = "stalled", "2026-01-01T11:18:00+00:00"
    job["main"]["readings"]["gpus"][0]["busy"] = 0.0
    daemon.answers["GET /v1/jobs"] = (200, shown)
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, sample("job") | {"job": job})
    out = printed(capsys, "ps")
    assert out.endswith("\nbert-qa: running: nothing new for 42 min, GPUs idle\n")
    assert "0%" in out
    assert max(map(len, out.splitlines())) <= 80
    out = printed(capsys, "show", "bert-qa")
    assert "running: nothing new for 42 min, GPUs idle" in out
    assert "GPU 0%, 21 of 24 GB; disk 12.4 GB free; load 3.1" in out
    assert max(map(len, out.splitlines())) <= 80


def test_ids_are_shown_as_long_as_they_must_be(daemon: Daemon, capsys: Capture) -> None:
    duplicates = sample("jobs")["jobs"]
    duplicates[1]["id"] = duplicates[0]["id"][:12] + "Z" * 14
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": duplicates})
    shown = [line.split()[0] for line in printed(capsys, "ps").splitlines() if line.startswith("01KDZ3V")]
    assert shown == [duplicate["id"][:13] for duplicate in duplicates]


def test_ps_says_what_keeps_the_daemon_from_its_work(daemon: Daemon, capsys: Capture) -> None:
    quiet = printed(capsys, "ps")
    status = sample("status")
    (market,) = status["providers"]
    market |= {"name": "mithril", "known": False, "credit": None, "reason": "401: no such key"}
    market |= {"read_at": "2026-01-01T11:50:00+00:00", "hint": "store a valid key with: autopilot init"}
    status |= {"failing_since": "2026-01-01T11:58:00+00:00", "failure": "disk full", "providers": [market]}
    daemon.answers["GET /v1/status"] = (200, status)
    out = " ".join(printed(capsys, "ps").removeprefix(quiet).split())
    assert out == (
        "No tick has ended well since 2 min ago (2026-01-01 11:58:00 UTC): disk full. No decisions are made"
        " meanwhile. Machines keep running until their permits expire. mithril refuses its key, last read 10 min ago "
        "(2026-01-01"
        " 11:50:00 UTC): 401: no such key. Store a valid key with: autopilot init"
    )
    late = sample("status") | {"last_tick_at": "2026-01-01T11:54:00+00:00"}
    daemon.answers["GET /v1/status"] = (200, late)
    assert "The last tick ended 6 min ago" in printed(capsys, "ps")


def test_ps_without_jobs_says_so(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": []})
    assert "no open jobs" in printed(capsys, "ps")
    assert printed(capsys, "ps", "--all") == "no jobs\n"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["ps"], "jobs"),
        (["show", "bert-qa"], "job"),
        (["why", "bert-qa"], "why"),
        (["spend"], "spend"),
        (["offers", "--gpu", "RTX 4090:1"], "offers"),
    ],
)
def test_json_is_the_daemon_s_answer(daemon: Daemon, capsys: Capture, argv: list[str], name: str) -> None:
    assert json.loads(printed(capsys, *argv, "--json")) == sample(name)


def test_show(daemon: Daemon, capsys: Capture) -> None:
    out = printed(capsys, "show", "bert-qa")
    for part in (
        "running: working",
        "1 h 2 min ago (2026-01-01 10:57:12 UTC)",
        "25 min 12 s of 1 h, 42%, step 420",
        "machine GPU 97%, 21 of 24 GB; disk 12.4 GB free; load 3.1",
        "on track, slack 2 h 15 min",
        "posted $0.2937 (compute $0.2810, storage $0.0127, bandwidth $0.0000, fees $0.0000)",
        "fees $0.0000) accrued $0.0012 reserved $0.1071",
        "budget $2.00 on demand the same hours: $0.5120",
        "spot $0.28/h $0.0933 $0.0000 $0.0000 1 h 2 min",
        "total $0.2937 $0.0012 $0.1071",
        "outbid at",
        "number 7 at step 410",
    ):
        assert part in " ".join(out.split()), part
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("agent", "shown"),
    [("running", "active vastai"), ("setting_up", "setting vastai"), ("", "loading vastai")],
)
def test_show_tells_what_a_machine_does_that_is_not_at_work(
    daemon: Daemon, capsys: Capture, agent: str, shown: str
) -> None:
    body = sample("job")
    body["leases"][1]["agent_state"] = agent
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, body)
    out = printed(capsys, "show", "bert-qa")
    assert f"main {shown}" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_show_of_a_job_that_has_not_begun(daemon: Daemon, capsys: Capture) -> None:
    begun = sample("job") | {"leases": [], "checkpoints": [], "bids": [], "events": []}
    daemon.answers["GET /v1/jobs/new"] = (200, begun | {"job": sample("jobs")["jobs"][1]})
    out = printed(capsys, "show", "new")
    assert "pending: market unknown" in out
    assert "none yet" in out
    assert "budget none" in " ".join(out.split())


def test_show_of_a_failed_job_begins_with_what_failed_and_its_last_output(daemon: Daemon, capsys: Capture) -> None:
    body = sample("job")
    body["job"] |= {"status": "failed", "reason": "command_failed", "exit_code": 1}
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, body)
    chunk = sample("logs")["pages"][0]["chunks"][0]
    printed_lines = [f"step {n}\n" for n in range(100)]
    end = " 10%\r 20%\r\n\x1b[31mCUDA\x1b[0m out\x1b]0;owned\x07 of\tmemory\x00\n" + "x" * 3000 + "\nlast\n"
    chunks = [chunk | {"text": text} for text in (*printed_lines, end)]
    page = {"chunks": chunks, "earlier": True, "finished": True}
    logs = f"GET /v1/jobs/{body['job']['id']}/logs"
    daemon.answers[logs] = (200, page)
    out = printed(capsys, "show", "bert-qa")
    job_id = body["job"]["id"]
    assert (f"GET /v1/jobs/{job_id}/logs", "tail=1") in [asked[:2] for asked in daemon.requests]
    first, shown = out.split("\nLast output (more: autopilot logs)\n")
    assert " ".join(first.split()) == (
        "failed command failed exit code 1 checkpoint number 7 at step 410, in the store next step fix the cause, then"
        " autopilot submit its file again: it starts from the beginning; a new job does not read this one's checkpoint"
    )
    shown, details = shown.split("\n\n", 1)
    assert details.startswith("job ")
    lines = shown.splitlines()
    assert lines[:17] == [*(f"step {n}" for n in range(84, 100)), " 20%"]
    assert lines[17].split() == ["CUDA", "out", "of", "memory"]
    assert (shown.count("x"), lines[-1]) == (500, "last")
    assert "\x1b" not in out
    daemon.answers[logs] = (200, page | {"chunks": []})
    assert "\nIt printed nothing.\n\njob " in printed(capsys, "show", "bert-qa")
    daemon.answers[logs] = (503, {"detail": "the store does not answer"})
    assert "Its output cannot be read: the store does not answer\n\njob " in printed(capsys, "show", "bert-qa")
    body["job"] |= {"name": "sweep/17", "array": "01ARRAY"}
    assert "autopilot retry sweep/17 restarts it from checkpoint 7" in printed(capsys, "show", "bert-qa")
    body["job"] |= {"checkpoint": None, "exit_code": None}
    out = " ".join(printed(capsys, "show", "bert-qa").split())
    assert "exit code none: no run of its command has ended checkpoint none: its work is lost" in out
    assert "autopilot retry sweep/17 restarts it from the beginning" in out
    body["job"]["status"] = "succeeded"
    assert "Last output" not in printed(capsys, "show", "bert-qa")


def test_submit_sends_the_text_and_shows_the_plan(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "é"')
    out = printed(capsys, "submit", str(file))
    asked = {"toml": 'name = "é"', "source": str(file), "dry_run": False, "min_probability": 0.8, "again": False}
    assert daemon.requests[0] == ("POST /v1/jobs", "", asked)
    assert "submitted bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X)" in out
    assert "$0.311/h" in out
    assert "on demand" in out
    daemon.answers["POST /v1/jobs"] = (200, sample("plan"))
    out = printed(capsys, "submit", str(file), "--dry-run")
    assert daemon.requests[-2][2]["dry_run"] is True
    assert "nothing was submitted" in out


def test_submit_sends_several_files_as_one_set(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    files = [tmp_path / "prepare.toml", tmp_path / "train.toml"]
    for file in files:
        file.write_text(f'name = "{file.stem}"')
    made = sample("submitted")
    waits = made | {"job": made["job"] | {"name": "train", "reason": "waiting_for_jobs"}}
    daemon.answers["POST /v1/sets"] = (201, {"jobs": [made, waits]})
    out = printed(capsys, "submit", *map(str, files))
    (asked,) = [body for what, _, body in daemon.requests if what == "POST /v1/sets"]
    assert [part["toml"] for part in asked["jobs"]] == ['name = "prepare"', 'name = "train"']
    assert (asked["again"], asked["dry_run"]) == (False, False)
    assert str(files[1]) in out
    assert "submitted train (01KDZ3V8XQ7M2N4P6R8T0V1W2X); what it waits for: autopilot why train" in out
    assert "the same file is given twice" in printed(capsys, "submit", str(files[0]), str(files[0]), code=2)


def a_schedule(**changes: object) -> dict[str, object]:
    return {
        "id": "01KDZ3V8XQ7M2N4P6R8T0V1W2X",
        "name": "nightly",
        "owner": 0,
        "status": "active",
        "reason": "submitted",
        "created_at": "2026-01-01T00:00:00+00:00",
        "ended_at": None,
        "cron": "0 2 * * *",
        "zone": "Europe/Berlin",
        "overlap": "skip",
        "catch_up": False,
        "until": None,
        "count": None,
        "next": ["2026-01-02T01:00:00+00:00"],
        "fired": 3,
        "last": {"job": "01KDZ3V8XQ7M2N4P6R8T0V1W2Y", "due_at": "2026-01-01T01:00:00+00:00", "status": "running"},
        "left_out": 1,
        "left_out_at": None,
        "left_out_reason": "overlap",
        "posted": "3.10",
        "held": "0",
        "job_budget": None,
        "budget": "60",
        "is_monthly": True,
    } | changes


def test_submit_of_a_file_with_a_schedule_makes_one(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text('name = "nightly"\n[schedule]\ncron = "0 2 * * *"\n')
    plan = sample("submitted")["plan"]
    made = {"schedule": a_schedule(), "next": a_schedule()["next"], "zone": "Europe/Berlin", "plan": plan}
    daemon.answers["POST /v1/schedules"] = (201, made)
    out = " ".join(printed(capsys, "submit", str(file)).split())
    assert "scheduled nightly (01KDZ3V8XQ7M2N4P6R8T0V1W2X); due 2026-01-02 02:00 Europe/Berlin" in out
    assert "(2026-01-02 01:00 UTC) autopilot schedules end nightly ends it" in out
    assert "no job to wait for yet" not in out
    assert "no job to wait for yet" in printed(capsys, "submit", str(file), "--wait")
    daemon.answers["POST /v1/schedules"] = (200, made | {"schedule": None})
    assert "nothing was submitted (dry run); due" in printed(capsys, "submit", str(file), "--dry-run")
    assert "(dry run); due 2026-01-02 02:00 Europe/Berlin" in printed(capsys, "plan", str(file))
    asked = [body for what, _, body in daemon.requests if what == "POST /v1/schedules"]
    assert [each["dry_run"] for each in asked] == [False, False, True, True]


def test_schedules_are_listed_and_moved(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["GET /v1/schedules"] = (200, {"schedules": [a_schedule()]})
    out = printed(capsys, "schedules")
    assert out.splitlines() == [
        "nightly (01KDZ3V8XQ7M2N4P6R8T0V1W2X): active, 0 2 * * * Europe/Berlin",
        "  next: 2026-01-02 02:00 Europe/Berlin (2026-01-02 01:00 UTC)",
        "  3 fired, 1 skipped (overlap); $3.10 of $60.00/month spent",
        "  last: 01KDZ3V8XQ7M2N4P6R8T0V1W2Y running",
    ]
    daemon.answers["POST /v1/schedules/nightly/end"] = (200, {"schedule": a_schedule(status="ended", next=[])})
    ended = printed(capsys, "schedules", "end", "nightly")
    assert ended == "ended nightly; its last job (01KDZ3V8XQ7M2N4P6R8T0V1W2Y) is running and continues\n"
    assert "which schedule?" in printed(capsys, "schedules", "pause", code=2)
    assert "ls takes no names" in printed(capsys, "schedules", "ls", "nightly", code=2)


def test_submit_reads_standard_input(daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'name = "x"')))
    printed(capsys, "submit", "-")
    asked = {"toml": 'name = "x"', "source": "standard input", "dry_run": False, "min_probability": 0.8}
    assert daemon.requests[0][2] == asked | {"again": False}


def test_files_that_are_no_job_file(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    assert "error: cannot read" in printed(capsys, "submit", str(tmp_path / "none.toml"), code=2)
    assert "error: unknown option: --yes" in printed(capsys, "submit", "--yes", code=2)
    (tmp_path / "binary").write_bytes(b"\x80\x81")
    assert "it is not text" in printed(capsys, "submit", str(tmp_path / "binary"), code=2)
    (tmp_path / "large").write_bytes(b"#" * 200_000)
    assert "larger than 100 kB" in printed(capsys, "submit", str(tmp_path / "large"), code=2)
    assert daemon.requests == []


def test_logs_come_in_order_and_follow_until_the_job_is_over(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FOLLOW_INTERVAL_S", 0.001)
    ended = sample("job") | {"job": sample("job")["job"] | {"status": "failed"}}
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, ended)
    assert run(["logs", "bert-qa", "-f"]) == 1, "the job's outcome"
    output = capsys.readouterr()
    assert output.out == "step 1\nstep 2\ndone\n"
    began, moved = output.err.splitlines()
    assert "started on vastai machine 7001" in began
    assert "moved to runpod machine 9" in moved
    assert [query for _, query, _ in daemon.requests] == ["tail=1", "after=k2", "after=k2", "after=k3", ""]
    daemon.answers["GET /v1/jobs/bert-qa/logs"] = (200, sample("logs")["pages"])
    assert printed(capsys, "logs", "bert-qa") == "step 1\nstep 2\n"


def test_logs_print_the_newest_output_and_say_that_there_is_more(daemon: Daemon, capsys: Capture) -> None:
    page = sample("logs")["pages"][0] | {"earlier": True, "finished": True}
    last = page | {"chunks": [], "earlier": False}
    daemon.answers["GET /v1/jobs/bert-qa/logs"] = (200, [page, last])
    assert run(["logs", "bert-qa"]) == 0
    assert "earlier output: autopilot logs --all" in capsys.readouterr().err
    assert "tail=1" in daemon.requests[0][1]
    daemon.answers["GET /v1/jobs/bert-qa/logs"] = (200, [page | {"earlier": False}, last])
    assert run(["logs", "bert-qa", "--all"]) == 0
    assert "tail" not in daemon.requests[-2][1]


def test_why_tells_each_decision_with_what_the_market_said(daemon: Daemon, capsys: Capture) -> None:
    out = " ".join(printed(capsys, "why", "bert-qa", "--limit", "3").split())
    assert daemon.requests[0][1] == "limit=3"
    for part in (
        "now running: working",
        "did bid $0.336/h: outbid answer the bid of $0.336/h: done",
        "vetoed acquire: over day limit (committed $50.20, the limit is $50.00)",
        "saw slack 2 h 39 min (on track), one more loss costs 17 min, $0.40 of $2.00 spent or committed",
        "saw outbid for 40 s: $0.306/h would win, the next bid is $0.336/h, rebidding costs $0.29 to the end, "
        "leaving costs $0.41 to the end, its disk costs $0.004/h",
        "saw re bid against waiting: floor $0.33/h, ceiling $0.468/h",
        "did rent vastai machine 911, spot at $0.138/h (floor $0.12/h, on demand $0.52/h): cheapest",
        "answer 01-01 10:57:31 the market refused $0.138/h: a higher bid holds the machine (outbid)",
    ):
        assert part in out, part
    assert not re.search(r"=|\d\.\d{4}", out)
    assert "--limit must be at least 1" in printed(capsys, "why", "bert-qa", "--limit", "0", code=2)


WAITING = {
    "at": "2026-01-01T11:59:58+00:00",
    "vetoes": [],
    "notes": [
        {"topic": "status", "numbers": {"slack_s": None, "one_more_loss_s": 1020, "committed": "0", "budget": None}},
        {
            "topic": "search",
            "numbers": {
                "gpus": "1×RTX 4090 or 2×A100 PCIE",
                "min_vram_gb": "24",
                "disk_gb": "20",
                "trust": "verified",
                "policy": "spot",
                "offers": 9,
                "fitting": 0,
                "only_on_demand": None,
            },
        },
        {"topic": "removed", "numbers": {"condition": "max_price", "offers": 7, "has": "0.95", "wanted": "0.3"}},
        {"topic": "removed", "numbers": {"condition": "avoided", "offers": 2, "has": None, "wanted": None}},
    ],
}


def test_a_wait_says_what_was_looked_for_and_what_came_nearest(daemon: Daemon, capsys: Capture) -> None:
    body, listed = sample("why"), sample("jobs")
    body["job"] |= {"status": "pending", "reason": "waiting_for_offer", "waiting": WAITING}
    daemon.answers["GET /v1/jobs/bert-qa/why"] = (200, body | {"decisions": []})
    assert printed(capsys, "why", "bert-qa").splitlines() == [
        "now pending: waiting for offer (at 01-01 11:59:58 UTC)",
        "  looked for 1×RTX 4090 or 2×A100 PCIE, 24 GB of GPU memory, 20 GB of disk, ",
        "verified hosts, spot only: 9 offers, none match",
        "  7 above your max_price: cheapest floor $0.95/h, your max_price $0.30/h",
        "  2 avoided after a failure or a refusal",
        "  run 2 resumes from checkpoint 7 of run 1",
    ]
    nearest = "9 offers, none match; 7 above your max_price: cheapest floor $0.95/h, your max_price $0.30/h"
    listed["jobs"][0] |= {"status": "pending", "reason": "waiting_for_offer", "waiting": WAITING}
    daemon.answers["GET /v1/jobs"] = (200, listed)
    assert f"bert-qa: {nearest}" in " ".join(printed(capsys, "ps").split())
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, sample("job") | {"job": body["job"]})
    assert "7 above your max_price" in printed(capsys, "show", "bert-qa")


def test_why_says_which_checkpoint_was_restored(daemon: Daemon, capsys: Capture) -> None:
    body = sample("why")
    daemon.answers["GET /v1/jobs/bert-qa/why"] = (200, body)
    assert "run 2 resumes from checkpoint 7 of run 1\n" in printed(capsys, "why", "bert-qa")
    body["job"]["checkpoint"]["state"] = "suspect"
    assert "checkpoint 7 of run 1, which is suspect: there is no other" in printed(capsys, "why", "bert-qa")


def test_why_of_a_job_that_no_tick_has_seen(daemon: Daemon, capsys: Capture) -> None:
    body = sample("why") | {"decisions": []}
    body["job"] |= {"status": "pending", "reason": "submitted", "checkpoint": None}
    daemon.answers["GET /v1/jobs/bert-qa/why"] = (200, body)
    assert printed(capsys, "why", "bert-qa").splitlines() == [
        "now pending: submitted",
        "  nothing was decided yet; the daemon decides every few seconds",
    ]


def test_cancel_and_resume(daemon: Daemon, capsys: Capture) -> None:
    assert printed(capsys, "cancel", "bert-qa") == "bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X) is cancelling\n"
    assert printed(capsys, "resume", "bert-qa") == "bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X) is pending\n"


def test_a_cancel_that_the_ledger_could_not_take(daemon: Daemon, capsys: Capture) -> None:
    _, body = daemon.answers["POST /v1/jobs/bert-qa/cancel"]
    daemon.answers["POST /v1/jobs/bert-qa/cancel"] = (202, body | {"unrecorded": "the disk is full"})
    out = printed(capsys, "cancel", "bert-qa")
    name = "bert-qa (01KDZ3V8XQ7M2N4P6R8T0V1W2X)"
    assert out.startswith(f"the disk is full\n{name} is cancelled anyway: its machines are being destroyed")
    assert out.endswith("If the daemon stops before that, cancel the job again.\n")


def test_offers_on_machines_that_have_what_is_asked_for(daemon: Daemon, capsys: Capture) -> None:
    """The options of the command line are the keys of a job file."""
    asked = ("cuda", "12.8"), ("cpus", "16"), ("ram", "64GB"), ("reliability", "0.99"), ("country", "DE | FR")
    printed(
        capsys, "offers", "--gpu", "4090", "--datacenter", "--disk-speed", "1GB/s", "--arch", "amd64",
        *(word for name, value in asked for word in (f"--{name}", value)),
    )  # fmt: skip
    ((_, _, body),) = daemon.requests
    spec = parse_job(body["toml"], source=body["source"], now=datetime.now(UTC))
    assert spec.host == HostNeeds(
        cuda=Decimal("12.8"), arch=Arch.AMD64, cpus=Decimal(16), ram_gb=Decimal(64), disk_mb_per_s=Decimal(1000),
        reliability=Decimal("0.99"), countries=("DE", "FR"), datacenter=True,
    )  # fmt: skip


def test_offers(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    out = printed(capsys, "offers", "--gpu", "RTX 4090:1")
    assert daemon.requests[0] == ("POST /v1/offers", "", {"gpu": "RTX 4090:1"})
    assert "$0.27/h" in out
    assert "no: not verified" in out
    assert max(map(len, out.splitlines())) <= 80
    (tmp_path / "job.toml").write_text("x")
    printed(capsys, "offers", str(tmp_path / "job.toml"))
    assert daemon.requests[1][2] == {"toml": "x", "source": str(tmp_path / "job.toml")}
    refused = printed(capsys, "offers", str(tmp_path / "job.toml"), "--disk-speed", "1GB/s", code=2)
    assert "--disk-speed is for --gpu" in refused
    assert "offers for what?" in printed(capsys, "offers", code=2)
    daemon.answers["POST /v1/offers"] = (200, sample("offers_unknown"))
    assert "vastai is unknown: HTTP 503" in printed(capsys, "offers", "--gpu", "x", code=3)


@pytest.mark.parametrize(("status", "code"), [(422, 2), (402, 4), (403, 4), (503, 3), (500, 1), (409, 1)])
def test_the_daemon_s_errors_become_one_line_a_hint_and_a_code(
    daemon: Daemon, capsys: Capture, status: int, code: int
) -> None:
    daemon.answers["GET /v1/jobs/x%20y"] = daemon.answers["GET /v1/jobs/x y"] = (
        status,
        {"detail": "it is wrong", "hint": "mend it"},
    )
    assert printed(capsys, "show", "x y", code=code) == "error: it is wrong\nhint: mend it\n"


def test_an_answer_that_is_no_json_is_an_error(daemon: Daemon, capsys: Capture) -> None:
    for body in ("<html>", "[]", ""):
        daemon.answers["GET /v1/spend"] = (200, body)
        assert "cannot be read" in printed(capsys, "spend", code=1)


def test_no_daemon(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "none.sock"
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(path))
    expected = (
        f"error: the daemon is not running at {path}\nhint: start it: autopilot serve, or systemctl start autopilot\n"
    )
    assert printed(capsys, "ps", code=3) == expected
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    assert printed(capsys, "ps", code=3) == expected


def test_a_daemon_that_breaks_off(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sock"
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(path))
    with socket.create_server(str(path), family=socket.AF_UNIX) as server:
        import threading

        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        assert "broke off" in printed(capsys, "ps", code=3)
        thread.join()


def test_bad_usage(capsys: Capture) -> None:
    assert 'Did you mean "submit"?' in printed(capsys, "sumbit", code=2)
    assert "see autopilot submit --help" in printed(capsys, "submit", code=2)
    assert "exclude each other" in printed(capsys, "ps", "--json", "-w", code=2)
    assert "Usage" in printed(capsys, code=2)
    assert printed(capsys, "--version") == printed(capsys, "version")


def test_output_of_a_job_cannot_steer_the_terminal() -> None:
    hostile = "a\x1b[31mred\x1b[0m\tb\r\n\x1b]0;title\x07c\x1b[2J\x9bd\x00e\x1bc\x1b]52;c;aGk=\x1b\\f"
    assert text.harmless(hostile) == "a\x1b[31mred\x1b[0m\tb\r\ncdecf"


def test_small_amounts_do_not_read_as_nothing() -> None:
    assert text.money("0.0004") == "$0.0004"
    assert text.money("0") == "$0.00"
    assert text.money("0.0000000001") == "$0.000000"
    assert (text.per_hour("0.31"), text.per_hour("0.3125"), text.per_hour(None)) == ("$0.31/h", "$0.312/h", "-")
