"""*Hosts*: what is remembered of machines, over all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autopilot.web import words
from autopilot.web.source import PageSource
from autopilot.words import hosts

SHOWN = 200


@dataclass(frozen=True)
class HostsPage:
    now: datetime
    newest_at: datetime | None
    rows: list[tuple[str, ...]]
    """As of ``words.hosts.cells``, those last seen first."""
    hidden: int
    """Machines beyond those that are listed."""


async def build(source: PageSource) -> HostsPage:
    listed = await source.list_hosts()
    rows = [hosts.cells(each, words.minute) for each in listed[:SHOWN]]
    return HostsPage(source.now, source.newest_at, rows, len(listed[SHOWN:]))
