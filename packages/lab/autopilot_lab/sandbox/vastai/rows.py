"""Rows as the provider shows them: offers and instances. Money leaves here as JSON numbers in dollars."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from autopilot_lab.sandbox.market.exchange import Ask
from autopilot_lab.sandbox.market.instances import Container, Contract
from autopilot_lab.sandbox.market.machines import MachineSpec
from autopilot_lab.sandbox.market.market import SandboxMarket
from autopilot_lab.sandbox.market.metering import DOWN, GPU, UP
from autopilot_lab.sandbox.units import HOURS_PER_STORAGE_MONTH
from autopilot_lab.sandbox.vastai.hosts import driver_number
from autopilot_lab.sandbox.vastai.replies import Json

PORTS_LAG = timedelta(seconds=3)
"""The port map shows up this long after the container runs."""

LEAST_SAME_PORT = 70_000
"""A port from here on asks for one that is the same inside and outside."""
_SSH = 22


def offer_row(ask: Ask, *, is_bid: bool, storage_gb: Decimal, tenant_holds: bool, now: datetime) -> Json:
    spec, count = ask.machine.spec, len(ask.chunk)
    base = ask.min_bid if is_bid else ask.on_demand
    disk_hour = spec.storage_cost * storage_gb / HOURS_PER_STORAGE_MONTH
    return {
        **hardware(spec, count),
        **_prices(base, disk_hour, gpu_runs=False),
        **_performance(spec, count, base, storage_gb),
        "id": ask.offer_id,
        "ask_contract_id": ask.offer_id,
        "bundle_id": spec.machine_id * 10 + count,
        "bundled_results": None,
        "hostname": None,
        "gpu_ids": list(ask.chunk),
        "gpu_total_ram": spec.gpu_ram_mb * count,
        "dph_total_adj": float(base + disk_hour),
        "discounted_dph_total": float(base + disk_hour),
        "gpu_max_power": 450.0,
        "gpu_max_temp": 91.0,
        "gpu_display_active": False,
        "driver_vers": driver_number(spec.driver_version),
        "cpu_ghz": 3.5,
        "has_avx": 1,
        "disk_space": spec.disk_gb * count / spec.gpu_count,
        "nw_disk_min_bw": None,
        "nw_disk_max_bw": None,
        "nw_disk_avg_bw": None,
        "internet_up_cost_per_tb": float(spec.inet_up_cost * 1000),
        "internet_down_cost_per_tb": float(spec.inet_down_cost * 1000),
        "public_ipaddr": f"{spec.public_ipaddr}\n",
        "geolocode": int(hashlib.sha256(spec.geolocation.encode()).hexdigest()[:7], 16),
        "reliability": spec.reliability,
        "expected_reliability": spec.reliability,
        "reliability_mult": spec.reliability,
        "verified": None,
        "vericode": 1 if spec.verified else 0,
        "rentable": ask.rentable,
        "rented": tenant_holds,
        "rn": 1,
        "is_bid": is_bid,
        "start_date": (spec.end_date - timedelta(days=90)).timestamp(),
        "end_date": spec.end_date.timestamp(),
        "duration": (spec.end_date - now).total_seconds(),
        "time_remaining": "",
        "time_remaining_isbid": "",
        "min_bid": float(ask.min_bid),
        "cluster_id": None,
        "discount_rate": 0.0,
        "discounted_hourly": 0.0,
        "avail_vol_ask_id": None,
        "avail_vol_dph": None,
        "avail_vol_size": None,
        "pending_count": 0,
        "inet_up_billed": None,
        "inet_down_billed": None,
    }


def disk_only_row(gpu_row: Json) -> Json:
    """A row of the kind that real listings contain and parsers trip over: storage without any GPU."""
    nothing = {"num_gpus": 0, "gpu_name": "N/A", "gpu_ids": [], "gpu_frac": 0.0, "gpu_ram": 0, "gpu_total_ram": 0}
    unknown = dict.fromkeys(("min_bid", "cpu_cores", "cpu_cores_effective", "vram_costperhour", "dlperf_per_dphtotal"))
    storage = gpu_row["storage_total_cost"]
    price = {"dph_base": 0.0, "dph_total": storage, "dlperf": 0.0, "total_flops": 0.0, "score": 0.0}
    offer_id = int(str(gpu_row["id"])) + 1_000_000
    return {**gpu_row, **nothing, **unknown, **price, "resource_type": "disk", "id": offer_id}


def instance_row(market: SandboxMarket, instance: Contract) -> Json:
    spec, count, order = market.machines[instance.machine_id].spec, len(instance.gpu_ids), instance.order
    actual = market.actual_status(instance)
    running = actual == "running" and instance.container is Container.RUNNING
    provisioned = instance.actual is not None
    disk_hour = Decimal(instance.storage_rate.numerator) / Decimal(instance.storage_rate.denominator)
    return {
        **hardware(spec, count),
        **_prices(instance.price, disk_hour, gpu_runs=instance.meter.running(GPU)),
        **_performance(spec, count, instance.price, order.disk_gb),
        "id": instance.id,
        "bundle_id": spec.machine_id * 10 + count,
        "label": None if "list-shows-label" in market.broken else instance.label,
        "is_bid": instance.is_bid,
        "min_bid": float(market.echoed_bid(instance)),
        "gpu_totalram": spec.gpu_ram_mb * count,
        "actual_status": actual,
        "intended_status": instance.intended,
        "cur_state": instance.cur_state,
        "next_state": instance.next_state,
        "status_msg": instance.status_msg,
        "image_uuid": order.image,
        "image_args": list(order.args),
        "image_runtype": order.runtype,
        "extra_env": [list(pair) for pair in order.env],
        "onstart": order.onstart,
        "jupyter_token": hashlib.sha256(instance.api_key.encode()).hexdigest(),
        "template_id": None,
        "template_hash_id": None,
        "template_name": None,
        "ssh_host": instance.ssh_host or f"ssh{instance.proxy}.vast.ai",
        "ssh_idx": str(instance.proxy),
        "ssh_port": instance.ssh_port or 10_000 + (instance.id + instance.boots) % 50_000,
        "machine_dir_ssh_port": 21_000,
        "public_ipaddr": spec.public_ipaddr if provisioned else None,
        "local_ipaddrs": "10.2.202.31 172.17.0.1 \n",
        "ports": _ports(instance, market.now) if running else ({} if actual in ("loading", "created") else None),
        "direct_port_start": -1,
        "direct_port_end": -1,
        "start_date": instance.created_at.timestamp() if provisioned else None,
        "end_date": instance.end_date.timestamp(),
        "duration": max((instance.end_date - market.now).total_seconds(), 0.0),
        "uptime_mins": None,
        "client_run_time": 1.1,
        "host_run_time": 2_592_000.0,
        "time_remaining": "",
        "time_remaining_isbid": "",
        "rentable": True,
        "cpu_util": 0.41 if running else 0.0,
        "mem_limit": spec.cpu_ram_mb * count / spec.gpu_count / 1000,
        "mem_usage": 18.4 if running else None,
        "vmem_usage": 21.2 if running else None,
        "gpu_util": 97.0 if running else (0.0 if instance.container is Container.EXITED else None),
        "gpu_temp": 67.0 if running else None,
        "disk_space": float(order.disk_gb),
        "disk_util": 0.31 if instance.boots else -1,
        "disk_usage": 0.31 if instance.boots else -1,
        "inet_up_billed": float(instance.meter.transferred_gb(UP) * 1000) if provisioned else None,
        "inet_down_billed": float(instance.meter.transferred_gb(DOWN) * 1000) if provisioned else None,
        "credit_balance": None,
        "credit_discount": None,
        "volume_info": [],
    }


@lru_cache(maxsize=4096)
def hardware(spec: MachineSpec, count: int) -> Json:
    """The columns that never change, of ``count`` of its GPUs. Searches look at these first. Not to be changed."""
    return {
        "machine_id": spec.machine_id,
        "host_id": spec.host_id,
        "hosting_type": int(spec.datacenter),
        "external": None,
        "resource_type": "gpu",
        "num_gpus": count,
        "gpu_name": spec.gpu_name,
        "gpu_arch": "nvidia",
        "gpu_frac": count / spec.gpu_count,
        "gpu_ram": spec.gpu_ram_mb,
        "gpu_mem_bw": spec.gpu_mem_bw,
        "gpu_lanes": 16,
        "compute_cap": spec.compute_cap,
        "bw_nvlink": 0.0,
        "driver_version": spec.driver_version,
        "cuda_max_good": spec.cuda_max_good,
        "cpu_name": spec.cpu_name,
        "cpu_arch": spec.cpu_arch,
        "cpu_cores": spec.cpu_cores,
        "cpu_cores_effective": spec.cpu_cores * count / spec.gpu_count,
        "cpu_ram": spec.cpu_ram_mb,
        "mobo_name": "ROMED8-2T",
        "os_version": "22.04",
        "pci_gen": 4.0,
        "pcie_bw": 25.4,
        "disk_name": spec.disk_name,
        "disk_bw": spec.disk_bw,
        "inet_up": spec.inet_up_mbps,
        "inet_down": spec.inet_down_mbps,
        "inet_up_cost": float(spec.inet_up_cost),
        "inet_down_cost": float(spec.inet_down_cost),
        "static_ip": True,
        "direct_port_count": 124 * count,
        "geolocation": spec.geolocation,
        "reliability2": spec.reliability,
        "verification": "verified" if spec.verified else "unverified",
        "is_vm_deverified": False,
        "vms_enabled": False,
        "storage_cost": float(spec.storage_cost),
        "credit_discount_max": 0.4,
        "logo": "/static/logos/vastai_small2.png",
        "webpage": None,
    }


def _prices(base: Decimal, disk_hour: Decimal, *, gpu_runs: bool) -> Json:
    total = base + disk_hour
    burn = total if gpu_runs else disk_hour
    return {
        "dph_base": float(base),
        "storage_total_cost": float(disk_hour),
        "dph_total": float(total),
        "search": {
            "gpuCostPerHour": float(base),
            "diskHour": float(disk_hour),
            "totalHour": float(total),
            "discountTotalHour": 0.0,
            "discountedTotalPerHour": float(total),
        },
        "instance": {
            "gpuCostPerHour": float(base) if gpu_runs else 0,
            "diskHour": float(disk_hour),
            "totalHour": float(burn),
            "discountTotalHour": 0.0,
            "discountedTotalPerHour": float(burn),
        },
    }


def _performance(spec: MachineSpec, count: int, base: Decimal, storage_gb: Decimal) -> Json:
    total = float(base + spec.storage_cost * storage_gb / HOURS_PER_STORAGE_MONTH)
    dlperf, tflops = spec.dlperf_per_gpu * count, spec.tflops_per_gpu * count
    return {
        "total_flops": tflops,
        "dlperf": dlperf,
        "dlperf_per_dphtotal": dlperf / total,
        "flops_per_dphtotal": tflops / total,
        "vram_costperhour": float(base) / (spec.gpu_ram_mb * count),
        "score": round(dlperf / total * spec.reliability, 1),
    }


def _ports(instance: Contract, now: datetime) -> Json:
    if instance.ran_at is None or now - instance.ran_at < PORTS_LAG:
        return {}
    return {
        f"{inside if inside < LEAST_SAME_PORT else outside}/tcp": [
            {"HostIp": address, "HostPort": str(outside)}
            for address in ("0.0.0.0", "::")  # noqa: S104
        ]
        for inside, outside in open_ports(instance)
        if inside != _SSH or instance.ssh_port is None  # one that can be logged in to has the proxy's address alone
    }


def open_ports(instance: Contract) -> list[tuple[int, int]]:
    """Ports inside, as they were asked for, and outside; other ones after each boot."""
    first = 40_000 + (instance.id + 7 * instance.boots) % 20_000
    asked = [key.split()[1].split(":")[-1] for key, _ in instance.order.env if key.startswith("-p ")]
    inside = [_SSH, *(int(port) for port in asked if port.isascii() and port.isdigit())]
    return [(port, first + index) for index, port in enumerate(inside)]
