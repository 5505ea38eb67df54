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
def theatre() -> Iterator[Theatre]:
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    made = ForkedTheatre(
        root, seed=1, speed=SPEED, settings={"AUTOPILOT_BLOBS__OVER_SSH": "true"}, market_options=("--ssh",)
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


def test_a_machine_that_runs_again_at_another_port_is_dialled_there_and_a_restarted_daemon_rents_no_second(
    theatre: Theatre,
) -> None:
    job_id = submit(theatre, job_text(7200))

    def checkpoint() -> int | None:
        found = show(theatre, job_id)["job"]["checkpoint"]
        return None if found is None else int(found["step"])

    until(checkpoint, "a checkpoint at home")
    theatre.kill_daemon()
    theatre.start_daemon()
    before = checkpoint() or 0
    until(lambda: (checkpoint() or 0) > before, "another one, after the restart")
    (instance,) = [each for each in theatre.emu("instances")["instances"] if each["destroyed_at"] is None]
    theatre.emu("host", {"machine_id": instance["machine_id"], "state": "offline"})
    until(lambda: market_events(theatre, "instance.offline"), "the loss of its host")
    theatre.emu("host", {"machine_id": instance["machine_id"], "state": "online"})
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job")
    body = show(theatre, job_id)
    assert body["job"]["status"] == "succeeded"
    boots = {each["id"]: each["boots"] for each in theatre.emu("instances")["instances"]}
    assert boots[instance["id"]] == 2, boots
    assert len(market_events(theatre, "instance.started")) == len(body["leases"]) == 1
