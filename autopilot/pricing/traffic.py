"""What a machine receives and sends in its life, in gigabytes, as far as it is known before it is rented."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.money import BYTES_PER_GB, ZERO
from autopilot.domain.params import Params


def received_gb(job: Job, params: Params) -> Decimal:
    """Until the command runs: image, code, inputs, newest checkpoint."""
    code_gb = Decimal(job.code.size_bytes + job.code.index_bytes) / BYTES_PER_GB
    return params.traffic.image_gb + code_gb + job.spec.inputs_gb + _checkpoint_gb(job)


def largest_upload_gb(job: Job, params: Params) -> Decimal:
    """The most that is sent in one go: a checkpoint with its logs, or the outputs."""
    return max(params.traffic.upload_gb, _checkpoint_gb(job), job.spec.outputs_gb)


def sent_gb(job: Job, params: Params) -> Decimal:
    """Expected of a machine on which the job ends: checkpoints, logs, outputs."""
    return max(params.traffic.upload_gb, _checkpoint_gb(job)) + job.spec.outputs_gb


def _checkpoint_gb(job: Job) -> Decimal:
    return Decimal(job.checkpoint.size_bytes) / BYTES_PER_GB if job.checkpoint else ZERO
