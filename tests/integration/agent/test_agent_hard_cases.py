"""What a machine lives through: hours of pause, a frozen kernel, clocks that jump, a full disk, death at any step."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot import checkpoint
from autopilot.agent import shipped
from autopilot.agent.unpack import AgentUnpacker, unpack
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.agent_state import AgentState
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import manifest_key, orders_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.report_shapes import Heartbeat, Manifest
from tests.integration.agent.agent_world import CALM, JOB, Lease, World, processes_beneath, unchecked, verified
from tests.patience import eventually

PRECIOUS = Work(run="cat state; echo more >> state; sleep 1000", checkpoint_path="state")
MORTAL = Path(__file__).with_name("mortal_keeper.py")


@pytest.mark.slow
async def test_paused_for_hours_it_goes_on_where_it_was(world: World) -> None:
    """Every URL of its last orders has run out; that of the orders themselves has not."""
    lease = await world.lease("a", PRECIOUS)
    host = world.host(lease)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint == 0)
    host.kill()
    world.hours_passed.append(30)
    host.start()
    await lease.until("another boot at work", lambda beat: beat.boot == 2 and beat.last_checkpoint == 1)
    await eventually(lambda: "more\n" in lease.log(), "what it had saved")
    manifest = await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 1)
    assert manifest is not None
    assert world.market_calls == []


@pytest.mark.slow
async def test_frozen_past_its_permit_it_wakes_saves_apart_and_goes(world: World) -> None:
    """A zombie: its job has gone on elsewhere meanwhile. What it writes lies beneath its own lease."""
    lease = await world.lease("a", PRECIOUS)
    host = world.host(lease, speed=CALM)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint == 0)
    restore = await verified(world.store, "a", 0)
    short = await lease.order(permit_ttl_s=3 * CALM)
    await lease.until("a permit of three real seconds", lambda beat: beat.orders_seq_seen >= short)
    frozen = processes_beneath(host.root)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    lease.renewing = False
    heir = await world.lease("b", PRECIOUS, restore=restore, run_epoch=2)
    world.host(heir).start()
    await heir.until("the heir's checkpoint", lambda beat: beat.last_checkpoint is not None)
    before = {key: await world.store.get(key) for key in await world.store.sizes(f"jobs/{JOB}/b/ckpt")}
    await asyncio.sleep(4.5)  # more than the permit, in real seconds
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    await eventually(lambda: world.market_calls, "it gives its machine back")
    assert world.market_calls[0][0] == "DELETE"
    assert {key: await world.store.get(key) for key in before} == before
    newest = max(int(key.split("/")[-2]) for key in await world.store.sizes(f"jobs/{JOB}/a/ckpt"))
    late = parse_manifest_epoch(await world.store.get(manifest_key(JOB, "a", newest)))
    assert late == 1, "the daemon takes none of an epoch that is over"


def parse_manifest_epoch(data: bytes | None) -> int:
    assert data is not None
    return int(json.loads(data)["run_epoch"])


def test_no_clock_that_can_be_set_decides_anything() -> None:
    """``utc_now`` is written into the exit record for people."""
    allowed = {"clock_gettime", "monotonic", "sleep", "strftime", "gmtime", "CLOCK_BOOTTIME"}
    for module in [*Path(shipped.__file__).parent.glob("*.py"), Path(checkpoint.__file__)]:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
                assert node.attr in allowed, f"{module.name}: time.{node.attr}"
            assert not (isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")), module.name


@pytest.mark.slow
async def test_a_file_of_another_age_is_saved_like_any_other(world: World) -> None:
    """As after the machine's clock was set."""
    lease = await world.lease("a", Work(run="echo 1 > state; touch -d '1999-01-01' state", checkpoint_path="state"))
    world.host(lease).start()
    await eventually(lease.exit, "exit")
    assert await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 0) is not None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "small-disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no disk can be mounted on this machine")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
async def test_a_full_disk_is_said_and_the_job_goes_on_once_there_is_room(small_disk: Path, world: World) -> None:
    work = Work(
        run="head -c 8000000 /dev/urandom > state; head -c 13000000 /dev/zero > ballast;"
        " while [ -e ballast ]; do sleep 0.1; done; echo whole > mark; sleep 1000",
        checkpoint_path="state",
    )
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.root = Path(shutil.copytree(host.root, small_disk / "root"))
    host.env["AUTOPILOT_ROOT"] = str(host.root)
    host.start()
    beat = await lease.until("it says so", lambda beat: "No space left" in beat.error)
    assert (beat.state, beat.last_checkpoint) == ("running", None)
    (host.root / "workspace/ballast").unlink()
    await lease.until("the checkpoint, and no more trouble", lambda b: b.last_checkpoint == 0 and not b.error)
    assert await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 0) is not None
    host.kill()


# -- killed between any two steps


