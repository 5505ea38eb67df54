"""What is asked about offers."""

from __future__ import annotations

from autopilot.answers.models.base import Asked


class OffersBody(Asked):
    """A job file, or a GPU and a disk."""

    toml: str | None = None
    source: str = ""
    gpu: str = ""
    """``RTX 4090:1``, or several as in a job file: ``4090 | A100 80GB:2``."""
    disk_gb: int = 20
