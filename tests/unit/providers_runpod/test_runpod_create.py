from __future__ import annotations

import base64
import json
import shlex
import subprocess
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.runpod import create, mapping, wire
from autopilot.providers.runpod.config import parse_settings
from autopilot.providers.runpod.runtimes import UP
from tests.patience import PATIENCE_S
from tests.unit.providers_runpod.runpod_samples import body

SETTINGS = parse_settings({"api_key": "k"})
REQUEST = CreateRequest(
    label="ap1.install.lease",
    offer_id="NVIDIA RTX A4000/COMMUNITY/2",
    machine_id="NVIDIA RTX A4000/COMMUNITY/-",
    capacity_type=CapacityType.SPOT,
    bid=Decimal("0.331"),
    image="some/image:1",
    disk_gb=Decimal(40),
    env={"A": "b"},
    onstart="echo 'it''s' \"$HOME\"\n",
)


def test_a_spot_request_bids_per_gpu() -> None:
    wish = create.graphql_input(create.pod_request(REQUEST, SETTINGS))
    assert wish["bidPerGpu"] == 0.1655
    assert (wish["gpuTypeId"], wish["cloudType"], wish["gpuCount"]) == ("NVIDIA RTX A4000", "COMMUNITY", 2)
    assert wish["name"] == REQUEST.label
    assert (wish["containerDiskInGb"], wish["volumeInGb"], wish["volumeMountPath"]) == (20, 20, "/workspace")
    env = {entry["key"]: entry["value"] for entry in wish["env"]}
    assert env == {"A": "b", "AUTOPILOT_STATE": "/workspace/.autopilot", "AUTOPILOT_CAPACITY": wire.SPOT_WORD}


def test_an_on_demand_request_has_no_bid() -> None:
    wanted = create.pod_request(replace(REQUEST, capacity_type=CapacityType.ON_DEMAND), SETTINGS)
    assert "bidPerGpu" not in create.graphql_input(wanted)
    rest = create.rest_body(wanted)
    assert set(rest) <= {*body("rest_v2/create_pod.request"), "startSsh"}
    assert rest["gpu"] == {"id": "NVIDIA RTX A4000", "count": 2}
    assert rest["mounts"] == {"persistent": {"size": 20, "path": "/workspace"}}
    assert rest["env"]["AUTOPILOT_CAPACITY"] != wire.SPOT_WORD


@pytest.mark.parametrize(
    ("disk_gb", "expected"),
    [("40", (20, 20)), ("100.5", (20, 81)), ("20", (10, 10)), ("21", (10, 11)), ("8", (5, 10))],
)
def test_the_disk_is_divided(disk_gb: str, expected: tuple[int, int]) -> None:
    assert create.disks(Decimal(disk_gb), SETTINGS) == expected


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"offer_id": "111"}, "not an offer id"),
        ({"label": ""}, "a label has"),
        ({"label": "x" * 61}, "a label has"),
        ({"env": {f"V{n}": "" for n in range(49)}}, "environment variables"),
        ({"disk_gb": Decimal(1001)}, "1000 GB"),
        ({"bid": Decimal(0)}, "positive"),
    ],
)
def test_what_the_market_would_turn_down(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        create.pod_request(replace(REQUEST, **change), SETTINGS)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300))
def test_a_script_of_any_characters_is_three_plain_words(script: str) -> None:
    words = shlex.split(create.command(script))
    assert words[:2] == ["sh", "-c"]
    assert len(words) == 3
    encoded = words[2].split("echo ")[1].split(" |")[0]
    assert base64.b64decode(encoded).decode() == script


def test_the_command_becomes_the_script() -> None:
    script = "echo \"it's\" '$HOME' \\\\ `echo x`\nexec sh -c 'echo $$'"
    process = subprocess.Popen(shlex.split(create.command(script)), stdout=subprocess.PIPE, text=True)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert printed == f"it's $HOME \\ x\n{process.pid}\n"
    assert process.returncode == 0


def rented(**changes: Any) -> wire.PodRow:
    return wire.pod_row(body("graphql/pod_running_sweep_fields")["data"]["pod"] | changes)


@pytest.mark.parametrize(
    ("capacity_type", "changes", "fault"),
    [
        (CapacityType.SPOT, {"costPerHr": "0.331"}, None),
        (CapacityType.SPOT, {"costPerHr": "0.3"}, None),
        (CapacityType.SPOT, {"costPerHr": "0.34"}, "at most"),
        (CapacityType.SPOT, {"costPerHr": "0.331", "podType": "RESERVED"}, "rented on_demand"),
        (CapacityType.ON_DEMAND, {"costPerHr": "0.331", "podType": "RESERVED"}, None),
        (CapacityType.ON_DEMAND, {"costPerHr": "0.332", "podType": "RESERVED"}, "at most"),
        (CapacityType.ON_DEMAND, {"costPerHr": "0.331"}, "rented spot"),
    ],
)
def test_read_back(capacity_type: CapacityType, changes: dict[str, Any], fault: str | None) -> None:
    request = replace(REQUEST, capacity_type=capacity_type)
    instance = mapping.instance(rented(**changes), UP)
    found = create.difference(instance, request, create.pod_request(request, SETTINGS))
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)


def test_a_public_port_needs_a_public_address() -> None:
    wanted = create.pod_request(replace(REQUEST, public_port=70_022), SETTINGS)
    wish = create.graphql_input(wanted)
    assert (wish["ports"], wish["supportPublicIp"]) == ("70022/tcp", True)
    assert create.rest_body(wanted)["ports"] == ["70022/tcp"]
    without = create.graphql_input(create.pod_request(REQUEST, SETTINGS))
    assert "ports" not in without
    assert not without["supportPublicIp"]


def test_the_request_is_json() -> None:
    json.dumps(create.graphql_input(create.pod_request(REQUEST, SETTINGS)))
