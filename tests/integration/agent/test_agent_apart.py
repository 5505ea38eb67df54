"""A job whose machine lets the agent be root: its command is somebody else, who sees no key and lacks nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped.job_user import FIRST_UID, UIDS
from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import JOB, SPEED, Host, World, verified
from tests.patience import eventually

PATH = "/usr/local/bin:/usr/bin:/bin"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

LOOK_AROUND = """
echo "uid $(id -u) home $HOME user $USER"
for place in /proc/[0-9]*/environ "$AUTOPILOT_ROOT"/var/lib/autopilot/*.json; do
  cat "$place" 2>/dev/null | tr '\\0' '\\n'
done | grep -c instance-key
echo written > "$HOME/cache" && echo out > /dev/stdout
python3 -c 'from autopilot import checkpoint; print("imported", checkpoint.path())'
(setsid sleep 1000 &)
"""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A disk that every user can reach, as a container's is."""
    root = Path(tempfile.mkdtemp(prefix="ap-machine-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


def on_that_disk(host: Host, root: Path) -> Host:
    host.root.rename(root / "disk")
    (root / "disk").chmod(0o755)
    host.root = root / "disk"
    host.env.update(AUTOPILOT_ROOT=str(host.root), PATH=PATH)
    return host


async def test_the_command_is_another_user_and_sees_no_key(reachable: Path, world: World) -> None:
    work = Work(
        setup='id -u > made-by; echo fetched > "$HOME/model"',
        run=f'cat "$HOME/model"; {LOOK_AROUND} echo state > ckpt; sleep 1000',
        checkpoint_path="ckpt",
    )
    lease = await world.lease("a", work)
    host = on_that_disk(world.host(lease), reachable)
    agent = host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint is not None)
    await eventually(lambda: "imported" in lease.log(), "the log")
    said = lease.log().splitlines()
    (uid,) = [int(line.split()[1]) for line in said if line.startswith("uid ")]
    assert FIRST_UID <= uid < FIRST_UID + UIDS
    home = f"{host.root}/var/lib/autopilot-job/home"
    assert f"uid {uid} home {home} user job" in said
    assert [line for line in said if line in ("fetched", "0", "out")] == ["fetched", "0", "out"]
    assert f"imported {host.root}/workspace/ckpt" in said
    assert (host.root / "workspace/made-by").read_text() == "0\n"  # the setup is root
    assert (host.root / "workspace/ckpt").stat().st_uid == uid

    restore = await verified(world.store, "a", 0)
    await lease.order(role="leave")
    await eventually(lambda: host.processes() == [agent.pid], "nothing of the job is left")
    other = await world.lease("b", Work(run="cat ckpt; echo more >> ckpt && cat ckpt", checkpoint_path="ckpt"))
    await other.order(restore=restore, run_epoch=2)
    (reachable / "b").mkdir()
    on_that_disk(world.host(other), reachable / "b").start()
    assert (await eventually(other.exit, "exit")).exit_code == 0
    assert JOB in host.console.read_text() or "state\nstate\nmore\n" in other.log()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"as_root": True}, "its job file says so"),
        ({"workdir": "/"}, "another could not use"),
        ({"checkpoint_path": "/elsewhere/ckpt"}, "outside of its work directory"),
    ],
)
async def test_where_it_cannot_be_the_agent_says_so_and_the_job_runs(
    reachable: Path, world: World, change: dict[str, Any], why: str
) -> None:
    work = Work(**{"run": "id -u; echo done", **change})
    lease = await world.lease("a", work)
    host = on_that_disk(world.host(lease), reachable)
    if "workdir" in change:
        host.env["PATH"] = f"{host.root}/var/lib/autopilot:{PATH}"  # as where Python lies in root's home
    host.start()
    assert (await eventually(lease.exit, "exit")).exit_code == 0
    await eventually(lambda: "done" in lease.log(), "the log")
    assert why in lease.log()
    assert "\n0\n" in lease.log()


@pytest.mark.slow
async def test_a_file_that_the_job_is_writing_is_seen_by_its_owner(reachable: Path, world: World) -> None:
    script = "exec 3> ckpt; echo half >&3; sleep 5; echo whole >&3; exec 3>&-; touch closed; sleep 1000"
    # The first is due before the file is closed, and no file that was open for two intervals: such a one is taken.
    interval_s = 4 * SPEED
    lease = await world.lease("a", Work(run=script, checkpoint_path="ckpt"), checkpoint_interval_s=interval_s)
    host = on_that_disk(world.host(lease), reachable)
    host.start()
    await lease.until("a checkpoint", lambda beat: beat.last_checkpoint == 0)
    assert (host.root / "workspace/closed").exists()
    parts = (world.store.root / "jobs" / JOB / "a" / "ckpt/0").glob("part-*")
    assert b"half\nwhole\n" in [part.read_bytes() for part in parts]
