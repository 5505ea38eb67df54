"""From the inputs of the GraphQL schema to orders and requirements. Everything may raise ``PodRefused``."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from autopilot_lab.sandbox.runpod.machines import Cloud, Requirements
from autopilot_lab.sandbox.runpod.pods import DEFAULT_MOUNT, PodOrder
from autopilot_lab.sandbox.runpod.refusals import invalid
from autopilot_lab.sandbox.units import NANO

MAX_ENV = 50
_MAX_BID = Decimal(1000)
_MAX_DISK_GB = 100_000

Input = dict[str, Any]
"""A coerced GraphQL input: names as in the schema, absent or ``None`` where nothing was given."""


def pod_order(wish: Input, team: str | None, pub_key: str) -> PodOrder:
    """Of ``podRentInterruptable`` (with ``bidPerGpu``) or ``podFindAndDeployOnDemand`` (without)."""
    image = wish.get("imageName")
    if not image:
        raise invalid("imageName is required")
    start_ssh = bool(wish.get("startSsh"))
    env = environment(wish.get("env"))
    if start_ssh and pub_key:
        env += (("PUBLIC_KEY", pub_key),)
    bid = wish.get("bidPerGpu")
    return PodOrder(
        image=image,
        gpu_type_ids=tuple(wish.get("gpuTypeIdList") or [wish.get("gpuTypeId") or ""]),
        bid=None if bid is None else bid_per_gpu(bid),
        name=wish.get("name") or "",
        gpu_count=_count(wish, "gpuCount", 1, low=1),
        requirements=requirements(wish),
        args=wish.get("dockerArgs") or "",
        env=env,
        ports=ports(wish.get("ports")),
        container_disk_gb=_count(wish, "containerDiskInGb", 10),
        volume_gb=_count(wish, "volumeInGb", 0),
        mount=mount_path(wish.get("volumeMountPath")),
        network_volume_id=wish.get("networkVolumeId") or None,
        registry_id=wish.get("containerRegistryAuthId") or None,
        start_ssh=start_ssh,
        stop_after=_instant(wish, "stopAfter"),
        terminate_after=_instant(wish, "terminateAfter"),
        team=team,
    )


def edits(wish: Input) -> dict[str, object]:
    """The fields of an order that ``podEditJob`` changes."""
    changes: dict[str, object] = {}
    for name, field in (("imageName", "image"), ("dockerArgs", "args")):
        if wish.get(name) is not None:
            changes[field] = wish[name]
    for name, field in (("containerDiskInGb", "container_disk_gb"), ("volumeInGb", "volume_gb")):
        if wish.get(name) is not None:
            changes[field] = _count(wish, name, 0)
    if wish.get("env") is not None:
        changes["env"] = environment(wish["env"])
    if wish.get("ports") is not None:
        changes["ports"] = ports(wish["ports"])
    if wish.get("volumeMountPath") is not None:
        changes["mount"] = mount_path(wish["volumeMountPath"])
    return changes


def requirements(wish: Input) -> Requirements:
    """Of a create input or of ``GpuLowestPriceInput``."""
    cloud, secure = wish.get("cloudType"), wish.get("secureCloud")
    clouds = frozenset(Cloud)
    if cloud in (Cloud.SECURE, Cloud.COMMUNITY):
        clouds = frozenset({Cloud(cloud)})
    elif secure is not None:
        clouds = frozenset({Cloud.SECURE if secure else Cloud.COMMUNITY})
    exact = wish.get("cudaVersion")
    return Requirements(
        clouds=clouds,
        data_center_ids=frozenset(
            place.strip().upper() for place in (wish.get("dataCenterId") or "").split(",") if place
        ),
        country=wish.get("countryCode") or None,
        min_vcpus=wish.get("minVcpuCount") or 0,
        min_memory_gb=wish.get("minMemoryInGb") or 0,
        min_disk_gb=wish.get("minDisk") or wish.get("totalDisk") or 0,
        min_download_mbps=wish.get("minDownload") or 0,
        min_upload_mbps=wish.get("minUpload") or 0,
        public_ip=bool(wish.get("supportPublicIp")),
        cuda_versions=frozenset(wish.get("allowedCudaVersions") or ([exact] if exact else [])),
        min_cuda_version=wish.get("minCudaVersion") or None,
    )


def bid_per_gpu(value: float) -> Decimal:
    """$/h per GPU, in whole nano-dollars."""
    bid = Decimal(str(value))
    if not 0 < bid <= _MAX_BID:
        raise invalid("bidPerGpu is out of range")
    return bid.quantize(NANO).normalize()


def mount_path(text: str | None) -> PurePosixPath:
    """Relative to the pod's root."""
    if not text:
        return DEFAULT_MOUNT
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/") or "\0" in text:
        raise invalid("the mount path must be absolute")
    return path.relative_to(path.anchor)


def ports(text: str | None) -> tuple[str, ...]:
    return tuple(port.strip() for port in (text or "").split(",") if port.strip())


def environment(entries: list[Input] | None) -> tuple[tuple[str, str], ...]:
    env = tuple((entry["key"], entry["value"]) for entry in entries or [])
    if len(env) > MAX_ENV:
        raise invalid(f"a pod may have at most {MAX_ENV} environment variables")
    return env


def _count(wish: Input, name: str, default: int, low: int = 0) -> int:
    value = wish.get(name)
    count = default if value is None else int(value)
    if not low <= count <= _MAX_DISK_GB:
        raise invalid(f"{name} is out of range")
    return count


def _instant(wish: Input, name: str) -> datetime | None:
    value = wish.get(name)
    assert value is None or isinstance(value, datetime)
    return value
