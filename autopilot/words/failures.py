"""What a failed job left, and how to resume it, in words."""

from __future__ import annotations

from autopilot.answers.jobs import Job, NewestCheckpoint
from autopilot.words import starts, text

LINES_SHOWN = 20
"""Last lines of its output."""


def tell(job: Job) -> list[tuple[str, str]]:
    """What to know first of a failed job, each with its label; empty for any other."""
    if job.status != "failed":
        return []
    if job.tasks:
        return [("failed", text.words(job.reason)), ("next step", _tell_way_on(job))]
    return [
        ("failed", text.words(job.reason)),
        *([("start", starts.tell(job.failed_start))] if job.failed_start else []),
        ("exit code", "none: no run of its command has ended" if job.exit_code is None else str(job.exit_code)),
        ("checkpoint", _tell_checkpoint(job.checkpoint)),
        ("next step", _tell_way_on(job)),
    ]


def _tell_checkpoint(checkpoint: NewestCheckpoint | None) -> str:
    if checkpoint is None:
        return "none: its work is lost"
    doubt = ", suspect: it may be torn" if checkpoint.state == "suspect" else ""
    return f"number {checkpoint.number} at step {checkpoint.step}, in the store{doubt}"


def _tell_way_on(job: Job) -> str:
    """Only a task of an array is begun again; any other job that is over stays over."""
    name, checkpoint = text.plain(job.name), job.checkpoint
    if job.tasks:
        return f"autopilot retry {name} --failed restarts its failed tasks, each from its newest checkpoint"
    if job.array is not None:
        start = "the beginning" if checkpoint is None else f"checkpoint {checkpoint.number}"
        return f"autopilot retry {name} restarts it from {start}"
    kept = "" if checkpoint is None else "; a new job does not read this one's checkpoint"
    return f"fix the cause, then autopilot submit its file again: it starts from the beginning{kept}"
