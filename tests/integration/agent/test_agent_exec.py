"""Commands beside the job on real machines: the job's place and user, once, fresh, and gone with the run."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.mailbox.exec_answers import MAX_ANSWER_BYTES, ExecAnswer, parse_exec_answer
from autopilot.mailbox.keys import exec_key
from autopilot.mailbox.order_shapes import ExecOrder, Work
from tests.integration.agent.agent_world import JOB, Host, Lease, World
from tests.patience import eventually

WORK = Work(run='echo "$AUTOPILOT_PROGRESS_FILE" > told; echo run; sleep 1000', env={"WHO": "job"})
WHERE = "pwd; echo $WHO; id -u; echo progress=$AUTOPILOT_PROGRESS_FILE"


async def ask(lease: Lease, command: str, call_id: str = "c1", timeout_s: int = 600, ago_s: int = 0) -> None:
    url = lease.store.sign_put(exec_key(JOB, lease.lease_id, call_id), timedelta(hours=1), MAX_ANSWER_BYTES)
    await lease.order(exec=ExecOrder(call_id, command, timeout_s, int(time.time()) - ago_s, url))


async def answered(lease: Lease, call_id: str = "c1") -> ExecAnswer:
    key = exec_key(JOB, lease.lease_id, call_id)
    data = await eventually(lambda: lease.store.get(key), "an answer")
    answer = parse_exec_answer(data, call_id)
    assert answer is not None, data
    await lease.order(exec=None)
    return answer


async def running(world: World, work: Work = WORK, **terms: object) -> tuple[Lease, Host]:
    lease = await world.lease("a", work, **terms)
    host = world.host(lease)
    host.start()
    beat = await lease.until("running", lambda beat: beat.state == "running")
    assert "exec" in beat.can
    await eventually((host.root / "workspace/told").exists, "the command")
    return lease, host


async def test_a_command_runs_where_and_as_whom_the_job_runs(world: World) -> None:
    lease, host = await running(world)
    await ask(lease, WHERE + "; exit 5")
    answer = await answered(lease)
    job_user = (host.root / "workspace/told").stat().st_uid
    workdir = host.root / "workspace"
    assert answer.output.decode() == f"{workdir}\njob\n{job_user}\nprogress=\n"
    assert (answer.exit_code, answer.ended) == (5, "exited")
    assert (workdir / "told").read_text() != "\n"  # the command itself can tell of its progress
    await ask(lease, "echo again", "c2")
    assert (await answered(lease, "c2")).output == b"again\n"
    assert "again" not in lease.log() + host.console.read_text()
    beat = await lease.heartbeat()
    assert beat is not None
    assert beat.state == "running"


@pytest.mark.slow
async def test_after_a_restart_a_command_that_was_answered_does_not_run_again(world: World) -> None:
    lease, host = await running(world)
    await ask(lease, "echo x >> ran")
    key = exec_key(JOB, "a", "c1")
    await eventually(lambda: lease.store.get(key), "an answer")
    host.kill()
    host.start()
    await lease.until("running again", lambda beat: beat.boot == 2 and beat.state == "running")
    await ask(lease, "echo y >> ran", "c2")
    await answered(lease, "c2")
    assert (host.root / "workspace/ran").read_text() == "x\ny\n"


@pytest.mark.slow
async def test_what_a_paused_machine_finds_when_it_wakes_is_not_run(world: World) -> None:
    lease, host = await running(world)
    host.kill()
    await ask(lease, "touch ran", ago_s=125)
    host.start()
    beat = await lease.until("its word on it", lambda beat: beat.boot == 2 and "too long ago" in beat.error)
    assert beat.state in ("running", "restoring", "waiting", "setting_up")
    await ask(lease, "touch fresh", "c2")
    await answered(lease, "c2")
    assert not (host.root / "workspace/ran").exists()
    assert (host.root / "workspace/fresh").exists()


@pytest.mark.slow
async def test_at_a_move_it_ends(world: World) -> None:
    lease, host = await running(world)
    await ask(lease, "echo $$ > pid; sleep 1000", timeout_s=600)
    pid = host.root / "workspace/pid"
    await eventually(lambda: pid.exists() and pid.read_text().strip(), "the command beside it")
    await lease.order(role="save_and_stop")
    answer = await answered(lease)
    assert (answer.exit_code, answer.ended) == (137, "stopped")
    await eventually(lambda: not is_alive(pid), "the end of it")


@pytest.mark.slow
async def test_it_ends_with_the_permit_and_with_the_agent(world: World) -> None:
    lease, host = await running(world)
    await ask(lease, "echo $$ > pid; sleep 1000", timeout_s=600)
    pid = host.root / "workspace/pid"
    await eventually(lambda: pid.exists() and pid.read_text().strip(), "the command beside it")
    await lease.let_go()
    await eventually(lambda: not is_alive(pid), "the end of it")
    assert (await answered(lease)).ended == "stopped"


@pytest.mark.slow
async def test_what_it_does_on_the_gpus_is_no_sign_of_the_job_s_life(world: World) -> None:
    lease = await world.lease("a", Work(run="touch told; sleep 1000", stall_s=300, stall_fails=True))
    host = world.host(lease)
    program, said = host.root / "bin/nvidia-smi", host.root / "utilization"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec cat {said}\n")
    program.chmod(0o755)
    host.env["PATH"] = f"{program.parent}:{host.env['PATH']}"
    said.write_text("97\n")  # the job's own work keeps it from being ended
    host.start()
    await lease.until("running", lambda beat: beat.state == "running")
    await ask(lease, "touch beside; sleep 1000", timeout_s=600)
    await eventually((host.root / "workspace/beside").exists, "the command beside it")
    record = await eventually(lease.exit, "the end of a stalled job")
    assert record.reason == "stalled"


@pytest.mark.slow
async def test_one_whose_command_has_failed_can_be_entered(world: World) -> None:
    lease = await world.lease("a", Work(run="touch told; exit 3"))
    world.host(lease).start()
    await lease.until("the end", lambda beat: beat.state == "finished")
    await ask(lease, "ls told")
    assert (await answered(lease)).output == b"told\n"


def is_alive(pid: Path) -> bool:
    """A zombie has no command line."""
    return bool(_cmdline(pid))


def _cmdline(pid: Path) -> bytes:
    try:
        return Path(f"/proc/{int(pid.read_text())}/cmdline").read_bytes()
    except OSError:
        return b""
