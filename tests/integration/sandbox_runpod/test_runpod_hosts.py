"""RunPod's hosts: its filters choose among them, and a start that fails is told in the pod's own records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from autopilot.domain.start_faults import find_telling_line
from autopilot_lab.sandbox.image_traits import AMD64_ONLY, NEEDS_CUDA_12_8
from autopilot_lab.sandbox.zoo import PRESETS
from tests.integration.sandbox_runpod.runpod_desk import Desk, Refusal

OpenDesk = Callable[..., Awaitable[Desk]]
QUERY = "query($id:String!){pod(input:{podId:$id}){desiredStatus lastStatusChange machineId runtime{uptimeInSeconds}}}"


async def read_pod(desk: Desk, pod_id: str) -> dict[str, Any]:
    return dict((await desk.gql(QUERY, id=pod_id))["pod"])


async def rent_on(desk: Desk, image: str = "ubuntu:24.04", **traits: object) -> str:
    """On a machine as said: all of the kind are so."""
    for machine in (await desk.emu("GET", "machines"))["machines"]:
        if machine["gpu_type_id"] == "NVIDIA GeForce RTX 3090":
            await desk.emu("POST", "host_traits", machine_id=machine["machine_id"], **traits)
    return str((await desk.rent(imageName=image))["id"])


async def told_by_system(desk: Desk, pod_id: str) -> str:
    return "\n".join(line.text for line in desk.sandbox.runpod.pods[pod_id].log if line.source == "system")


@pytest.mark.parametrize(
    ("traits", "image", "words"),
    [
        ({"boots": "no_runtime"}, "ubuntu:24.04", "OCI runtime create failed"),
        ({"cuda": "12.2"}, NEEDS_CUDA_12_8, "unsatisfied condition: cuda>=12.8"),
    ],
)
async def test_a_container_that_cannot_be_made_is_tried_for_ever_and_billed(
    desk: Desk, traits: dict[str, object], image: str, words: str
) -> None:
    pod_id = await rent_on(desk, image, **traits)
    await desk.advance(1800)
    pod = await read_pod(desk, pod_id)
    assert (pod["desiredStatus"], pod["runtime"]) == ("RUNNING", None)
    said = await told_by_system(desk, pod_id)
    assert said.count(f"start container for {image}: begin") > 10
    assert "error starting container: Error response from daemon: failed to create task for container" in said
    assert words in said
    (book,) = (await desk.emu("GET", "books"))["books"]
    assert float(book["total"]) > 0.12


@pytest.mark.parametrize(
    ("traits", "image", "words"),
    [
        ({"boots": "full_disk"}, "ubuntu:24.04", "no space left on device"),
        ({"arch": "arm64"}, AMD64_ONLY, "no matching manifest for linux/arm64/v8"),
    ],
)
async def test_an_image_that_cannot_be_had_ends_the_pod(
    desk: Desk, traits: dict[str, object], image: str, words: str
) -> None:
    pod_id = await rent_on(desk, image, **traits)
    await desk.advance(10)
    pod = await read_pod(desk, pod_id)
    assert pod["desiredStatus"] == "EXITED"
    assert pod["lastStatusChange"].startswith("Exited by Runpod: ")
    assert words in await told_by_system(desk, pod_id)


async def test_a_host_that_never_gets_a_runtime_and_one_without_a_network(desk: Desk) -> None:
    first = await rent_on(desk, boots="for_ever")
    await desk.advance(3600)
    assert (await read_pod(desk, first))["runtime"] is None
    await desk.gql("mutation($id:String!){podTerminate(input:{podId:$id})}", id=first)
    second = await rent_on(desk, boots="no_network")
    await desk.advance(150)
    assert (await read_pod(desk, second))["runtime"] is not None
    log = "\n".join(line.text for line in desk.sandbox.runpod.pods[second].log)
    assert find_telling_line(log)[0] == "no_network"


async def test_a_zoo_has_hosts_that_the_market_s_filters_tell_apart(open_desk: OpenDesk) -> None:
    desk = await open_desk(duds=0.0)
    machines = desk.sandbox.runpod.machines
    assert len(machines) == 60
    versions = {machine.spec.cuda_version for machine in machines.values()}
    assert versions >= {"13.0", "12.8"}
    assert versions & {"12.2", "12.4", "12.6"}
    pod_id = str((await desk.rent(minCudaVersion="12.8"))["id"])
    assert machines[(await read_pod(desk, pod_id))["machineId"]].spec.traits.cuda in ("12.8", "13.0")
    with pytest.raises(Refusal):
        await desk.rent(minCudaVersion="13.5")


async def test_in_a_zoo_each_launch_gets_any_machine_that_would_do(open_desk: OpenDesk) -> None:
    """What one pod has met on its host says nothing of the next one's."""
    desk = await open_desk(duds=PRESETS["zoo-stress"])
    machines = desk.sandbox.runpod.machines
    on = []
    for number in range(12):
        pod_id = str((await desk.rent(name=f"pod-{number}", bid=0.4))["id"])
        on.append((await read_pod(desk, pod_id))["machineId"])
        await desk.gql("mutation($id:String!){podTerminate(input:{podId:$id})}", id=pod_id)
    assert len(set(on)) > 3
    assert {machines[machine_id].spec.traits.is_dud for machine_id in on} == {True, False}
