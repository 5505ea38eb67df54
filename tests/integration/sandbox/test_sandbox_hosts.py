"""Hosts of vast.ai as the real SDK sees them: what is stated of each, and what becomes of a start on one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from autopilot_lab.sandbox.__main__ import _parser
from autopilot_lab.sandbox.host_traits import Boot
from autopilot_lab.sandbox.image_traits import AMD64_ONLY, NEEDS_CUDA_12_8
from autopilot_lab.sandbox.zoo import PRESETS
from tests.integration.sandbox.conftest import Desk

OpenDesk = Callable[..., Awaitable[Desk]]
EVERY = {"limit": 200, "storage": 10, "type": "bid", "order": "min_bid", "no_default": True}


async def search(desk: Desk, **query: object) -> list[dict[str, Any]]:
    rows = await desk.sdk("search_offers", query=query, **EVERY)
    return [row for row in rows if row["num_gpus"]]


async def test_offers_of_a_zoo_state_their_hosts_under_the_market_s_own_names(open_desk: OpenDesk) -> None:
    desk = await open_desk(duds=PRESETS["zoo"])
    rows = await search(desk)
    by_machine = {row["machine_id"]: row for row in rows}
    assert len(by_machine) == 60
    machines = desk.sandbox.market.machines
    for machine_id, row in by_machine.items():
        spec, share = machines[machine_id].spec, row["num_gpus"] / machines[machine_id].spec.gpu_count
        assert row["cuda_max_good"] == spec.cuda_max_good
        assert row["driver_version"] == spec.driver_version
        assert row["cpu_arch"] == spec.cpu_arch
        assert row["cpu_cores_effective"] == spec.cpu_cores * share
        assert row["cpu_ram"] == spec.cpu_ram_mb
        assert (row["disk_bw"], row["inet_down"], row["inet_up"]) == (
            spec.disk_bw,
            spec.inet_down_mbps,
            spec.inet_up_mbps,
        )
        assert (row["geolocation"], row["compute_cap"]) == (spec.geolocation, spec.compute_cap)
    assert {row["cuda_max_good"] for row in rows} >= {13.0, 12.8, 12.4}
    assert {row["cpu_arch"] for row in rows} <= {"amd64", "arm64"}
    assert len({row["geolocation"] for row in rows}) > 3
    assert sum(machine.spec.truth.boots is not Boot.WELL for machine in machines.values()) == 18


async def test_the_market_s_own_filters_choose_among_hosts(open_desk: OpenDesk) -> None:
    desk = await open_desk(duds=0.0)
    everything = await search(desk)
    new = await search(desk, cuda_max_good={"gte": "12.8"}, driver_version={"gte": 570124006})
    assert {row["cuda_max_good"] for row in new} == {12.8, 13.0}
    assert {row["machine_id"] for row in everything} > {row["machine_id"] for row in new}
    assert {row["cpu_arch"] for row in await search(desk, cpu_arch={"eq": "amd64"})} == {"amd64"}
    fast = await search(desk, inet_down={"gte": 1000}, disk_bw={"gte": 500})
    assert fast
    assert all(row["inet_down"] >= 1000 and row["disk_bw"] >= 500 for row in fast)
    assert {row["geolocation"][-2:] for row in await search(desk, geolocation={"in": ["US"]})} == {"US"}


async def test_the_plain_market_has_sound_hosts_alone(desk: Desk) -> None:
    specs = [machine.spec for machine in desk.sandbox.market.machines.values()]
    assert len(specs) == 12
    assert {(spec.driver_version, spec.cuda_max_good, spec.truth.boots) for spec in specs} == {
        ("580.95.05", 13.0, Boot.WELL)
    }


async def rent_on(desk: Desk, image: str = "ubuntu:24.04", **traits: object) -> int:
    """On the cheapest RTX 4090, which is as said."""
    offer = await desk.offer()
    await desk.emu("POST", "host_traits", machine_id=offer["machine_id"], **traits)
    return await desk.rent(image=image)


@pytest.mark.parametrize(
    ("traits", "image", "words"),
    [
        ({"boots": "no_runtime"}, "ubuntu:24.04", "OCI runtime create failed"),
        ({"boots": "full_disk"}, "ubuntu:24.04", "no space left on device"),
        ({"cuda": "12.2", "driver": "535.183.01"}, NEEDS_CUDA_12_8, "unsatisfied condition: cuda>=12.8"),
        ({"arch": "arm64"}, AMD64_ONLY, "no matching manifest for linux/arm64/v8"),
    ],
)
async def test_a_failed_start_is_told_in_the_status_text(
    desk: Desk, traits: dict[str, object], image: str, words: str
) -> None:
    instance_id = await rent_on(desk, image, **traits)
    await desk.advance(3600)
    row = await desk.row(instance_id)
    assert (row["actual_status"], row["intended_status"]) == ("created", "running")
    assert words in row["status_msg"]
    assert row["status_msg"].endswith("\n")
    assert row["instance"]["gpuCostPerHour"] == 0, "a machine that never ran is not billed for its GPUs"


async def test_an_older_driver_runs_what_does_not_require_more(desk: Desk) -> None:
    instance_id = await rent_on(desk, "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", cuda="12.2")
    await desk.advance(60)
    assert (await desk.row(instance_id))["actual_status"] == "running"


async def test_a_host_that_loads_for_ever_says_nothing_of_it(desk: Desk) -> None:
    instance_id = await rent_on(desk, boots="for_ever")
    await desk.advance(5)
    said = (await desk.row(instance_id))["status_msg"]
    await desk.advance(7200)
    row = await desk.row(instance_id)
    assert (row["actual_status"], row["status_msg"]) == ("loading", said)


async def test_a_host_without_a_network_runs_and_is_billed(desk: Desk) -> None:
    instance_id = await rent_on(desk, boots="no_network")
    await desk.advance(60)
    row = await desk.row(instance_id)
    assert row["actual_status"] == "running"
    assert row["instance"]["gpuCostPerHour"] == 0.5


async def test_a_share_of_duds_may_be_set_later(desk: Desk) -> None:
    await desk.emu("POST", "duds", share=0.5)
    boots = [machine.spec.truth.boots for machine in desk.sandbox.market.machines.values()]
    assert sum(boot is not Boot.WELL for boot in boots) == 6
    status, said = await desk.raw("POST", "/_emu/duds", json={"share": 30})
    assert (status, said["error"]) == (400, "share lies between 0 and 1, not at 30")
    status, said = await desk.raw("POST", "/_emu/host_traits", json={"machine_id": 43567, "boots": "badly"})
    assert (status, said["error"][:18]) == (400, "boots must be one ")


def test_a_share_of_duds_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert _parser().parse_args(["--duds", "0.58"]).duds == PRESETS["zoo-stress"]
    with pytest.raises(SystemExit):
        _parser().parse_args(["--duds", "30"])
    assert "a share lies between 0 and 1, not at 30" in capsys.readouterr().err
