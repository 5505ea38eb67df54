"""What vast.ai's rows state of a host, under the names that they have there."""

from __future__ import annotations

from autopilot_lab.sandbox.host_traits import HostTraits
from autopilot_lab.sandbox.vastai.replies import Json


def tell_host(traits: HostTraits, share: float = 1.0) -> Json:
    """``share``: of the host's GPUs that are offered; processors come with them, memory is told of the whole host."""
    return {
        "compute_cap": traits.compute_cap,
        "driver_version": traits.driver,
        "driver_vers": driver_number(traits.driver),
        "cuda_max_good": float(traits.cuda),
        "cpu_arch": traits.arch,
        "cpu_cores": traits.cpus,
        "cpu_cores_effective": traits.cpus * share,
        "cpu_ram": traits.ram_gb * 1000,
        "disk_bw": traits.disk_mb_s,
        "inet_up": traits.upload_mbps,
        "inet_down": traits.download_mbps,
        "geolocation": f"{traits.region}, {traits.country}",
        "reliability": traits.reliability,
        "reliability2": traits.reliability,
    }


def driver_number(version: str) -> int:
    """580.95.05 is 580095005."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major * 1_000_000 + minor * 1_000 + patch
