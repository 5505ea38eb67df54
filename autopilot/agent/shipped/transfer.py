"""Many parts at once: workers that wait for signed URLs, and what the orders must be asked for next."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .tree import Corrupt

WORKERS = 4
PART_TRIES = 4
RETRY_S = 0.5
URL_WAIT_S, LEAST_URL_WAIT_S = 120.0, 10.0  # market seconds; real ones at the least
NICENESS = 10


class Abandoned(Exception):
    """The transfer was told to end; what it has done is kept."""


def step_aside() -> None:
    """The job comes first: this thread gets what processor it leaves, and a tenth of what it would have beside it; of
    the disk as well, whose scheduler goes by the same. Less would starve uploads beside a job that uses every core.
    On Linux both are the thread's own."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Transfer:
    """Runs ``move(item, url)`` for each ``(item, number)``; ``slot`` answers the newest orders' URLs or None.

    A slot is ``{"first_part", "part_urls", …}``: the URLs of parts ``first_part``, ``first_part + 1``, …
    """

    def __init__(
        self,
        slot: Callable[[], Any],
        ask: Callable[[], None],
        speed: float,
        sign: Callable[[int], str] = lambda number: "",
    ) -> None:
        """``sign`` makes the URL of a part that no orders bring; empty if the machine has no keys to."""
        self.slot, self.ask, self.sign = slot, ask, sign
        self.url_wait_s = max(URL_WAIT_S / speed, LEAST_URL_WAIT_S)
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.waiting: list[tuple[Any, int]] = []
        self.moving: set[int] = set()
        self.failure: Exception | None = None

    def next_part(self) -> int:
        """The lowest number whose URL is still needed."""
        with self.lock:
            return min([*self.moving, *(number for _, number in self.waiting)], default=0)

    def parts_wanted(self) -> int:
        with self.lock:
            return len(self.moving) + len(self.waiting)

    def run(self, items: Iterable[tuple[Any, int]], move: Callable[[Any, Callable[[], str]], None]) -> None:
        """Raises the first failure, once no worker is under way any more."""
        self.waiting = sorted(items, key=lambda pair: -pair[1])
        if not self.waiting:
            return
        workers = [threading.Thread(target=self.work, args=(move,), daemon=True) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self.failure is not None:
            raise self.failure
        if self.stop.is_set():
            raise Abandoned

    def work(self, move: Callable[[Any, Callable[[], str]], None]) -> None:
        step_aside()
        while self.failure is None and not self.stop.is_set():
            with self.lock:
                if not self.waiting:
                    return
                item, number = self.waiting.pop()
                self.moving.add(number)
            try:
                self.attempt(item, number, move)
            except Exception as error:
                self.failure = self.failure or error
            finally:
                with self.lock:
                    self.moving.discard(number)

    def attempt(self, item: Any, number: int, move: Callable[[Any, Callable[[], str]], None]) -> None:
        for tries in range(1, PART_TRIES + 1):
            try:
                return move(item, lambda: self.url(number))
            except (OSError, Corrupt):
                if tries == PART_TRIES or self.failure is not None or self.stop.is_set():
                    raise
                self.ask()
                self.stop.wait(RETRY_S * 2**tries)

    def url(self, number: int) -> str:
        """The newest URL for that part. Raises ``OSError`` when no orders bring one in time."""
        deadline = time.monotonic() + self.url_wait_s
        asked_at = 0.0
        while not self.stop.is_set():
            slot = self.slot()
            if slot and 0 <= number - slot["first_part"] < len(slot["part_urls"]):
                return str(slot["part_urls"][number - slot["first_part"]])
            own = self.sign(number)
            if own:
                return own
            now = time.monotonic()
            if now > deadline:
                raise OSError(f"no orders yet with a URL for part {number}")
            if now - asked_at > 1:
                asked_at = now
                self.ask()
            self.stop.wait(0.05)
        raise Abandoned
