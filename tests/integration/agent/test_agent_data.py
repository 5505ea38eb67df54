"""What goes into a machine and what comes out of it: inputs, outputs, progress, and no secret but those it is given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.agent.unpack import AgentUnpacker, unpack
from autopilot.domain.agent_state import AgentState
from autopilot.domain.inputs import LeftInput
from autopilot.mailbox.checkpoints import kept_outputs, verified_outputs
from autopilot.mailbox.keys import verified_outputs_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import LeftRef
from autopilot.mailbox.report_shapes import Heartbeat, Manifest
from tests.integration.agent.agent_world import JOB, Host, Lease, World
from tests.patience import eventually


@pytest.mark.slow
async def test_inputs_are_there_before_anything_runs_and_outputs_are_kept(world: World, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    asked = []

    async def serve(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Range"))
        if len(asked) == 1:
            return web.Response(status=503)
        return web.Response(body=data)

    app = web.Application()
    app.router.add_get("/data.bin", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    work = Work(
        setup="wc -c < data/in.bin > size",
        run="mkdir -p out/deep && cp data/in.bin out/deep/copy && cp size out/ && echo beside > stray && touch log.txt",
        inputs={"data/in.bin": f"http://{host}:{port}/data.bin"},
        outputs=("out", "*.txt", "missing-*"),
    )
    try:
        lease = await world.lease("a", work)
        world.host(lease).start()
        assert (await eventually(lease.exit, "exit")).exit_code == 0
    finally:
        await runner.cleanup()
    assert len(asked) == 2
    assert await verified_outputs(world.store, AgentUnpacker(), JOB, "a", 1) is not None
    manifest = await kept_outputs(world.store, JOB)
    assert manifest is not None
    keys = manifest.part_keys(JOB, "")
    (tmp_path / "pulled").mkdir()
    root = unpack(manifest.parts, lambda i: (world.store.root / keys[i]).open("rb"), tmp_path / "pulled")
    found = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert found == ["log.txt", "out/deep/copy", "out/size"]
    assert (root / "out/deep/copy").read_bytes() == data
    assert (root / "out/size").read_text().strip() == str(len(data))


async def leave(world: World, run: str, *outputs: str) -> Manifest:
    """What a job leaves that runs so."""
    lease = await world.lease("a", Work(run=run, outputs=outputs))
    world.host(lease).start()
    assert (await eventually(lease.exit, "exit")).exit_code == 0
    manifest = await verified_outputs(world.store, AgentUnpacker(), JOB, "a", 1)
    assert manifest is not None
    return manifest


def taken(manifest: Manifest, path: str, left_at: str) -> LeftRef:
    return LeftRef(LeftInput(path, JOB, left_at), manifest.number, manifest.part_keys(JOB, ""))


@pytest.mark.slow
async def test_a_job_begins_with_what_another_one_left(world: World) -> None:
    left = await leave(
        world,
        "mkdir -p out/deep && echo model > out/deep/model && ln -s deep/model out/link"
        " && echo 1 > a.txt && echo 2 > b.txt && head -c 20000000 /dev/urandom > out/big"
        " && sha256sum < out/big > big.sum",
        *("out", "*.txt", "big.sum"),
    )
    check = (
        "cat before/deep/model before/link && cat second.txt && sha256sum < before/big | cmp - sum/of-big"
        " && ls -A > out/names && ls -A before >> out/names"
    )
    then = await world.lease(
        "b",
        Work(setup="mkdir -p out && test -e before/big", run=check, outputs=("out",)),
        left=(taken(left, "before", "out"), taken(left, "second.txt", "b.txt"), taken(left, "sum/of-big", "big.sum")),
    )
    host = world.host(then)
    host.start()
    assert (await eventually(then.exit, "exit")).exit_code == 0
    names = next(host.root.rglob("out/names")).read_text().split()
    assert names == ["before", "out", "second.txt", "sum", "big", "deep", "link"], "and nothing that is only on its way"
    assert not [path for path in host.root.rglob("*-left/*")], "what it was put together from is gone"


@pytest.mark.slow
async def test_a_job_does_not_begin_where_nothing_was_left(world: World) -> None:
    left = await leave(world, "mkdir out && echo whole > out/one", "out")
    then = await world.lease("b", Work(run="echo begun"), left=(taken(left, "data", "out/other"),))
    world.host(then).start()
    beat = await eventually(lambda: says(then, "has left nothing at out/other"), "trouble")
    assert beat.state is AgentState.SETTING_UP
    assert await then.exit() is None


@pytest.mark.slow
async def test_harmed_parts_of_what_was_left_are_not_used(world: World) -> None:
    left = await leave(world, "echo whole > out", "out")
    await world.store.put(f"jobs/{JOB}/a/out/1/part-1", b"harmed")
    then = await world.lease("b", Work(run="echo begun"), left=(taken(left, "data", "out"),))
    world.host(then).start()
    await eventually(lambda: says(then, "Corrupt"), "trouble")
    assert await then.exit() is None


async def says(lease: Lease, words: str) -> Heartbeat | None:
    beat = await lease.heartbeat()
    return beat if beat and words in beat.error else None


async def test_a_failed_run_leaves_no_outputs(world: World) -> None:
    lease = await world.lease("a", Work(run="echo half > out; exit 3", outputs=("out",)))
    world.host(lease).start()
    assert (await eventually(lease.exit, "exit")).exit_code == 3
    assert await verified_outputs(world.store, AgentUnpacker(), JOB, "a", 1) is None
    assert await world.store.get(verified_outputs_key(JOB)) is None


@pytest.mark.slow
async def test_harmed_outputs_are_not_taken(world: World) -> None:
    lease = await world.lease("a", Work(run="echo whole > out", outputs=("out",)))
    world.host(lease).start()
    await eventually(lease.exit, "exit")
    await world.store.put(f"jobs/{JOB}/a/out/1/part-1", b"harmed")
    assert await verified_outputs(world.store, AgentUnpacker(), JOB, "a", 1) is None
    assert await kept_outputs(world.store, JOB) is None


@pytest.mark.slow
async def test_progress_is_read_from_the_output_and_a_stalled_job_is_ended(world: World) -> None:
    run = "for i in 1 2 3; do echo step $i of 10; sleep 0.2; done; sleep 1000"
    work = Work(run=run, progress=r"step (?P<step>\d+) of (?P<total>\d+)", stall_s=300, stall_fails=True)
    lease = await world.lease("a", work)
    world.host(lease).start()
    await lease.until("progress", lambda beat: beat.step == 3 and beat.progress == 0.3)
    record = await eventually(lease.exit, "exit")
    assert (record.reason, record.exit_code != 0) == ("stalled", True)


@pytest.mark.slow
async def test_a_job_that_saves_by_itself_is_saved_when_it_says_so(world: World) -> None:
    """It writes in place and slowly: at any moment but the one that it names, its file is torn."""
    script = (
        "import time, os\n"
        "from autopilot import checkpoint\n"
        "step = len(open('state').read()) if os.path.exists('state') else 0\n"
        "while True:\n"
        "    step += 1; checkpoint.progress(step, 1000)\n"
        "    if checkpoint.should_save():\n"
        "        with open('state', 'w') as file:\n"
        "            file.write('x'); file.flush(); time.sleep(0.3); file.write('y' * 999)\n"
        "        checkpoint.saved('state', step=step)\n"
        "    time.sleep(0.02)\n"
    )
    work = Work(run=f"cat > job.py <<'END'\n{script}END\nexec python3 job.py", checkpoint_path="state")
    lease = await world.lease("a", work, checkpoint_interval_s=60)
    host = world.host(lease)
    host.start()
    await lease.until("three checkpoints", lambda beat: (beat.last_checkpoint or 0) >= 2)
    for path in (host.root / "var/lib/autopilot/snapshots").glob("[0-9]*/checkpoint"):
        assert path.read_text() == "x" + "y" * 999
    host.kill()


SENTINELS = ("sentinel-account-key", "sentinel-bucket-secret", "sentinel-other-secret")


def environments_of(host: Host) -> list[bytes]:
    return [Path(f"/proc/{pid}/environ").read_bytes() for pid in host.processes()]


@pytest.mark.slow
async def test_the_machine_sees_no_secret_but_those_that_it_is_given(world: World) -> None:
    """Environment, command lines, disk and mailbox of a machine that holds a job with one secret."""
    work = Work(run="env > seen; cat /proc/*/cmdline >> seen 2>/dev/null; sleep 1000", env={"TOKEN": "given-secret"})
    lease = await world.lease("a", replace(work, checkpoint_path="seen"))
    host = world.host(lease)
    os.environ.update({f"HIDDEN_{i}": value for i, value in enumerate(SENTINELS)})
    try:
        host.start()
        await lease.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
        environments = environments_of(host)
    finally:
        for i in range(len(SENTINELS)):
            del os.environ[f"HIDDEN_{i}"]
    seen = (host.root / "workspace/seen").read_text()
    assert "TOKEN=given-secret" in seen
    assert "instance-key" not in seen.partition("python")[0]
    disk = b"".join(path.read_bytes() for path in host.root.rglob("*") if path.is_file())
    mailbox = b"".join(path.read_bytes() for path in world.store.root.rglob("*") if path.is_file())
    assert b"given-secret" not in b"".join(path.read_bytes() for path in host.root.glob("var/lib/autopilot/*.json"))
    for sentinel in (*SENTINELS, "k" * 32):
        assert sentinel.encode() not in disk + b"".join(environments)
        assert sentinel.encode() not in mailbox
