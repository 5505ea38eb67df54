"""What a create asks for, and whether what was rented is that."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Any

from autopilot.domain.host import NO_NEEDS, HostNeeds
from autopilot.domain.instance import Instance
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.runpod import mapping, wire, wishes
from autopilot.providers.runpod.config import RunpodSettings

SMALLEST_VOLUME_GB = 10
SMALLEST_CONTAINER_GB = 5
MOST_VARIABLES = 50
LONGEST_LABEL = 60
VOLUME_PATH = "/workspace"
STATE_VARIABLE = "AUTOPILOT_STATE"
STATE_PATH = f"{VOLUME_PATH}/.autopilot"
"""Where the agent keeps what it must find again: on the volume, for a stop wipes the container's disk."""
COMPARED_PLACES = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A create as this market asks for it. ``bid``: $/h of the whole pod, None on demand."""

    name: str
    pool: mapping.Pool
    bid: Decimal | None
    image: str
    command: str
    env: dict[str, str]
    container_gb: int
    volume_gb: int
    ends_by: datetime | None = None
    login_id: str | None = None
    ports: tuple[str, ...] = ()
    host: HostNeeds = NO_NEEDS


def command(script: str) -> str:
    """A container command that becomes ``script``: base64, so that no quoting of the market's can change it.

    Each shell replaces the one before, so that the script's last ``exec`` is process 1 and hears the SIGTERM.
    """
    encoded = base64.b64encode(script.encode()).decode()
    return f"sh -c 'exec sh -c \"$(echo {encoded} | base64 -d)\"'"


def with_entrypoint(command: str) -> str:
    """In the place of the image's own entrypoint, which would take the command for its arguments.

    GraphQL alone takes it: on REST an image with an entrypoint that does not run its arguments cannot be used.
    """
    first, *rest = shlex.split(command)
    return json.dumps({"entrypoint": [first], "cmd": rest})


def disks(disk_gb: Decimal, settings: RunpodSettings) -> tuple[int, int]:
    """Gigabytes of (container disk, volume): up to half of what is asked for, at most so much, for the container."""
    whole = int(disk_gb.to_integral_value(ROUND_CEILING))
    container = min(settings.container_disk_gb, max(whole // 2, SMALLEST_CONTAINER_GB))
    return container, max(whole - container, SMALLEST_VOLUME_GB)


def pod_request(request: CreateRequest, settings: RunpodSettings) -> PodRequest:
    """Raises ``ValueError`` for what the market would turn down."""
    pool = mapping.pool_of_offer(request.offer_id)
    is_spot = request.capacity_type is CapacityType.SPOT
    env = {**request.env, STATE_VARIABLE: STATE_PATH, wire.CAPACITY_VARIABLE: str(request.capacity_type)}
    faults = {
        f"a label has 1 to {LONGEST_LABEL} characters": not 0 < len(request.label) <= LONGEST_LABEL,
        f"there are more than {MOST_VARIABLES} environment variables": len(env) > MOST_VARIABLES,
        f"a disk has at most {settings.largest_disk_gb} GB": request.disk_gb > settings.largest_disk_gb,
        "a bid is positive": is_spot and request.bid <= 0,
    }
    if present := [fault for fault, is_present in faults.items() if is_present]:
        raise ValueError("; ".join(present))
    container_gb, volume_gb = disks(request.disk_gb, settings)
    return PodRequest(
        name=request.label,
        pool=pool,
        bid=mapping.whole_bid(request.bid, pool.num_gpus) if is_spot else None,
        image=request.image,
        command=command(request.onstart),
        env=env,
        container_gb=container_gb,
        volume_gb=volume_gb,
        ends_by=request.ends_by,
        login_id=request.login_id,
        ports=() if request.public_port is None else (f"{request.public_port}/tcp",),
        host=request.host,
    )


def graphql_input(wanted: PodRequest) -> dict[str, Any]:
    """Input of either rental; with the bid it is one for spot."""
    found: dict[str, Any] = {
        "name": wanted.name,
        "cloudType": wanted.pool.cloud,
        "gpuTypeId": wanted.pool.gpu_type_id,
        "gpuCount": wanted.pool.num_gpus,
        "imageName": wanted.image,
        "dockerArgs": with_entrypoint(wanted.command),
        "env": [{"key": key, "value": value} for key, value in wanted.env.items()],
        "containerDiskInGb": wanted.container_gb,
        "volumeInGb": wanted.volume_gb,
        "volumeMountPath": VOLUME_PATH,
        # Asking for more than the least only hides capacity: processors come in proportion to GPUs.
        "minVcpuCount": 1,
        "minMemoryInGb": 1,
        "startSsh": False,
        "supportPublicIp": bool(wanted.ports),
        **wishes.filters(wanted.host, wishes.place_of(wanted.pool.place)),
    }
    if wanted.ports:
        found["ports"] = ",".join(wanted.ports)
    if wanted.login_id is not None:
        found["containerRegistryAuthId"] = wanted.login_id
    if wanted.ends_by is not None:
        found["terminateAfter"] = f"{wanted.ends_by:%Y-%m-%dT%H:%M:%SZ}"
    if wanted.bid is not None:
        found["bidPerGpu"] = float(mapping.bid_per_gpu(wanted.bid, wanted.pool.num_gpus))
    return found


def rest_body(wanted: PodRequest) -> dict[str, Any]:
    """REST rents on demand only, and cannot be told when to end a pod by itself. Of the machine it takes the CUDA
    version and the data centre. Raises ``ValueError`` for a country.
    """
    place = wishes.place_of(wanted.pool.place)
    if place.country:
        raise ValueError("the market cannot be told a country without GraphQL")
    where = {"dataCenterIds": [place.data_center_id]} if place.data_center_id else {}
    cuda = {} if wanted.host.cuda is None else {"minCudaVersion": wishes.cuda_version(wanted.host.cuda)}
    registry = {} if wanted.login_id is None else {"registry": wanted.login_id}
    ports = {"ports": list(wanted.ports)} if wanted.ports else {}
    return (
        registry
        | ports
        | where
        | {
            "name": wanted.name,
            "image": wanted.image,
            "cloud": wanted.pool.cloud,
            "gpu": {"id": wanted.pool.gpu_type_id, "count": wanted.pool.num_gpus, **cuda},
            "disk": wanted.container_gb,
            "mounts": {"persistent": {"size": wanted.volume_gb, "path": VOLUME_PATH}},
            "env": wanted.env,
            "args": wanted.command,
            "startSsh": False,
        }
    )


def difference(rented: Instance, request: CreateRequest, wanted: PodRequest) -> str | None:
    """How the pod differs from what was asked for, or None when it does not; a lower price is no difference."""
    if rented.capacity_type is not request.capacity_type:
        return f"asked for {request.capacity_type}, rented {rented.capacity_type}"
    highest = request.bid if wanted.bid is None else wanted.bid
    if rented.bid.quantize(COMPARED_PLACES, ROUND_HALF_EVEN) > highest.quantize(COMPARED_PLACES, ROUND_CEILING):
        return f"asked for at most ${highest}/h, rented at ${rented.bid}/h"
    return None
