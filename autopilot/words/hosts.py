"""One remembered machine as a row of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from autopilot.answers.hosts import Host
from autopilot.words import text


def cells(host: Host, tell_moment: Callable[[datetime], str]) -> tuple[str, ...]:
    """Market, ID, GPU, launches, failed ones, last fault, pace, loading time, when it was last seen, and its block."""
    return (
        text.plain(host.provider),
        text.plain(host.machine_id),
        text.plain(host.gpu) or text.NONE,
        f"{host.launches:.1f}",
        f"{host.failed:.1f}",
        text.NONE if host.last_fault is None else text.words(host.last_fault),
        text.NONE if host.pace is None else f"{host.pace:.0%}",
        f"{host.loads[-1].seconds:.0f} s" if host.loads else text.NONE,
        tell_moment(host.seen_at),
        "blocked" if host.blocked_at else "",
    )
