"""What the market tells this machine before it takes it away, and what the agent is told of that. Pure."""

from __future__ import annotations

import calendar
import time
from datetime import datetime
from typing import Any

WINDOW_S = 300.0
"""Assumed for a notice that does not say when it ends."""
LATE_S, FAR_S = 60.0, 3600.0
"""An end further in the past, or in the future, is none."""
STOP_BEFORE_S = 25.0
"""The container is stopped so long before the end: until then the notice may be withdrawn."""
LAST_GRACE_S = 20
"""Of these seconds, the agent has this many to save."""
STOP_GRACE_S = 48
"""What it has when the machine itself shuts down, within the shortest minute that any market gives."""


class Signal:
    """The market's file. ``read`` is called again and again; times are wall-clock seconds, ``speed`` how many market
    seconds pass in one."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.text = ""
        self.notice: dict[str, Any] | None = None
        self.ends_at = 0.0

    def read(self, text: str | None, now: float) -> bool:
        """Whether something else is to be told to the agent than before."""
        if text is None:
            was_there, self.notice, self.text = self.notice is not None, None, ""
            return was_there
        if self.notice is not None and text == self.text:
            return False
        before, self.text = self.notice, text
        said = dict(_pair(line) for line in text.splitlines() if ":" in line)
        words = f"{said.get('instance_status', '')} {said.get('bid_status', '')}".upper()
        ends_at = _instant(said.get("end_time", ""))
        if ends_at is None or not -LATE_S <= (ends_at - now) * self.speed <= FAR_S:
            ends_at = self.ends_at if before else now + WINDOW_S / self.speed
        self.ends_at = ends_at
        self.notice = notice("relocate" if "RELOCATING" in words else "preempt", ends_at, soft=True)
        return self.notice != before

    def is_due(self, now: float) -> bool:
        """Whether the container is to be stopped now."""
        return self.notice is not None and (self.ends_at - now) * self.speed <= STOP_BEFORE_S


def notice(kind: str, ends_at: float, soft: bool, grace_s: float = 0) -> dict[str, Any]:
    """As the agent reads it. ``grace_s``: market seconds that it has to save and end; 0 while it may go on."""
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends_at))
    return {"kind": kind, "ends_at": text, "soft": soft, "grace_s": grace_s}


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip().strip("'\"")


def _instant(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return calendar.timegm(found.utctimetuple()) + found.microsecond / 1e6
    except (ValueError, OverflowError):
        return None
