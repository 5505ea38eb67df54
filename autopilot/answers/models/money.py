"""What is asked about money and prices."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from autopilot.answers.models.base import Query
from autopilot.domain.spend import SpendKey


class MonthQuery(Query):
    month: str | None = None
    """``2026-11``; the present one."""


class SpendQuery(Query):
    by: SpendKey | Annotated[str, Field(pattern=r"^tag:[A-Za-z0-9_-]{1,40}$")] = "month"
    """A key, or ``tag:project``: a tag of the job files."""
    month: str | None = None
    since: str | None = None
    """The first day, ``2026-11-30``."""
    until: str | None = None
    """The last day."""
    zone: str = "UTC"


class PricesQuery(Query):
    gpu: str = ""
    since: str | None = None
    """An instant, or an age like ``7d``."""
    until: str | None = None
    provider: str | None = None
    steps: int = Field(default=60, ge=1, le=1000)
