"""The job's output and the agent's own words, on their way to the mailbox in numbered chunks."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

LOG_CHUNK_BYTES, LOG_BUFFER_BYTES = 256 << 10, 8 << 20


class Log:
    def __init__(self, boot: int) -> None:
        self.boot, self.sent_n = boot, 0
        self.task = self.sent_task = ""  # whose output comes now, and whose chunks ``sent_n`` counts
        self.buffer, self.chunk = bytearray(), b""
        self.problems: dict[str, str] = {}
        self.lock, self.ship_lock = threading.Lock(), threading.Lock()

    def say(self, text: str) -> None:
        self.add(f"autopilot: {text}\n".encode())

    def trouble(self, where: str, text: str) -> None:
        """Said once, and again when it changes; in the heartbeats until ``solved``."""
        if self.problems.get(where) != text:
            self.problems[where] = text
            self.say(f"{where}: {text}")

    def resolve(self, where: str) -> None:
        self.problems.pop(where, None)

    def error(self) -> str:
        return "; ".join(list(self.problems.values()))[:500]

    def add(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the console is a courtesy
            os.write(1, data)
        with self.lock:
            self.buffer += data
            del self.buffer[: max(0, len(self.buffer) - LOG_BUFFER_BYTES)]

    @property
    def next_n(self) -> int:
        """The number of the chunk that is sent next."""
        return self.sent_n if self.task == self.sent_task else 0

    def begin(self, task: str) -> None:
        """What comes from now on is that task's. What the one before has not sent is dropped: it must not be mixed."""
        with self.lock:
            if self.task and task != self.task:
                self.buffer.clear()
            self.task = task

    def ship(self, task: str, slots: list[dict[str, Any]], put: Callable[[str, bytes], None]) -> None:
        """``task``: whose slots they are. Raises ``OSError``."""
        with self.ship_lock:
            if self.sent_task != self.task:
                self.sent_task, self.sent_n, self.chunk = self.task, 0, b""
            for slot in slots:
                if not task == self.task == self.sent_task:
                    return
                if (slot["boot"], slot["n"]) != (self.boot, self.sent_n):
                    continue
                if not self.chunk:  # a chunk once begun keeps its content until it has arrived
                    with self.lock:
                        self.chunk = bytes(self.buffer[:LOG_CHUNK_BYTES])
                        del self.buffer[: len(self.chunk)]
                if not self.chunk:
                    return
                put(slot["url"], self.chunk)
                self.chunk = b""
                self.sent_n += 1
