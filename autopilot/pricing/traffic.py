"""What a machine receives and sends in its life, in gigabytes, as far as it is known before it is rented."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.money import BYTES_PER_GB, ZERO
from autopilot.domain.params import Params

MEGABITS_PER_GB = 8000


def received_gb(job: Job, params: Params) -> Decimal:
    """Until the command runs: image, code, inputs, newest checkpoint."""
    return params.traffic.image_gb + job.spec.inputs_gb + _stored_gb(job)


def home_s(job: Job, params: Params) -> float:
    """Seconds until a machine has code and newest checkpoint over the daemon's own line, where they come over that."""
    mbps = params.traffic.home_mbps
    return 0.0 if mbps is None else float(_stored_gb(job) * MEGABITS_PER_GB / mbps)


def restart_s(job: Job, params: Params) -> float:
    """Seconds from a create to the command running, with transfers, on a machine that is not chosen yet."""
    return params.timing.setup_s + home_s(job, params)


def largest_upload_gb(job: Job, params: Params) -> Decimal:
    """The most that is sent in one go: a checkpoint with its logs, or the outputs."""
    return max(params.traffic.upload_gb, _checkpoint_gb(job), job.spec.outputs_gb)


def sent_gb(job: Job, params: Params) -> Decimal:
    """Expected of a machine on which the job ends: checkpoints, logs, outputs."""
    return max(params.traffic.upload_gb, _checkpoint_gb(job)) + job.spec.outputs_gb


def _stored_gb(job: Job) -> Decimal:
    """What a new machine gets out of the store."""
    return Decimal(job.code.size_bytes + job.code.index_bytes) / BYTES_PER_GB + _checkpoint_gb(job)


def _checkpoint_gb(job: Job) -> Decimal:
    return Decimal(job.checkpoint.size_bytes) / BYTES_PER_GB if job.checkpoint else ZERO
