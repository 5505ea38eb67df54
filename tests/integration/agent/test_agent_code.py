"""The user's code on a rented machine: there before anything runs, checked, fetched once, and the checkpoint wins."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from autopilot.agent.pack import Packed, pack
from autopilot.agent.shipped import chunks
from autopilot.code.select import Wanted, select
from autopilot.domain.code import JobCode
from autopilot.mailbox.keys import code_key
from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import Lease, World, verified
from tests.patience import eventually

TRAIN = """\
import pathlib, time
print("began with", pathlib.Path("ckpt").read_text().strip() if pathlib.Path("ckpt").exists() else "nothing")
pathlib.Path("ckpt").write_text("saved")
while not pathlib.Path("may-end").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "lib").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "lib/weights").write_bytes(os.urandom(5000))
    (root / "start.sh").write_text("#!/bin/sh\nexec python3 train.py\n")
    (root / "start.sh").chmod(0o700)
    (root / "alias").symlink_to("lib/weights")
    return root


async def put(world: World, packed: Packed) -> JobCode:
    """What the daemon does with a copy that it was sent."""
    for i in range(len(packed.contents.parts) + 1):
        await world.store.put(code_key("copy", i), packed.data if i == 0 else packed.open_part(i - 1).read())
    contents = packed.contents
    counted = (contents.file_count, contents.size, len(contents.parts), len(packed.data))
    return JobCode("copy", packed.sha256, *counted)


def pack_in_parts(project: Path, monkeypatch: pytest.MonkeyPatch) -> Packed:
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 1000)
    return pack(select(project, Wanted()).files)


async def running(lease: Lease, line: str) -> None:
    await eventually(lambda: line in lease.log(), line)


@pytest.mark.slow
async def test_code_is_there_before_setup_and_is_the_same_on_the_next_machine(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack_in_parts(project, monkeypatch)
    assert len(packed.contents.parts) > 3
    code = await put(world, packed)
    work = Work(
        run="./start.sh", setup="test -x start.sh && cat alias > seen", checkpoint_path="ckpt", workdir="/workspace"
    )
    first = await world.lease("a", work, code=code)
    host = world.host(first)
    host.start()
    await running(first, "began with nothing")
    there = host.root / "workspace"
    for name in ("train.py", "lib/weights", "start.sh"):
        assert (there / name).read_bytes() == (project / name).read_bytes()
    assert (there / "seen").read_bytes() == (project / "lib/weights").read_bytes()
    assert os.readlink(there / "alias") == "lib/weights"
    assert sorted(path.name for path in there.iterdir() if path.name.startswith(".")) == []
    beat = await first.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
    assert beat.last_checkpoint is not None
    restore = await verified(world.store, "a", beat.last_checkpoint)
    await first.order(role="leave")
    host.kill()

    second = await world.lease("b", work, code=code, restore=restore, run_epoch=2)
    other = world.host(second)
    other.start()
    await running(second, "began with saved")
    for name in ("train.py", "lib/weights"):
        assert (other.root / "workspace" / name).read_bytes() == (project / name).read_bytes()


@pytest.mark.slow
async def test_a_restart_goes_on_with_the_files_as_the_job_left_them(world: World, project: Path) -> None:
    code = await put(world, pack(select(project, Wanted()).files))
    work = Work(run="cat note; echo changed > note; python3 train.py", workdir="/workspace")
    (project / "note").write_text("as sent")
    code = await put(world, pack(select(project, Wanted()).files))
    lease = await world.lease("a", work, code=code)
    host = world.host(lease)
    host.start()
    await running(lease, "as sent")
    host.kill()
    host.start()
    await running(lease, "changed")


@pytest.mark.slow
async def test_what_was_cut_off_is_fetched_on_and_what_was_changed_in_the_store_never_runs(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack_in_parts(project, monkeypatch)
    code = await put(world, packed)
    whole = await world.store.get(code_key("copy", 2), 1 << 20)
    assert whole is not None
    await world.store.put(code_key("copy", 2), whole[::-1])
    lease = await world.lease("a", Work(run="python3 train.py", workdir="/workspace"), code=code)
    host = world.host(lease)
    host.start()
    await eventually(lambda: "a part of it is not what its manifest says" in lease.log(), "the refusal")
    assert not (host.root / "workspace/train.py").exists()
    await world.store.put(code_key("copy", 2), whole)
    await running(lease, "began with nothing")
    assert (host.root / "workspace/lib/weights").read_bytes() == (project / "lib/weights").read_bytes()


async def test_a_machine_without_code_is_as_before(world: World) -> None:
    lease = await world.lease("a", replace(Work(run="echo none of it"), workdir="/workspace"))
    world.host(lease).start()
    assert (await eventually(lease.exit, "exit")).exit_code == 0
