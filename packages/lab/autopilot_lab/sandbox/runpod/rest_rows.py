"""A pod and the catalogue in the shapes of REST v2, which knows nothing of bids."""

from __future__ import annotations

from datetime import datetime

from autopilot_lab.sandbox.runpod import gpu_types
from autopilot_lab.sandbox.runpod.catalogue import DATA_CENTERS
from autopilot_lab.sandbox.runpod.exchange import Exchange
from autopilot_lab.sandbox.runpod.machines import Cloud, GpuType, Machine, Requirements
from autopilot_lab.sandbox.runpod.pods import Container, Pod, Status
from autopilot_lab.sandbox.runpod.rows import Json, number, open_ports, uptime_s

ACTIONS = {
    "PROVISIONING": ("stop", "terminate"),
    "STARTING": ("stop", "terminate"),
    "RUNNING": ("stop", "restart", "terminate"),
    "EXITED": ("start", "terminate"),
    "TERMINATED": (),
}


def pod_row(market: Exchange, pod: Pod, *, runtime_known: bool = True) -> Json:
    """``runtime_known``: whether the backend heard from the host in time; if not, ``runtime`` is null."""
    order, machine = pod.order, market.machines[pod.machine_id]
    status = status_of(pod)
    login = f"{pod.id}-{pod.machine_id[:8]}"
    has_started = status in ("RUNNING", "EXITED")
    return {
        "id": pod.id,
        "name": "" if "list-shows-label" in market.broken else order.name,
        "image": order.image,
        "args": order.args,
        "disk": order.container_disk_gb,
        "ports": list(order.ports),
        "env": dict(order.env),
        "registry": order.registry_id,
        "status": status,
        "actions": list(ACTIONS[status]),
        "mounts": _mounts(pod),
        "gpu": {"id": machine.spec.gpu_type.id, "count": pod.gpu_count},
        "cloud": str(pod.cloud),
        "dataCenterId": machine.spec.data_center_id,
        "cudaVersion": machine.spec.cuda_version,
        "ssh": {
            "proxy": _login("ssh.runpod.io", 22, login, f"ssh {login}@ssh.runpod.io") if has_started else None,
            "direct": _direct_login(machine, pod) if status == "RUNNING" else None,
        },
        "template": None,
        "cost": number(pod.cost_per_hr) if pod.status is Status.RUNNING else 0.0,
        "locked": pod.locked,
        "globalNetworking": {"enabled": False},
        "runtime": _runtime(market, machine, pod) if status == "RUNNING" and runtime_known else None,
        "createdAt": seconds(pod.created_at),
        "startedAt": None if pod.ran_at is None else seconds(pod.ran_at),
    }


def status_of(pod: Pod) -> str:
    """A pod of which nothing runs yet is PROVISIONING the first time, STARTING later."""
    if pod.status is not Status.RUNNING:
        return str(pod.status)
    if pod.container is Container.CREATING:
        return "STARTING" if pod.boots else "PROVISIONING"
    return "RUNNING"


def gpu_row(market: Exchange, gpu_type: GpuType, count: int, cloud: Cloud | None, *, with_availability: bool) -> Json:
    secure, community = (gpu_types.list_price(market, gpu_type, each) for each in (Cloud.SECURE, Cloud.COMMUNITY))
    row: Json = {
        "id": gpu_type.id,
        "name": gpu_type.display_name,
        "pool": gpu_type.pool,
        "manufacturer": "NVIDIA",
        "memory": gpu_type.memory_gb,
        "secure": secure is not None,
        "community": community is not None,
        "price": {"secure": number(secure), "community": number(community), "serverless": None},
        "maxCount": {
            "secure": gpu_types.max_gpu_count(market, gpu_type, [Cloud.SECURE]),
            "community": gpu_types.max_gpu_count(market, gpu_type, [Cloud.COMMUNITY]),
        },
    }
    if with_availability:
        machines = gpu_types.machines_of(market, gpu_type)
        places = dict.fromkeys(each.spec.data_center_id for each in machines if each.spec.data_center_id)
        clouds = frozenset(Cloud) if cloud is None else frozenset({cloud})
        row["availability"] = _availability(market, gpu_type, count, Requirements(clouds=clouds))
        row["dataCenters"] = [
            {"id": place, "name": DATA_CENTERS[place][0], "availability": _there(market, gpu_type, count, place)}
            for place in places
        ]
        versions = dict.fromkeys(each.spec.cuda_version for each in machines)
        row["cudaVersions"] = [{"version": version, "available": True} for version in versions]
    return row


def data_center_row(market: Exchange, place: str, *, with_availability: bool) -> Json:
    name, country = DATA_CENTERS[place]
    row: Json = {"id": place, "name": name, "location": country}
    if with_availability:
        row["gpuAvailability"] = [
            {"id": gpu_type.id, "availability": _there(market, gpu_type, 1, place)}
            for gpu_type in gpu_types.gpu_types(market)
        ]
    return row


def seconds(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _there(market: Exchange, gpu_type: GpuType, count: int, place: str) -> str:
    return _availability(market, gpu_type, count, Requirements(data_center_ids=frozenset({place})))


def _availability(market: Exchange, gpu_type: GpuType, count: int, wanted: Requirements) -> str:
    stock = gpu_types.stock(market, gpu_type, wanted, count)
    return "NONE" if stock.on_demand is None else (stock.status or "None").upper()


def _mounts(pod: Pod) -> Json:
    path = f"/{pod.order.mount}"
    if pod.order.network_volume_id is not None:
        return {"network": [{"volumeId": pod.order.network_volume_id, "path": path}]}
    return {"persistent": {"size": pod.order.volume_gb, "path": path}} if pod.order.volume_gb else {}


def _runtime(market: Exchange, machine: Machine, pod: Pod) -> Json | None:
    uptime = uptime_s(market, pod)
    if uptime is None:
        return None
    return {
        "uptime": uptime,
        "gpus": [{"util": 97, "memoryUtil": 61} for _ in range(pod.gpu_count)],
        "cpu": {"util": 12},
        "memory": {"util": 20},
        "ports": [
            {"private": private, "public": public, "type": kind, "ip": ip}
            for private, public, kind, ip in open_ports(machine, pod)
            if kind == "tcp"
        ],
    }


def _direct_login(machine: Machine, pod: Pod) -> Json | None:
    for private, public, kind, ip in open_ports(machine, pod):
        if (private, kind) == (22, "tcp"):
            return _login(ip, public, "root", f"ssh root@{ip} -p {public}")
    return None


def _login(host: str, port: int, username: str, command: str) -> Json:
    return {"host": host, "port": port, "username": username, "command": command}
