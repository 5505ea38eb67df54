"""What the check on arrival has found on a machine, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autopilot.domain.arrival import LACKS, WARNINGS
from autopilot.words import text

_SAID: Mapping[str, Callable[[Any, Any], str]] = {
    "gpus": lambda has, wanted: f"{has} of {wanted} GPUs",
    "gpu_fault": lambda has, _: f"GPU fault: {text.plain(has)}",
    "gpu_memory": lambda has, _: f"{text.percent(float(has))} of a GPU's memory is in use by others",
    "gpu_errors": lambda has, _: f"{has} uncorrected memory errors on its GPUs",
    "throttled": lambda has, _: f"{has} of its GPUs slowed down by heat, power supply or hardware",
    "all_reduce": lambda *_: "its GPUs cannot add up across each other",
    "ram": lambda has, wanted: f"{has:.4g} of {wanted:.4g} GB of memory",
    "disk": lambda has, wanted: (
        f"{has:.4g} GB of disk free, {wanted:.4g} GB needed" if wanted is not None else f"disk fault: {text.plain(has)}"
    ),
    "unreachable": lambda has, _: f"no connection to {text.plain(has)}",
    "slow_disk": lambda has, _: f"its disk writes {has:.4g} MB/s",
    "slow_upload": lambda has, _: f"{has:.4g} Mbps to the store",
    "slow_download": lambda has, _: f"{has:.4g} Mbps from the store",
    "clock": lambda has, _: f"its clock is {abs(has):.0f} s {'fast' if has > 0 else 'slow'}",
    "small_shm": lambda has, _: f"{has:.2g} GB of shared memory (/dev/shm)",
    "without_peer": lambda *_: "its GPUs work together only with NCCL_P2P_DISABLE=1, which the command is given",
    "unreachable_other": lambda has, _: f"no connection to {text.plain(has)}",
}


def tell_finding(kind: str, has: Any, wanted: Any) -> str:
    try:
        return _SAID[kind](has, wanted)
    except (KeyError, TypeError, ValueError):  # recorded by another version
        return text.words(kind)


def tell_findings(fields: Mapping[str, Any]) -> str:
    """All that an event of a check carries, what the machine lacks first; empty: all is well."""
    found = (kind for kind in (*LACKS, *WARNINGS) if kind in fields)
    return ", ".join(tell_finding(kind, fields[kind], fields.get(f"{kind}_wanted")) for kind in found)
