"""One machine, two tasks of an array: what the second finds of the first."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from autopilot.agent.shipped.workplace import Workplace
from autopilot.mailbox.keys import manifest_key
from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import DAY, Lease, World
from tests.patience import eventually

RUN = """ls -A | sort | tr '\\n' ' ' >> "$AUTOPILOT_ROOT/witness"; echo >> "$AUTOPILOT_ROOT/witness"
test -e state && echo "goes on from $(cat state)"; echo "says $AUTOPILOT_TASK"
mkdir -p out junk; echo $AUTOPILOT_TASK | tee state out/result junk/left > by-setup; echo x > left-over
touch autopilot-checkpoint; test $CODE = 3 || echo '{"step": 7, "progress": 0.5}' > "$AUTOPILOT_PROGRESS_FILE"
exit $CODE"""


async def ended(lease: Lease, run_epoch: int) -> int:
    async def look() -> int | None:
        record = await lease.exit()
        return None if record is None or record.run_epoch != run_epoch else record.exit_code + 1000

    return int(await eventually(look, f"the exit of run {run_epoch}")) - 1000


@pytest.mark.slow
async def test_the_next_task_finds_setup_and_inputs_and_nothing_of_the_one_before(world: World) -> None:
    await world.store.put("inputs/data", b"given")
    work = Work(
        run=RUN,
        setup="echo set up >> ../setups; mkdir -p empty; echo made > by-setup",
        env={"AUTOPILOT_TASK": "0", "CODE": "0"},
        checkpoint_path="state",
        inputs={"in/data": world.store.sign_get("inputs/data", DAY)},
        outputs=("out",),
    )
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.start()
    assert await ended(lease, 1) == 0
    beat = await lease.until("finished", lambda beat: beat.state == "finished")
    assert "next_task" in beat.can
    assert beat.last_checkpoint is not None
    first_log = lease.log()
    assert "says 0" in first_log

    env = {"AUTOPILOT_TASK": "1", "CODE": "3"}
    await lease.order(job="second", run_epoch=2, work=dataclasses.replace(work, env=env))
    said = [await lease.until("its first word for the second", lambda _: True)]
    assert await ended(lease, 2) == 3
    said.append(await lease.until("its last one", lambda beat: beat.state == "finished"))
    assert [(beat.run_epoch, beat.step, beat.progress) for beat in said] == [(2, None, None)] * 2, (
        "nothing of the first"
    )
    workspace = host.root / "workspace"
    assert (host.root / "witness").read_text().splitlines() == ["by-setup empty in ", "by-setup empty in "]
    assert (host.root / "setups").read_text() == "set up\n", "it is not run again"
    assert (workspace / "in/data").read_bytes() == b"given"
    assert (workspace / "state").read_text() == "1\n"
    await lease.until("its last words", lambda beat: beat.state == "finished")
    assert "says 1" in await eventually(lambda: "says 1" in lease.log() and lease.log(), "its output")
    assert "says 0" not in lease.log()
    assert "goes on" not in lease.log()
    number = (await lease.until("saved", lambda beat: beat.last_checkpoint is not None)).last_checkpoint
    assert number == beat.last_checkpoint + 1, "numbers go on: no two of one machine are alike"
    manifest = json.loads(await world.store.get(manifest_key("second", "a", number)) or b"{}")
    assert manifest["run_epoch"] == 2
    assert all(part["key"].startswith(f"a/ckpt/{number}/") for part in manifest["parts"]), "no part is the first task's"


@pytest.mark.slow
async def test_killed_before_it_has_made_room_it_does_so_once_it_is_back(world: World) -> None:
    work = Work(run=RUN, env={"AUTOPILOT_TASK": "0", "CODE": "0"}, checkpoint_path="state")
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.start()
    assert await ended(lease, 1) == 0
    host.kill()
    work = dataclasses.replace(work, env={"AUTOPILOT_TASK": "1", "CODE": "0"})
    await lease.order(job="second", run_epoch=2, work=work)
    host.start()
    assert await ended(lease, 2) == 0
    assert (host.root / "witness").read_text().splitlines() == ["", ""]


def test_the_agents_own_files_in_the_work_directory_are_left_alone(tmp_path: Path) -> None:
    """As on RunPod, where the work directory is the disk that outlives the container."""
    workdir, home = tmp_path / "workspace", tmp_path / "workspace/.autopilot"
    for directory in (home, tmp_path / "workspace/.autopilot-job", workdir / "empty"):
        directory.mkdir(parents=True)
    workplace = Workplace(str(home))
    assert workplace.survey(str(workdir))
    (home / "snapshots").write_text("x")
    (tmp_path / "workspace/.autopilot-job/progress").write_text("x")
    (workdir / "made").mkdir()
    (workdir / "made/deep").write_text("x")
    (workdir / "empty/left").write_text("x")
    workplace.renew(str(workdir), [], [])
    assert sorted(str(path.relative_to(workdir)) for path in workdir.rglob("*")) == [
        ".autopilot", ".autopilot-job", ".autopilot-job/progress", ".autopilot/snapshots", ".autopilot/workplace.json",
        "empty",
    ]  # fmt: skip