def write_orders(store: LocalBlobStore, n: int, restore: CheckpointRef | None, path: Path) -> None:
    built = build_orders(
        store,
        job_id=JOB,
        lease_id="a",
        instance_id=None,
        run_epoch=1,
        seq=1,
        permit_ttl_s=900,
        role="run",
        checkpoint_interval_s=600,
        work=Work("train", checkpoint_path="ckpt"),
        restore=restore,
        heartbeat=Heartbeat(1, 1, 1, 1, AgentState.RESTORING, next_checkpoint=n),
    )
    path.write_bytes(built.to_json())


async def keeper(what: str, orders: Path, home: Path, files: Path, dies_at: int = 0) -> int:
    """The agent's half of checkpoints as a process; its code is 9 if it came to the step at which it is killed."""
    words = [str(MORTAL), what, str(orders), str(home), str(files), str(dies_at)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    return await process.wait()


def write(files: Path, n: int) -> dict[str, bytes]:
    files.mkdir(parents=True, exist_ok=True)
    content = {"weights": os.urandom(200_000), "state.json": b'{"step": %d}' % n, "constant": b"c" * 5000}
    for name, data in content.items():
        if name != "constant" or n == 0:
            (files / f".{name}").write_bytes(data)
            os.replace(files / f".{name}", files / name)
    return content


async def taken(store: LocalBlobStore, n: int, into: Path) -> tuple[Manifest, dict[str, bytes]]:
    manifest = await verified_manifest(store, AgentUnpacker(), JOB, "a", n)
    assert manifest is not None, f"checkpoint {n} is not whole"
    keys = manifest.part_keys(JOB, "a")
    return manifest, unpacked(manifest, [store.root / key for key in keys], into)


def unpacked(manifest: Manifest, parts: list[Path], into: Path) -> dict[str, bytes]:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    root = unpack(manifest.parts, lambda i: parts[i].open("rb"), into)
    return {path.name: path.read_bytes() for path in root.iterdir()}


async def dying(world: World, tmp_path: Path, steps: range) -> int:
    """Killed at each of these steps of a checkpoint, then of a restore; answers how many of them there were."""
    store, orders, home, files = world.store, tmp_path / "orders", tmp_path / "home", tmp_path / "ckpt"
    content = write(files, 0)
    write_orders(store, 0, None, orders)
    assert await keeper("checkpoint", orders, home, files) == 0
    manifest, found = await taken(store, 0, tmp_path / "found")
    assert found == content
    deaths = 0
    for what in ("checkpoint", "restore"):
        for step in steps:
            restore = await unchecked(store, "a", manifest)
            write_orders(store, manifest.number + 1, restore, orders)
            if what == "checkpoint":
                content = write(files, manifest.number + 1)
            else:
                shutil.rmtree(home)
            code = await keeper(what, orders, home, files, step)
            assert code in (0, 9)
            deaths += code == 9
            before, found = await taken(store, manifest.number, tmp_path / "found")
            assert before.to_json() == manifest.to_json(), "what was verified is as it was"
            assert await keeper(what, orders, home, files) == 0
            if what == "checkpoint":
                newest = json.loads((home / "memory.json").read_text())["last_ckpt_n"]
                manifest, found = await taken(store, newest, tmp_path / "found")
            assert {path.name: path.read_bytes() for path in files.iterdir()} == found == content
            if code == 0:
                break
    return deaths


@pytest.mark.slow
async def test_killed_at_some_steps_nothing_is_lost(world: World, tmp_path: Path) -> None:
    assert await dying(world, tmp_path, range(3, 400, 31)) >= 4


@pytest.mark.slow
async def test_killed_between_any_two_steps_nothing_is_lost(world: World, tmp_path: Path) -> None:
    assert await dying(world, tmp_path, range(1, 1000)) >= 100


@pytest.mark.slow
async def test_killed_at_any_moment_as_a_whole_it_goes_on(world: World) -> None:
    """The whole machine, at moments that have nothing to do with its steps: shares of what one boot takes."""
    lease: Lease = await world.lease("a", PRECIOUS, checkpoint_interval_s=15)
    host = world.host(lease)
    began = time.monotonic()
    host.start()
    await lease.until("the first boot", lambda beat: beat.boot >= 1)
    boot_s = time.monotonic() - began
    host.kill()
    for share in (0.15, 0.4, 0.65, 0.9):
        host.start()
        await asyncio.sleep(share * boot_s)
        host.kill()
    host.start()
    await lease.until("a last boot at work", lambda beat: beat.boot >= 2 and beat.last_checkpoint is not None)
    with contextlib.suppress(FileNotFoundError):
        assert json.loads((host.root / "var/lib/autopilot/memory.json").read_text())["orders_seq"] > 0
    assert await world.store.get(orders_key(JOB, "a")) is not None
