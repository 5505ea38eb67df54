"""Pods as real processes: environment, SIGTERM and SIGKILL, what a stop keeps, the restart loop, self-termination."""

import shlex
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autopilot.clock import ScaledClock
from autopilot_lab.sandbox.runpod.pods import NetworkVolume
from tests.integration.sandbox_runpod.runpod_desk import START

STUBBORN = "trap 'echo warned >> workspace/warned' TERM; echo $$ > worker.pid; while :; do sleep 0.05; done"
"""Hears SIGTERM and goes on."""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def root_of(desk: Any, pod_id: str) -> Path:
    return Path(desk.sandbox.config.state_dir / "pods" / pod_id / "root")


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


async def run(desk: Any, script: str, **more: Any) -> str:
    """The id of a spot pod that runs a shell script."""
    return str(await desk.running(dockerArgs=f"bash -c {shlex.quote(script)}", **more))


async def test_the_environment_is_runpods_and_nothing_leaks(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", "account-secret")
    env = [{"key": "A", "value": "b c"}, {"key": "RUNPOD_POD_ID", "value": "forged"}, {"key": "HOME", "value": "/"}]
    pod_id = await run(desk, "env > env.txt; touch done; sleep 600", env=env, ports="22/tcp,80/http", startSsh=True)
    root = root_of(desk, pod_id)
    await desk.eventually((root / "done").exists)
    seen = dict(line.split("=", 1) for line in (root / "env.txt").read_text().splitlines())
    truth = desk.sandbox.runpod.pods[pod_id]
    assert seen["RUNPOD_POD_ID"] == pod_id
    assert seen["RUNPOD_API_KEY"] == truth.api_key
    assert seen["RUNPOD_GPU_COUNT"] == "1"
    assert seen["RUNPOD_TCP_PORT_22"].isdigit()
    assert {"RUNPOD_DC_ID", "RUNPOD_POD_HOSTNAME", "RUNPOD_CPU_COUNT", "RUNPOD_PUBLIC_IP", "PUBLIC_KEY"} <= set(seen)
    assert seen["AUTOPILOT_ROOT"] == seen["PWD"] == str(root)
    assert seen["AUTOPILOT_PROVIDER_URL"] == desk.url
    assert (seen["A"], seen["HOME"]) == ("b c", f"{root}/root")
    assert not {"RUNPOD_API_BASE_URL", "AUTOPILOT_CLOCK_SPEED", "RUNPOD_TCP_PORT_80"} & set(seen)
    assert (root / "workspace").is_dir()


async def test_an_eviction_warns_then_kills_and_keeps_the_volume_only(desk: Any) -> None:
    pod_id = await run(desk, STUBBORN)
    root = root_of(desk, pod_id)
    pid = await read_pid(desk, root / "worker.pid")
    (root / "workspace" / "kept").write_text("data")
    await desk.emu("POST", "rival", pod_id=pod_id, bid=0.9)
    await desk.eventually((root / "workspace" / "warned").exists)
    await desk.advance(4.9)
    assert alive(pid)
    await desk.advance(0.1)
    assert not alive(pid)
    assert not root.exists()
    events = {e["kind"]: e["at"] for e in (await desk.emu("GET", "events"))["events"]}
    assert events["pod.outbid"] == START.replace(second=40).isoformat()
    await desk.advance(60)
    machine = next(m for m in (await desk.emu("GET", "machines"))["machines"] if pod_id in m["tenants"])
    await desk.emu("DELETE", "rival", id=machine["strangers"][0]["id"])
    await desk.resume(pod_id, 0.3)
    await desk.advance(15)
    again = await read_pid(desk, root / "worker.pid")
    assert alive(again)
    assert again != pid
    assert (root / "workspace" / "kept").read_text() == "data"
    assert (root / "workspace" / "warned").read_text() == "warned\n"
    await desk.terminate(pod_id)
    assert not alive(again)
    assert not root.parent.exists()


async def test_a_checkpoint_in_the_grace_period_is_kept(desk: Any) -> None:
    pod_id = await run(
        desk, "trap 'echo step 7 > workspace/ckpt; exit 0' TERM; touch ready; while :; do sleep 0.05; done"
    )
    root = root_of(desk, pod_id)
    await desk.eventually((root / "ready").exists)
    await desk.stop(pod_id)
    await desk.eventually((root / "workspace" / "ckpt").exists)
    await desk.advance(5)
    assert (root.parent / "volume" / "ckpt").read_text() == "step 7\n"
    assert (await desk.truth(pod_id))["boots"] == 1


async def test_without_a_volume_nothing_is_kept(desk: Any) -> None:
    pod_id = await run(desk, "touch workspace/lost; sleep 600", volumeInGb=0)
    root = root_of(desk, pod_id)
    await desk.eventually((root / "workspace" / "lost").exists)
    await desk.stop(pod_id)
    await desk.advance(5)
    await desk.resume(pod_id, 0.3)
    await desk.advance(15)
    await desk.eventually((root / "workspace" / "lost").exists)
    assert not (root.parent / "volume").exists()


async def test_a_command_that_ends_is_started_again_for_ever_and_billed_all_the_while(desk: Any) -> None:
    pod_id = await run(desk, "echo run >> runs; echo hello; exit 3")
    root = root_of(desk, pod_id)
    fields = "desiredStatus latestTelemetry{state time} lastStartedAt runtime{uptimeInSeconds}"

    async def exited() -> bool:
        telemetry = (await desk.pod(pod_id, fields))["latestTelemetry"]
        return bool(telemetry["state"] == "exited")

    for boot in (1, 2, 3):
        await desk.eventually(exited)
        row = await desk.pod(pod_id, fields)
        assert row["desiredStatus"] == "RUNNING"
        assert row["latestTelemetry"]["time"] >= row["lastStartedAt"]
        assert (root / "runs").read_text() == "run\n" * boot
        await desk.advance(2)
    await desk.advance(3600 - 46)
    truth = await desk.truth(pod_id)
    assert truth["status"] == "RUNNING"
    assert truth["boots"] >= 4
    assert (await desk.emu("GET", "books"))["books"][0]["cost"]["gpu"] == "0.250000000"
    exits = [event for event in (await desk.emu("GET", "events"))["events"] if event["kind"] == "container.exited"]
    assert {event["exit_code"] for event in exits} == {3}
    lines = (await desk.rest("GET", f"/hapi/v1/pod/{pod_id}/logs"))[1]
    assert [line.split(" ", 1)[1] for line in lines["container"]][:2] == ["hello", "hello"]
    assert sum("start container" in line for line in lines["system"]) == truth["boots"]


async def test_docker_args_in_json(desk: Any) -> None:
    args = '{"cmd":["echo $((40+2)) > answer; sleep 600"],"entrypoint":["/bin/sh","-c"]}'
    pod_id = await desk.running(dockerArgs=args)
    file = root_of(desk, pod_id) / "answer"
    await desk.eventually(lambda: file.exists() and file.read_text() == "42\n")


async def test_an_image_brings_its_files_and_an_empty_command_idles(desk: Any) -> None:
    pod_id = await desk.running(imageName="autopilot/demo:1")
    assert (root_of(desk, pod_id) / "opt" / "demo" / "train.py").exists()
    await desk.advance(60)
    assert (await desk.truth(pod_id))["container"] == "running"


async def test_rest_args_and_another_mount_path(desk: Any) -> None:
    mounts = {"persistent": {"size": 10, "path": "/data/disk"}}
    _, pod = await desk.create(args="bash -lc 'echo x > data/disk/x; sleep 600'", mounts=mounts)
    await desk.advance(40)
    root = root_of(desk, pod["id"])
    await desk.eventually((root / "data/disk/x").exists)
    await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "stop"})
    await desk.advance(5)
    assert (root.parent / "volume" / "x").exists()


