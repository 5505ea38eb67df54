"""What the agent watches and carries on for a job: its GPUs, and the run of its curve."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.agent.shipped.room import run_id
from autopilot.domain.job import JobStatus
from autopilot.domain.readings import Readings
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.engine.mailbox import Mail, mail_events
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.report_shapes import Heartbeat
from tests.builders import START, a_job, a_lease
from tests.integration.agent.agent_world import Host, World, verified
from tests.patience import eventually


def with_gpus(host: Host, *percent: int) -> Path:
    """A driver's program that says what the file does."""
    program, said = host.root / "bin/nvidia-smi", host.root / "utilization"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {said}\n")
    program.chmod(0o755)
    said.write_text("".join(f"{each}\n" for each in percent))
    host.env["PATH"] = f"{program.parent}:{host.env['PATH']}"
    return said


@pytest.mark.slow
async def test_a_silent_job_has_stalled_once_its_gpus_are_idle(world: World) -> None:
    lease = await world.lease("a", Work(run="sleep 1000", stall_s=300, stall_fails=True))
    host = world.host(lease)
    said = with_gpus(host, 0, 97)
    host.start()
    first = await lease.until("running", lambda beat: beat.state == "running")
    await lease.until("later than it would be bearable", lambda beat: beat.seq > first.seq + 24)
    assert await lease.exit() is None
    said.write_text("0\n3\n")
    record = await eventually(lease.exit, "the end of a stalled job")
    assert record.reason == "stalled"


@pytest.mark.slow
async def test_a_command_that_does_nothing_is_said_to_have_stalled(world: World) -> None:
    """By default: its job file says nothing of stalls. The command goes on."""
    lease = await world.lease("a", Work(run="echo begun; exec sleep 1000"))
    host = world.host(lease, speed=600)
    said = with_gpus(host, 0, 97)
    host.start()
    busy = await lease.until("running", lambda beat: beat.state == "running" and _read(beat).gpu_busy == 0.485)
    await lease.until("later", lambda beat: beat.seq > busy.seq + 5)
    event_log = EventLog(a_job(a_lease("a", running_since=START - timedelta(days=9))))
    assert not hear(event_log, await lease.heartbeat())

    said.write_text("0, 1024, 24576\n3, 1024, 24576\n")
    still = await lease.until("31 min of nothing", lambda beat: (_read(beat).still_s or 0) > 31 * 60)
    assert hear(event_log, still) == ["run.stalled"]
    assert (event_log.job.status, event_log.job.reason) == (JobStatus.RUNNING, Reason.STALLED)
    assert (still.state, _read(still).gpu_memory) == ("running", (2 << 30, 48 << 30))

    said.write_text("Unable to determine the device handle\n")
    unknown = await lease.until("GPUs that cannot be read", lambda beat: _read(beat).still_s is None)
    assert hear(event_log, unknown) == ["run.stalled"]

    said.write_text("97, 21504, 24576\n0, 1024, 24576\n")
    works = await lease.until("work", lambda beat: _read(beat).still_s == 0)
    assert hear(event_log, works) == ["run.stalled", "run.went_on"]
    assert await lease.exit() is None


def _read(beat: Heartbeat) -> Readings:
    return beat.readings or Readings()


def hear(event_log: EventLog, beat: Heartbeat | None) -> list[str]:
    """What the daemon has said of runs once it has read that heartbeat."""
    assert beat is not None
    job = event_log.job
    for event in mail_events(job, job, job.leases[0], Mail(beat), START + timedelta(seconds=beat.seq)):
        event_log.apply(event)
    return [record.name for record in event_log.records if record.name.startswith("run.")]


@pytest.mark.slow
async def test_the_run_of_mlflow_goes_with_the_checkpoint(world: World) -> None:
    script = "from autopilot import checkpoint; checkpoint.mlflow_run('0123abcd')"
    first = Work(run=f'python3 -c "{script}"; echo one > ckpt; sleep 1000', checkpoint_path="ckpt")
    lease = await world.lease("a", first)
    world.host(lease).start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint == 0)
    restore = await verified(world.store, "a", 0)
    await lease.order(role="leave")
    second = await world.lease(
        "b", Work(run="echo run $MLFLOW_RUN_ID", checkpoint_path="ckpt"), restore=restore, run_epoch=2
    )
    world.host(second).start()
    await eventually(lambda: "run 0123abcd\n" in second.log(), "the id on another machine")
    own = Work(run="echo run $MLFLOW_RUN_ID", checkpoint_path="ckpt", env={"MLFLOW_RUN_ID": "mine"})
    third = await world.lease("c", own, restore=restore, run_epoch=3)
    world.host(third).start()
    await eventually(lambda: "run mine\n" in third.log(), "the job file's own word")


@pytest.mark.parametrize("said", ["", "x" * 65, "a b", "$(id)", "/lib/x.so", None, 7, "a\nb"])
def test_what_is_no_run_is_none(said: object) -> None:
    assert run_id(said) == ""
