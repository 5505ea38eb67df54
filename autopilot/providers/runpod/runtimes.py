"""Tells apart a pod that boots, one whose telemetry has a gap, and one whose host is lost.

All three are meant to run and show no runtime; the market drops it for moments while a pod goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from autopilot.providers.runpod.wire import PodRow

BOOT_ALLOWANCE = timedelta(hours=1)
"""A pod that was started longer ago than this has had a runtime, even if none was observed."""
UP = timedelta(0)

Start = tuple[str, datetime | None]


class Runtimes:
    def __init__(self) -> None:
        self._silent_since: dict[Start, datetime | None] = {}
        """Starts after which a runtime was seen; None while it is there."""

    def silence(self, pod: PodRow, now: datetime) -> timedelta | None:
        """For how long a running pod's runtime has been missing; None when there was none since it was started."""
        start = pod.pod_id, pod.started_at
        if pod.is_up is not False:
            self._silent_since[start] = None
            return UP
        is_old = pod.started_at is not None and now - pod.started_at >= BOOT_ALLOWANCE
        if start not in self._silent_since and not is_old:
            return None
        since = self._silent_since.get(start) or now
        self._silent_since[start] = since
        return now - since

    def forget_others(self, pods: Iterable[PodRow]) -> None:
        """These are all that there are."""
        starts = {(pod.pod_id, pod.started_at) for pod in pods}
        self._silent_since = {start: since for start, since in self._silent_since.items() if start in starts}
