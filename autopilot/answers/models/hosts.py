"""What is asked about machines that are remembered."""

from __future__ import annotations

from autopilot.answers.models.base import Query


class HostsQuery(Query):
    provider: str | None = None
