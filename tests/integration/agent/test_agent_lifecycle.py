"""The agent as a real process, started by its bootstrap, against the real listener."""

from __future__ import annotations

import dataclasses
import re
import runpy
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import part_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.report_shapes import Manifest, Part
from tests.integration.agent.agent_world import JOB, TRAINER, World, training, unchecked, verified
from tests.patience import eventually

STEPS = 1500


def model_digest(path: object) -> str:
    return str(runpy.run_path(str(TRAINER))["model_digest"](str(path)))


async def test_runs_checkpoints_and_reports_the_exit(
    world: World, uninterrupted: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lease = await world.lease("a", training(STEPS, "echo set up >> setups", gate))
    host = world.host(lease)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
    gate.touch()
    exit_record = await eventually(lease.exit, "exit record")
    assert (exit_record.run_epoch, exit_record.exit_code, exit_record.reason) == (1, 0, "exited")
    beat = await lease.until("finished", lambda beat: beat.state == "finished")
    assert (beat.step, beat.progress) == (STEPS, 1.0)
    assert beat.last_checkpoint is not None
    assert beat.last_checkpoint >= 1
    manifest = await verified_manifest(world.store, AgentUnpacker(), JOB, "a", beat.last_checkpoint)
    assert manifest is not None
    assert manifest.step is not None
    assert 0 < manifest.step <= STEPS, "it is read before the files are copied, and may lag behind them"
    assert model_digest(host.model) == uninterrupted(STEPS)
    assert f"model sha256 {uninterrupted(STEPS)}" in lease.log()

    host.kill()  # restarted after the end: it tells the end again and runs nothing
    await world.store.delete_prefix(f"jobs/{JOB}/a/heartbeat.json")
    host.start()
    assert await eventually(lease.exit, "exit record again") == exit_record
    assert (host.root / "workspace/setups").read_text() == "set up\n"
    assert lease.log().count("training from step") == 2, "one at the start and one half way"


@pytest.mark.slow
async def test_killed_with_its_whole_tree_it_goes_on_where_it_was(
    world: World, uninterrupted: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lease = await world.lease("a", training(STEPS, "echo set up >> setups", gate))
    host = world.host(lease)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
    host.kill()
    assert await lease.exit() is None
    gate.touch()
    host.start()
    exit_record = await eventually(lease.exit, "exit record")
    assert exit_record.exit_code == 0
    assert model_digest(host.model) == uninterrupted(STEPS)
    assert (host.root / "workspace/setups").read_text() == "set up\n"
    await eventually(lambda: f"model sha256 {uninterrupted(STEPS)}" in lease.log(), "the whole log")
    starts = [line for line in lease.log().splitlines() if line.startswith("training from step")]
    assert len(starts) >= 1
    assert all("from step 0" not in line for line in starts[1:])
    assert "restored checkpoint" in lease.log()


@pytest.mark.slow
async def test_moves_to_another_machine_and_ends_with_the_same_model(
    world: World, uninterrupted: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    old = await world.lease("old", training(STEPS, gate=gate))
    new = await world.lease("new", training(STEPS, gate=gate), role="wait")
    old_host, new_host = world.host(old), world.host(new)
    old_host.start()
    new_host.start()
    await new.until("the new machine waits", lambda beat: beat.state == "waiting")
    beat = await old.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
    assert beat.last_checkpoint is not None
    await new.order(restore=await verified(world.store, "old", beat.last_checkpoint))
    await eventually(lambda: list((new_host.root / "var/lib/autopilot/snapshots").glob("*.json")), "prefetch")
    assert not new_host.model.exists()

    seq = await old.order(role="save_and_stop")
    saved = await old.until("saved", lambda beat: beat.saved and beat.orders_seq_seen >= seq)
    assert saved.last_checkpoint is not None
    manifest = await verified_manifest(world.store, AgentUnpacker(), JOB, "old", saved.last_checkpoint)
    assert manifest is not None
    assert manifest.step is not None
    assert 0 < manifest.step < STEPS

    gate.touch()
    await old.order(role="leave", run_epoch=2)
    await new.order(role="run", run_epoch=2, restore=await verified(world.store, "old", saved.last_checkpoint))
    exit_record = await eventually(new.exit, "exit record")
    assert (exit_record.run_epoch, exit_record.exit_code) == (2, 0)
    begun_at, _ = re.findall(r"training from step (\d+) ", new.log())
    assert manifest.step <= int(begun_at) < STEPS, "its files are of that step, or of a later one"
    assert model_digest(new_host.model) == uninterrupted(STEPS)
    assert (await old.until("left", lambda beat: beat.state == "left")).run_epoch == 2
    assert await old.exit() is None


@pytest.mark.slow
async def test_a_second_agent_on_one_disk_ends_at_once(world: World) -> None:
    lease = await world.lease("a", Work(run="echo ran >> runs; sleep 60"))
    host = world.host(lease)
    host.start()
    await eventually((host.root / "workspace/runs").exists, "the job runs")
    second = host.start()
    assert await eventually(lambda: second.poll() is not None, "the second agent ends")
    assert second.returncode == 0
    assert (await lease.until("boot", lambda beat: beat.state == "running")).boot == 1
    assert (host.root / "workspace/runs").read_text() == "ran\n"


@pytest.mark.slow
async def test_killed_alone_it_ends_the_job_that_it_left_behind(world: World) -> None:
    lease = await world.lease("a", Work(run="(setsid sleep 1000 &) ; echo $$ >> runs; sleep 1000"))
    host = world.host(lease)
    agent = host.start()
    await eventually((host.root / "workspace/runs").exists, "the job runs")
    agent.kill()
    agent.wait()
    left = host.processes()
    assert len(left) >= 2
    host.start()
    await lease.until("runs again", lambda beat: beat.boot == 2 and beat.state == "running")
    assert not set(left) & set(host.processes())


@pytest.mark.slow
async def test_stopped_it_leaves_no_process_of_the_job(world: World) -> None:
    lease = await world.lease("a", Work(run="(setsid sleep 1000 &) ; echo $$ >> runs; sleep 1000"))
    host = world.host(lease)
    agent = host.start()
    await eventually(lambda: len(host.processes()) >= 3, "the job runs")
    await lease.order(role="save_and_stop")
    await lease.until("saved", lambda beat: beat.saved)
    await eventually(lambda: host.processes() == [agent.pid], "only the agent is left")
    assert agent.poll() is None


@pytest.mark.slow
async def test_a_failing_job_and_a_failing_setup_are_reported(world: World) -> None:
    failing = await world.lease("a", Work(run="echo no; exit 7"))
    killed = await world.lease("b", Work(run="kill -9 $$"))
    unready = await world.lease("c", Work(run="true", setup="exit 3"))
    for lease in (failing, killed, unready):
        world.host(lease).start()
    record = await eventually(failing.exit, "exit a")
    assert (record.exit_code, record.signal, record.reason) == (7, None, "exited")
    record = await eventually(killed.exit, "exit b")
    assert record.signal == signal.SIGKILL
    record = await eventually(unready.exit, "exit c")
    assert (record.exit_code, record.reason) == (3, "setup_failed")


@pytest.mark.slow
async def test_a_finished_job_runs_again_only_when_promoted_again(world: World) -> None:
    lease = await world.lease("a", Work(run="echo ran >> runs"))
    host = world.host(lease)
    host.start()
    await eventually(lease.exit, "exit")
    await lease.order(run_epoch=2)

    async def second_exit() -> bool:
        record = await lease.exit()
        return record is not None and record.run_epoch == 2

    await eventually(second_exit, "the exit of the second run")
    assert (host.root / "workspace/runs").read_text() == "ran\nran\n"


async def test_the_job_sees_no_instance_key_and_stays_beneath_the_root(world: World) -> None:
    work = Work(run="env > seen; pwd > where", workdir="/../../workspace/deep", env={"GREETING": "it's $HOME"})
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.start()
    await eventually(lease.exit, "exit")
    workdir = host.root / "workspace/deep"
    seen = (workdir / "seen").read_text()
    assert "instance-key" not in seen
    assert "GREETING=it's $HOME\n" in seen
    assert (workdir / "where").read_text().strip() == str(workdir)


@pytest.mark.slow
async def test_a_checkpoint_whose_part_is_gone_is_not_run_without(world: World) -> None:
    manifest = Manifest(1, 0, (Part("part-0", 11, "a" * 64), Part("part-1", 5, "b" * 64)))
    await world.store.put(part_key(JOB, "old", 0, 0), b"half a part")
    restore = await unchecked(world.store, "old", manifest)
    lease = await world.lease("new", Work(run="true", checkpoint_path="state"), restore=restore)
    host = world.host(lease)
    host.start()
    beat = await lease.until("it says so", lambda beat: "manifest" in beat.error or "404" in beat.error)
    assert beat.state in ("restoring", "waiting")
    assert await lease.exit() is None
    await lease.order(restore=None)
    assert (await eventually(lease.exit, "exit")).exit_code == 0


@pytest.mark.slow
async def test_a_damaged_checkpoint_is_refused_and_an_older_local_one_serves(world: World) -> None:
    """The machine has its own copy of checkpoint 0; the ordered checkpoint 9 has a wrong byte."""
    work = Work(run="cat state >> seen; echo one > state; sleep 1000", checkpoint_path="state")
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint == 0)
    lease.renewing = False
    host.kill()
    manifest = await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 0)
    assert manifest is not None
    for i, key in enumerate(manifest.part_keys(JOB, "a")):
        part = await world.store.get(key)
        assert part is not None
        await world.store.put(part_key(JOB, "a", 9, i), part[:-1] + b"!")
    parts = tuple(dataclasses.replace(part, key=f"part-{i}") for i, part in enumerate(manifest.parts))
    damaged = await unchecked(world.store, "a", dataclasses.replace(manifest, number=9, parts=parts))
    await lease.order(restore=damaged, run_epoch=2, renewing=True)

    lonely = dataclasses.replace(lease, lease_id="b")
    await lonely.write_orders()
    stranger = world.host(lonely)
    stranger.start()
    host.start()
    refused = await lonely.until("refused", lambda beat: "not what its manifest says" in beat.error)
    assert refused.state != "running"
    await lease.until("goes on from its own copy", lambda beat: beat.boot == 2 and beat.state == "running")
    await eventually(lambda: (host.root / "workspace/seen").read_text() == "one\n", "restored content")
    assert not (stranger.root / "workspace/state").exists()
