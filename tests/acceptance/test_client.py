"""``autopilot.client`` against a real daemon and market: a job to its end, and Optuna's trials as jobs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from autopilot.client import Client, JobEnded
from autopilot.domain.job import JobStatus
from tests.acceptance.stage import a_theatre
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "docs/examples/optuna_trials.py"
JOB = """\
name = "{name}"
image = "python:3.12-slim"
run = "{run}"

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$1"
{more}
"""


def test_a_job_from_python_to_its_end() -> None:
    with a_theatre() as theatre, Client(socket=theatre.client.socket_path) as client:
        theatre.start_market()
        theatre.start_daemon()
        job = client.submit(JOB.format(name="one", run="echo first; echo last", more=""))
        followed = "".join(chunk.text for chunk in job.logs(follow=True))
        assert job.wait(timeout_s=PATIENCE_S).status is JobStatus.SUCCEEDED
        assert [line for line in followed.splitlines() if line in ("first", "last")] == ["first", "last"]
        assert "job.succeeded" in {event.name for event in client.events()}
        bad = client.submit(JOB.format(name="bad", run="exit 3", more="[retry]\nmax_attempts = 1"))
        with pytest.raises(JobEnded) as ended:
            bad.wait(timeout_s=PATIENCE_S)
        assert (ended.value.job.status, ended.value.job.exit_code) == (JobStatus.FAILED, 3)


def test_optuna_asks_jobs_answer() -> None:
    pytest.importorskip("optuna", reason="optuna is not installed: it comes with the extra dev")
    spec = importlib.util.spec_from_file_location("optuna_trials", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with a_theatre() as theatre, Client(socket=theatre.client.socket_path) as client:
        theatre.start_market()
        theatre.start_daemon()
        study = example.tune(client, trials=3, at_once=2)
        found = [(trial.params["x"], trial.value) for trial in study.trials]
        assert [value for _, value in found] == [pytest.approx((x - 2) ** 2) for x, _ in found]
        assert {job.name for job in client.jobs(all=True)} == {"trial-0", "trial-1", "trial-2"}
