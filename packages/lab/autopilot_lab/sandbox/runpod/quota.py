"""Rate limits of REST v2, on the market's clock: calls per key in fixed windows of a minute, an hour and a day."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from autopilot_lab.sandbox.runpod.injected_faults import too_many_requests

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Window:
    name: str
    quota: int
    length_s: int


WINDOWS = (Window("minute", 60, 60), Window("hour", 3000, 3600), Window("day", 50_000, 86_400))
POLICY = ", ".join(f'"{window.name}";q={window.quota};w={window.length_s}' for window in WINDOWS)


class Quota:
    def __init__(self, *, enforced: bool) -> None:
        self._enforced = enforced
        self._used: Counter[tuple[str, str, int]] = Counter()

    def take(self, key: str, now: datetime) -> Window | None:
        """Count a call; the window that has no room for it, if one has not."""
        for window in WINDOWS:
            if self._enforced and self._count_left(window, key, now) <= 0:
                return window
        for window in WINDOWS:
            self._used[self._slot(window, key, now)] += 1
        return None

    def headers(self, key: str, now: datetime) -> dict[str, str]:
        rest = ", ".join(
            f'"{window.name}";r={max(self._count_left(window, key, now), 0)};t={self._reset_s(window, now)}'
            for window in WINDOWS
        )
        return {"RateLimit": rest, "RateLimit-Policy": POLICY}

    def refusal(self, window: Window, now: datetime) -> web.Response:
        return too_many_requests(window.name, self._reset_s(window, now))

    def _count_left(self, window: Window, key: str, now: datetime) -> int:
        return window.quota - self._used[self._slot(window, key, now)]

    def _slot(self, window: Window, key: str, now: datetime) -> tuple[str, str, int]:
        return key, window.name, int((now - _EPOCH).total_seconds()) // window.length_s

    def _reset_s(self, window: Window, now: datetime) -> int:
        return window.length_s - int((now - _EPOCH).total_seconds()) % window.length_s
