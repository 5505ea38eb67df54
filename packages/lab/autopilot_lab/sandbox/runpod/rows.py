"""A pod, its machine and the account in the shapes of the GraphQL schema."""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime
from decimal import Decimal

from autopilot_lab.sandbox.runpod.exchange import Exchange
from autopilot_lab.sandbox.runpod.machines import Cloud, Machine
from autopilot_lab.sandbox.runpod.pods import Container, NetworkVolume, Pod, Status

Json = dict[str, object]

USER_ID = "user_2PyTJrLzeuwfZilRZ7JhCQDuSqo"
_FIRST_PORT, _PORTS = 10_000, 50_000


def pod_row(market: Exchange, pod: Pod, *, runtime_known: bool = True) -> Json:
    """``runtime_known``: whether the backend heard from the host in time; if not, ``runtime`` is null."""
    machine = market.machines[pod.machine_id]
    order, spec = pod.order, machine.spec
    lowest_bid = None if pod.order.bid is None else market.lowest_bid_to_resume(pod)
    row: Json = {
        "id": pod.id,
        "name": "" if "list-shows-label" in market.broken else order.name,
        "podType": str(pod.type),
        "desiredStatus": str(pod.status),
        "lastStatusChange": pod.last_status_change,
        "lastStartedAt": pod.last_started_at,
        "createdAt": pod.created_at,
        "uptimeSeconds": max(uptime_s(market, pod) or 0, 0),
        "imageName": order.image,
        "dockerArgs": order.args,
        "env": [f"{key}={value}" for key, value in order.env],
        "gpuCount": pod.gpu_count,
        "vcpuCount": spec.vcpus_per_gpu * pod.gpu_count,
        "memoryInGb": spec.memory_gb_per_gpu * pod.gpu_count,
        "containerDiskInGb": order.container_disk_gb,
        "volumeInGb": order.volume_gb,
        "volumeMountPath": f"/{order.mount}",
        "volumeEncrypted": False,
        "networkVolumeId": order.network_volume_id,
        "ports": ",".join(order.ports),
        "costPerHr": pod.cost_per_hr,
        "adjustedCostPerHr": pod.cost_per_hr,
        "costMultiplier": 1,
        "lowestBidPriceToResume": lowest_bid if pod.status is Status.EXITED else None,
        "machineId": pod.machine_id,
        "locked": pod.locked,
        "version": pod.starts,
        "consumerUserId": USER_ID,
        "machine": _machine_row(market, machine, pod),
        "runtime": runtime_row(market, pod) if runtime_known else None,
        "latestTelemetry": _telemetry_row(market, pod),
        "networkVolume": _network_volume(market, pod),
        "savingsPlans": [],
    }
    return row


def uptime_s(market: Exchange, pod: Pod) -> int | None:
    """Whole seconds since the container began to run; ``None`` when nothing is known about one."""
    fresh = pod.status is Status.RUNNING and pod.container in (Container.RUNNING, Container.RESTARTING)
    stale = pod.runtime_stale_until is not None and market.now < pod.runtime_stale_until
    if pod.ran_at is None or not (fresh or stale):
        return None
    return int((market.now - pod.ran_at).total_seconds())


def runtime_row(market: Exchange, pod: Pod) -> Json | None:
    """For a while a stopped pod goes on showing, and even counting up, what it last had."""
    uptime = uptime_s(market, pod)
    if uptime is None:
        return None
    gpu_ids = [uuid.UUID(bytes=hashlib.md5(f"{pod.id}:{n}".encode()).digest()) for n in range(pod.gpu_count)]  # noqa: S324 - a name
    return {
        "uptimeInSeconds": uptime,
        "container": {"cpuPercent": 12, "memoryPercent": 20},
        "gpus": [{"id": f"GPU-{gpu_id}", "gpuUtilPercent": 97, "memoryUtilPercent": 61} for gpu_id in gpu_ids],
        "ports": [
            {"ip": ip, "isIpPublic": kind == "tcp", "privatePort": private, "publicPort": public, "type": kind}
            for private, public, kind, ip in open_ports(market.machines[pod.machine_id], pod)
        ],
    }


def open_ports(machine: Machine, pod: Pod) -> list[tuple[int, int, str, str]]:
    """Private port, public port (another one after each start), kind and address."""
    found = []
    for wish in pod.order.ports:
        number, _, kind = wish.partition("/")
        if number.isascii() and number.isdigit() and (kind == "http" or machine.spec.public_ip is not None):
            digest = hashlib.sha256(f"{pod.id}:{pod.starts}:{wish}".encode()).digest()
            public = _FIRST_PORT + int.from_bytes(digest[:4]) % _PORTS
            ip = "100.65.0.101" if kind == "http" else str(machine.spec.public_ip)
            found.append((int(number), public, kind or "tcp", ip))
    return found


def user_row(market: Exchange, pods: list[Json], pub_key: str) -> Json:
    balance = market.balance.show(market.now)
    return {
        "id": USER_ID,
        "authId": USER_ID,
        "email": "dev@example.com",
        "pubKey": pub_key,
        "pods": pods,
        "networkVolumes": [network_volume_row(volume) for volume in market.network_volumes.values()],
        "clientBalance": balance,
        "currentSpendPerHr": market.balance.burn(),
        "spendLimit": market.config.spend_limit,
        "minBalance": 0,
        "underBalance": balance <= 0,
        "notifyPodsStale": True,
        "notifyPodsGeneral": True,
        "notifyLowBalance": True,
    }


def network_volume_row(volume: NetworkVolume) -> Json:
    return {
        "id": volume.id,
        "name": volume.name,
        "size": volume.size_gb,
        "dataCenterId": volume.data_center_id,
        "dataCenter": {"id": volume.data_center_id},
    }


def iso(instant: datetime) -> str:
    """Milliseconds and a ``Z``, as GraphQL writes times."""
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{instant.microsecond // 1000:03d}Z"


def number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _machine_row(market: Exchange, machine: Machine, pod: Pod) -> Json:
    spec = machine.spec
    return {
        "id": spec.machine_id,
        "podHostId": f"{pod.id}-{hashlib.sha256(spec.machine_id.encode()).hexdigest()[:8]}",
        "gpuDisplayName": spec.gpu_type.display_name,
        "gpuTypeId": spec.gpu_type.id,
        "gpuAvailable": market.free_gpus(machine),
        "minPodGpuCount": 1,
        "costPerHr": spec.on_demand,
        "currentPricePerGpu": spec.on_demand,
        "location": spec.country,
        "dataCenterId": spec.data_center_id,
        "secureCloud": spec.cloud is Cloud.SECURE,
        "supportPublicIp": spec.public_ip is not None,
        "listed": True,
        "cpuCount": spec.vcpus_per_gpu * spec.gpu_count,
        "vcpuTotal": spec.vcpus_per_gpu * spec.gpu_count,
        "memoryTotal": spec.memory_gb_per_gpu * spec.gpu_count,
        "maxDownloadSpeedMbps": spec.download_mbps,
        "maxUploadSpeedMbps": spec.upload_mbps,
    }


def _telemetry_row(market: Exchange, pod: Pod) -> Json | None:
    """``exited`` between the end of a command and its restart, though the pod is RUNNING all the while."""
    if pod.container is Container.RESTARTING and pod.exited_at is not None:
        return {"state": "exited", "time": pod.exited_at}
    return {"state": "running", "time": market.now} if pod.container is Container.RUNNING else None


def _network_volume(market: Exchange, pod: Pod) -> Json | None:
    if pod.order.network_volume_id is None:
        return None
    return network_volume_row(market.network_volumes[pod.order.network_volume_id])
