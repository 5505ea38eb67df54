"""A daemon that no machine can reach, without a bucket: it dials its machines, which have a network of their own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import SPEED, ForkedTheatre, is_settled, job_text, market_events, show, submit, until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own for each machine takes root"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"),
]


@pytest.fixture
def speed() -> float:
    return SPEED


@pytest.fixture
def theatre(speed: float) -> Iterator[Theatre]:
    yield from a_dialling_theatre(speed)


def a_dialling_theatre(speed: float) -> Iterator[ForkedTheatre]:
    """Its machines have sshd and a network of their own, and its daemon no address."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    made = ForkedTheatre(
        root, seed=1, speed=speed, settings={"AUTOPILOT_BLOBS__OVER_SSH": "true"}, market_options=("--ssh",)
    )
    try:
        made.start_market()
        made.start_daemon()
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


def test_a_job_runs_to_its_end(theatre: Theatre) -> None:
    job_id = submit(theatre, job_text(1800))
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job")
    assert show(theatre, job_id)["job"]["status"] == "succeeded"
    assert len(market_events(theatre, "instance.started")) == 1


@pytest.mark.parametrize("speed", [20.0])
def test_a_daemon_that_was_killed_dials_the_same_machine_and_rents_no_second(theatre: Theatre) -> None:
    job_id = submit(theatre, job_text(1200))
    until(lambda: show(theatre, job_id)["job"]["status"] == "running", "the first report")
    theatre.kill_daemon()
    theatre.start_daemon()
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job")
    body = show(theatre, job_id)
    assert body["job"]["status"] == "succeeded"
    assert len(market_events(theatre, "instance.started")) == len(body["leases"]) == 1
