"""A machine is looked into while its job runs and after it failed, and a job is changed: on real processes."""

from __future__ import annotations

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, assert_one_error, command, job_text, show, submit, until

pytestmark = pytest.mark.slow
FAILS = job_text(1, "broken", run="run = 'echo half done > state; exit 3'").replace(
    "[checkpoint]", '[debug]\nhold = "60m"\n\n[retry]\nmax_attempts = 1\n\n[checkpoint]'
)


def said(theatre: Theatre, *words: str) -> str:
    done = command(theatre, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_job_is_looked_into_changed_and_its_failed_machine_given_back() -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        job_id = submit(theatre, job_text(1_000_000))
        until(lambda: show(theatre, job_id)["job"]["status"] == "running", "a running job")
        assert said(theatre, "exec", job_id, "--", "echo $AUTOPILOT_CHECKPOINT_PATH").endswith("/workspace/ckpt\n")
        assert command(theatre, "exec", job_id, "--", "exit 7").returncode == 7

        before = show(theatre, job_id)["job"]
        assert "budget $5.00" in said(theatre, "change", job_id, "budget=5", "deadline=6h", "max_price=0.9")
        after = show(theatre, job_id)["job"]
        assert (before["budget"], after["budget"]) == ("3", "5")
        assert before["deadline"] is None
        assert after["deadline"] is not None
        changed = [event for event in show(theatre, job_id)["events"] if event["name"] == "job.changed"]
        assert len(changed) == 3, changed
        assert_one_error(command(theatre, "change", job_id, "budget=0.01"), 4)
        assert show(theatre, job_id)["job"]["budget"] == "5"
        said(theatre, "cancel", job_id)

        failed = submit(theatre, FAILS)
        until(lambda: show(theatre, failed)["job"]["status"] == "failed", "its failure")
        assert said(theatre, "exec", failed, "--", "cat state") == "half done\n"
        assert "released" in said(theatre, "release", failed)
        until(lambda: _live(theatre, failed) == [], "its machine's end")
        assert_one_error(command(theatre, "exec", failed, "--", "true"), 2, "no running machine")


def _live(theatre: Theatre, job_id: str) -> list[str]:
    return [lease["state"] for lease in show(theatre, job_id)["leases"] if lease["state"] not in ("gone", "abandoned")]
