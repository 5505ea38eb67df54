"""Where the objects of the mailbox lie: everything of a lease beneath ``jobs/<job>/<lease>/``."""

from __future__ import annotations

import re

_LEASE = "[0-9A-Za-z_-]{1,64}"


def lease_prefix(job_id: str, lease_id: str) -> str:
    return f"jobs/{job_id}/{lease_id}"


def orders_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/orders.json"


def heartbeat_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/heartbeat.json"


def exit_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/exit.json"


def host_key(job_id: str, lease_id: str) -> str:
    """Where a virtual machine says how far its boot has come."""
    return f"{lease_prefix(job_id, lease_id)}/host.json"


def registry_login_key(job_id: str, lease_id: str) -> str:
    """Where a virtual machine finds the login to pull its image with, for as long as it needs that."""
    return f"{lease_prefix(job_id, lease_id)}/registry.json"


def arrival_key(job_id: str, lease_id: str) -> str:
    """What a machine sends and fetches again, once, to measure how fast the store is from there."""
    return f"{lease_prefix(job_id, lease_id)}/arrival/part-0"


def exec_key(job_id: str, lease_id: str, call_id: str) -> str:
    """Where the machine answers one command of the user's."""
    return f"{lease_prefix(job_id, lease_id)}/exec/{call_id}"


def log_key(job_id: str, lease_id: str, boot: int, number: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/log/{boot}-{number}"


def log_prefix(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/log"


def log_note_key(job_id: str, lease_id: str) -> str:
    """The daemon's own note of what is there of a lease's output."""
    return f"jobs/{job_id}/verified/{lease_id}.log.json"


def parse_log_key(job_id: str, key: str) -> tuple[str, int, int] | None:
    """(lease, boot, number) of one of the job's; None for anything else."""
    found = re.fullmatch(re.escape(f"jobs/{job_id}/") + r"([^/]+)/log/(\d{1,9})-(\d{1,9})", key, re.ASCII)
    return (found[1], int(found[2]), int(found[3])) if found else None


def part_key(job_id: str, lease_id: str, number: int, i: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/ckpt/{number}/part-{i}"


def verified_key(job_id: str, lease_id: str, number: int) -> str:
    """The daemon's own copy of a manifest that it has verified: no machine may write there."""
    return f"jobs/{job_id}/verified/{lease_id}.{number}.json"


def verified_prefix(job_id: str) -> str:
    """What the daemon itself keeps of a job's checkpoints and machines: no machine may write there."""
    return f"jobs/{job_id}/verified"


def rental_key(job_id: str, lease_id: str) -> str:
    """The daemon's own note of a machine: where, on what terms and under which run epoch it was rented."""
    return f"{verified_prefix(job_id)}/{lease_id}.rental.json"


def parse_rental_key(job_id: str, key: str) -> str | None:
    """The lease that a note of the job's is about; None for anything else."""
    found = re.fullmatch(re.escape(f"{verified_prefix(job_id)}/") + rf"({_LEASE})\.rental\.json", key, re.ASCII)
    return found[1] if found else None


def parse_manifest_key(job_id: str, key: str) -> tuple[str, int, bool] | None:
    """(lease, number, whether it is the daemon's own copy) of a manifest of the job's; None for anything else."""
    written = re.fullmatch(re.escape(f"jobs/{job_id}/") + rf"({_LEASE})/ckpt/(\d{{1,9}})/manifest\.json", key, re.ASCII)
    copied = re.fullmatch(re.escape(f"{verified_prefix(job_id)}/") + rf"({_LEASE})\.(\d{{1,9}})\.json", key, re.ASCII)
    found = written or copied
    return (found[1], int(found[2]), found is copied) if found else None


def code_prefix(copy_id: str) -> str:
    """Where a copy of somebody's code lies: its index and parts. No machine may write there."""
    return f"code/{copy_id}"


def code_key(copy_id: str, i: int) -> str:
    """Key of its index (0), or of the part that the index names as number ``i``, from 1."""
    return f"{code_prefix(copy_id)}/part-{i}"


def outputs_prefix(job_id: str, lease_id: str, run_epoch: int) -> str:
    """Where a run that has ended well leaves its outputs: parts and manifest, as a checkpoint does."""
    return f"{lease_prefix(job_id, lease_id)}/out/{run_epoch}"


def verified_outputs_key(job_id: str) -> str:
    """The daemon's own copy of their manifest."""
    return f"jobs/{job_id}/verified/outputs.json"


def is_bulk(key: str) -> bool:
    """A part of a checkpoint, of outputs or of code: what may be large. Orders and reports must not wait behind it."""
    return key.rpartition("/")[2].startswith("part-")


def manifest_key(job_id: str, lease_id: str, number: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/ckpt/{number}/manifest.json"