async def test_a_planted_link_does_not_lead_out_of_the_box(desk: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    pod_id = await run(desk, f"rm -r workspace; ln -s {outside} workspace; touch done; sleep 600")
    await desk.eventually((root_of(desk, pod_id) / "done").exists)
    await desk.stop(pod_id)
    await desk.advance(5)
    assert (outside / "precious").exists()
    assert not (root_of(desk, pod_id).parent / "volume").exists()


async def test_a_network_volume_outlives_pods_and_is_shared(open_desk: Any) -> None:
    desk = await open_desk(real_processes=True, runpod_network_volumes=(NetworkVolume("nv1", "n", 10, "US-KS-2"),))
    gpu = {"gpuTypeId": "NVIDIA GeForce RTX 4090", "networkVolumeId": "nv1", "bid": 0.6}
    first = await run(desk, "echo data > workspace/x; sleep 600", **gpu)
    await desk.eventually((root_of(desk, first) / "workspace" / "x").exists)
    await desk.terminate(first)
    second = await run(desk, "cat workspace/x > seen; sleep 600", **gpu)
    seen = root_of(desk, second) / "seen"
    await desk.eventually(lambda: seen.exists() and seen.read_text() == "data\n")


async def test_an_edit_starts_from_a_fresh_container_with_the_same_volume(desk: Any) -> None:
    pod_id = await run(desk, "touch old workspace/kept; sleep 600")
    root = root_of(desk, pod_id)
    await desk.eventually((root / "old").exists)
    await desk.rest("PATCH", f"/v2/pods/{pod_id}", json={"args": "bash -c 'touch new; sleep 600'"})
    await desk.advance(15)
    await desk.eventually((root / "new").exists)
    assert not (root / "old").exists()
    assert (root / "workspace" / "kept").exists()


async def test_a_host_that_goes_offline_stops_computing_and_billing(desk: Any) -> None:
    pod_id = await run(desk, STUBBORN)
    root = root_of(desk, pod_id)
    pid = await read_pid(desk, root / "worker.pid")
    machine_id = (await desk.truth(pod_id))["machine_id"]
    await desk.emu("POST", "host", machine_id=machine_id, state="offline")
    assert not alive(pid)
    before = (await desk.emu("GET", "books"))["books"][0]["total"]
    await desk.advance(3600)
    assert (await desk.emu("GET", "books"))["books"][0]["total"] == before
    assert (await desk.pod(pod_id, "desiredStatus runtime{uptimeInSeconds}"))["runtime"] is None
    (root / "worker.pid").unlink()
    await desk.emu("POST", "host", machine_id=machine_id, state="online")
    await desk.advance(15)
    assert alive(await read_pid(desk, root / "worker.pid"))


async def test_a_pod_terminates_itself_with_its_own_key(desk: Any) -> None:
    script = """
        import os, urllib.request
        url = os.environ["AUTOPILOT_PROVIDER_URL"] + "/v2/pods/" + os.environ["RUNPOD_POD_ID"]
        headers = {"Authorization": "Bearer " + os.environ["RUNPOD_API_KEY"], "User-Agent": "agent"}
        urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="DELETE"))
    """
    pod_id = await desk.running(dockerArgs=shlex.join([sys.executable, "-c", textwrap.dedent(script)]))

    async def gone() -> bool:
        return await desk.pod(pod_id) is None

    await desk.eventually(gone)


async def test_on_a_fast_clock_a_process_still_gets_a_real_second(open_desk: Any) -> None:
    clock = ScaledClock(datetime.now(UTC), 60)
    desk = await open_desk(clock, real_processes=True)
    pod_id = (await desk.rent(dockerArgs=f"bash -c {shlex.quote(STUBBORN)}"))["id"]
    root = root_of(desk, pod_id)
    pid = await read_pid(desk, root / "worker.pid")
    before = clock.now()
    await desk.stop(pod_id)
    await desk.eventually((root / "workspace" / "warned").exists)
    await desk.eventually(lambda: not alive(pid))
    assert 60 <= (clock.now() - before).total_seconds() < 300
    events = {e["kind"]: datetime.fromisoformat(e["at"]) for e in (await desk.emu("GET", "events"))["events"]}
    assert (events["container.started"] - events["pod.started"]).total_seconds() == 40
