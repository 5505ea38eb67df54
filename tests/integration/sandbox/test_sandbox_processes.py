"""Instances as real processes: environment, disk, pause, resume, destroy, and the death of the sandbox itself."""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.clock import ScaledClock
from autopilot.domain.errors import UserError
from autopilot_lab.sandbox.boxes import image_directory
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig
from tests.patience import eventually

DAEMONISE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(os.environ["AUTOPILOT_ROOT"] + "/daemon.tmp", "w").write(str(os.getpid()))
        os.rename(os.environ["AUTOPILOT_ROOT"] + "/daemon.tmp", os.environ["AUTOPILOT_ROOT"] + "/daemon.pid")
        time.sleep(600)
    os._exit(0)
"""
ONSTART_WITH_DAEMON = f"{sys.executable} -c '{DAEMONISE}'; echo $$ > worker.pid; sleep 600"
"""Leaves a double-forked child in a session of its own behind, then works on."""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def root_of(desk: Any, instance_id: int) -> Path:
    return Path(desk.sandbox.config.state_dir / "instances" / str(instance_id) / "root")


async def read_pid(desk: Any, file: Path) -> int:
    found: list[int] = []

    def look() -> bool:
        if file.exists() and (text := file.read_text().strip()):
            found.append(int(text))
        return bool(found)

    await desk.eventually(look)
    return found[0]


@pytest.fixture
async def desk(open_desk: Any) -> Any:
    return await open_desk(real_processes=True)


def files_beside_instances(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if "instances" not in path.parts}


async def run(desk: Any, onstart: str | None, **order: object) -> int:
    instance_id: int = await desk.rent(0.5, onstart_cmd=onstart, **order)
    await desk.advance(40)
    return instance_id


async def console(desk: Any, instance_id: int) -> str:
    return str(await desk.sdk("logs", instance_id))


async def test_the_environment_is_the_documented_one_and_nothing_leaks(
    open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAST_API_KEY", "account-key")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    desk = await open_desk(real_processes=True)
    instance_id = await run(desk, "env > env.txt; echo done > done.txt; sleep 600", env={"A": "b c", "-p 80:80": "1"})
    root = root_of(desk, instance_id)
    await desk.eventually((root / "done.txt").exists)
    env = dict(line.split("=", 1) for line in (root / "env.txt").read_text().splitlines())
    truth = desk.sandbox.market.get(instance_id)
    assert env["CONTAINER_ID"] == str(instance_id)
    assert env["CONTAINER_API_KEY"] == truth.api_key
    assert env["VAST_CONTAINERLABEL"] == f"C.{instance_id}"
    assert env["GPU_COUNT"] == "1"
    assert env["AUTOPILOT_ROOT"] == env["PWD"] == str(root)
    assert env["AUTOPILOT_PROVIDER_URL"] == desk.url
    assert env["HOME"] == f"{root}/root"
    assert env["A"] == "b c"
    assert "AUTOPILOT_CLOCK_SPEED" not in env
    assert not {"VAST_API_KEY", "PYTHONPATH"} & set(env)
    assert {"workspace", "root", "tmp"} <= {path.name for path in root.iterdir()}


async def test_logs_come_from_the_console(desk: Any) -> None:
    instance_id = await run(desk, "echo hello; echo trouble >&2; echo loss=1; sleep 600")

    async def complete() -> bool:
        return "loss" in await console(desk, instance_id)

    await desk.eventually(complete)
    assert await console(desk, instance_id) == "hello\ntrouble\nloss=1\n"
    assert await desk.sdk("logs", instance_id, tail="1") == "loss=1\n"
    assert await desk.sdk("logs", instance_id, filter="trou") == "trouble\n"


async def test_a_pause_kills_every_descendant_and_a_resume_runs_onstart_on_the_same_disk(desk: Any) -> None:
    instance_id = await run(desk, f"echo boot >> boots; {ONSTART_WITH_DAEMON}")
    root = root_of(desk, instance_id)
    pids = [await read_pid(desk, root / name) for name in ("daemon.pid", "worker.pid")]
    assert all(alive(pid) for pid in pids)
    rival = await desk.emu("POST", "rival", instance_id=instance_id, bid=9)
    assert not any(alive(pid) for pid in pids)
    (root / "daemon.pid").unlink()
    await desk.emu("DELETE", "rival", id=rival["id"])
    await desk.advance(20)
    again = await read_pid(desk, root / "daemon.pid")
    assert alive(again)
    assert (root / "boots").read_text() == "boot\nboot\n"
    await desk.sdk("destroy_instance", instance_id)
    assert not alive(again)
    assert not root.parent.exists()


async def test_no_sigterm_comes_before_the_end(desk: Any) -> None:
    instance_id = await run(desk, "trap 'echo warned > warned' TERM; echo ready > ready; while :; do sleep 0.01; done")
    root = root_of(desk, instance_id)
    await desk.eventually((root / "ready").exists)
    await desk.sdk("stop_instance", instance_id)
    await desk.advance(60)
    assert not (root / "warned").exists()


async def test_a_command_that_ends_is_exited_though_intended_running(desk: Any) -> None:
    instance_id = await run(desk, "exit 3")

    async def exited() -> bool:
        return bool((await desk.row(instance_id))["actual_status"] == "exited")

    await desk.eventually(exited)
    row = await desk.row(instance_id)
    assert (row["intended_status"], row["cur_state"]) == ("running", "running")
    event = next(e for e in (await desk.emu("GET", "events"))["events"] if e["kind"] == "container.exited")
    assert event["exit_code"] == 3


async def test_a_login_container_outlives_its_onstart(desk: Any) -> None:
    instance_id = await run(desk, f"{sys.executable} -c '{DAEMONISE}'", runtype="ssh_direc ssh_proxy")
    pid = await read_pid(desk, root_of(desk, instance_id) / "daemon.pid")
    await asyncio.sleep(0.2)
    assert (await desk.row(instance_id))["actual_status"] == "running"
    assert alive(pid)
    await desk.sdk("stop_instance", instance_id)
    assert not alive(pid)


async def test_an_args_container_runs_its_arguments(desk: Any) -> None:
    instance_id = await run(desk, "/bin/sh", runtype="args", args=["-c", "echo from args; sleep 600"])

    async def printed() -> bool:
        return "from args" in await console(desk, instance_id)

    await desk.eventually(printed)


async def test_a_command_that_does_not_exist(desk: Any) -> None:
    instance_id = await run(desk, "/no/such/program", runtype="args", args=["x"])

    async def exited() -> bool:
        return bool((await desk.row(instance_id))["actual_status"] == "exited")

    await desk.eventually(exited)
    assert "cannot start" in await console(desk, instance_id)


async def test_a_machine_gone_offline_stops_computing(desk: Any) -> None:
    instance_id = await run(desk, ONSTART_WITH_DAEMON)
    pid = await read_pid(desk, root_of(desk, instance_id) / "daemon.pid")
    await desk.emu("POST", "host", machine_id=(await desk.row(instance_id))["machine_id"], state="vanished")
    assert not alive(pid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "image"),
    [
        ("../../escape", "../../../etc:1"),
        ("/tmp/escape", "autopilot/../../x:1"),
        ("a\nb", "autopilot/..:1"),
        ("C.1;touch escape", "/etc"),
    ],
)
async def test_hostile_names_lead_nowhere(desk: Any, tmp_path: Path, label: str, image: str) -> None:
    env = {"HOME": "/", "AUTOPILOT_ROOT": "/", "TMPDIR": "/", "CONTAINER_ID": "../1", "X": "$(touch escape)"}
    before = files_beside_instances(tmp_path)
    instance_id = await run(desk, "env > env.txt; touch done; sleep 600", label=label, image=image, env=env)
    root = root_of(desk, instance_id)
    await desk.eventually((root / "done").exists)
    seen = dict(line.split("=", 1) for line in (root / "env.txt").read_text().splitlines())
    inside = ("AUTOPILOT_ROOT", "HOME", "TMPDIR", "DATA_DIRECTORY", "PWD")
    assert all(Path(seen[name]).is_relative_to(root) for name in inside)
    assert seen["CONTAINER_ID"] == str(instance_id)
    assert files_beside_instances(tmp_path) == before
    assert {path.name for path in root.parent.iterdir()} == {"root", "console.log"}
    assert {path.name for path in root.iterdir()} == {"workspace", "root", "tmp", "env.txt", "done"}


async def test_a_disk_replaced_by_a_link_is_not_followed(desk: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    instance_id = await run(desk, f'rm -rf "$AUTOPILOT_ROOT"; ln -s {outside} "$AUTOPILOT_ROOT"; sleep 600')
    root = root_of(desk, instance_id)
    await desk.eventually(root.is_symlink)
    await desk.sdk("stop_instance", instance_id)
    await desk.sdk("start_instance", instance_id)
    await desk.advance(20)
    await desk.sdk("destroy_instance", instance_id)
    assert not root.parent.exists()
    assert (outside / "precious").read_text() == "x"


def test_only_shipped_images_have_files() -> None:
    assert image_directory("pytorch/pytorch:latest") is None
    assert image_directory("autopilot/no-such-image:1") is None
    assert image_directory("autopilot/../vastai:1") is None


async def test_one_sandbox_per_state_directory(desk: Any, clock: Any) -> None:
    with pytest.raises(UserError, match="another sandbox"):
        await Sandbox(SandboxConfig(desk.sandbox.config.state_dir), clock).start()


async def test_a_port_in_use_is_explained(desk: Any, clock: Any, tmp_path: Path) -> None:
    port = int(desk.url.rpartition(":")[2])
    with pytest.raises(UserError, match="cannot listen"):
        await Sandbox(SandboxConfig(tmp_path / "other", port=port), clock).start()


async def test_a_scaled_clock_moves_the_market_by_itself_and_no_machine_is_told(open_desk: Any) -> None:
    desk = await open_desk(ScaledClock(datetime.now(UTC), 400), real_processes=True)
    instance_id = await desk.rent(0.5, onstart_cmd='echo "speed:$AUTOPILOT_CLOCK_SPEED" > speed; sleep 600')
    speed = root_of(desk, instance_id) / "speed"
    await desk.eventually(lambda: speed.exists() and speed.read_text() == "speed:\n")
    assert (await desk.emu("GET", "clock"))["speed"] == 400


@pytest.fixture
async def process(tmp_path: Path) -> Any:
    """The sandbox as a process of its own, and its URL."""
    port_file = tmp_path / "port"
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "autopilot_lab.sandbox", "--state-dir", str(tmp_path / "s"), "--no-rate-limits"),
        *("--port-file", str(port_file), "--speed", "200"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert started.stdout is not None
    line = (await started.stdout.readline()).decode()
    assert line == f"sandbox ready at http://127.0.0.1:{port_file.read_text()}\n"
    yield started, f"http://127.0.0.1:{port_file.read_text()}", tmp_path / "s"
    if started.returncode is None:
        started.kill()
        await started.wait()


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_no_instance_survives_the_sandbox(process: Any, end: signal.Signals) -> None:
    sandbox, url, state_dir = process
    key = {"Authorization": "Bearer sandbox-key"}
    async with aiohttp.ClientSession(url, headers=key) as http:
        query = {"type": "bid", "limit": 1, "num_gpus": {"eq": 1}}
        offer = (await (await http.post("/api/v0/bundles/", json=query)).json())["offers"][0]
        order = {"image": "x", "disk": 10, "price": 9, "onstart": ONSTART_WITH_DAEMON}
        instance_id = (await (await http.put(f"/api/v0/asks/{offer['id']}/", json=order)).json())["new_contract"]
    pid_file = state_dir / "instances" / str(instance_id) / "root" / "daemon.pid"
    await eventually(pid_file.exists, "a machine at work")
    pid = int(pid_file.read_text())
    assert alive(pid)
    os.kill(sandbox.pid, end)
    assert await sandbox.wait() == (0 if end is signal.SIGTERM else -signal.SIGKILL)
    await eventually(lambda: not alive(pid), "the end of what it left behind")


@pytest.mark.slow
async def test_the_port_can_be_bound_again_at_once(process: Any, clock: Any, tmp_path: Path) -> None:
    sandbox, url, state_dir = process
    async with aiohttp.ClientSession(url) as http:
        await http.get("/_emu/clock")
        os.kill(sandbox.pid, signal.SIGTERM)
        await sandbox.wait()
    again = Sandbox(SandboxConfig(state_dir, port=int(url.rpartition(":")[2])), clock)
    await again.start()
    assert again.url == url
    await again.stop()
