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
        self.boot, self.next_n = boot, 0
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

    def ship(self, slots: list[dict[str, Any]], put: Callable[[str, bytes], None]) -> None:
        """Raises ``OSError``."""
        with self.ship_lock:
            for slot in slots:
                if (slot["boot"], slot["n"]) != (self.boot, self.next_n):
                    continue
                if not self.chunk:  # a chunk once begun keeps its content until it has arrived
                    with self.lock:
                        self.chunk = bytes(self.buffer[:LOG_CHUNK_BYTES])
                        del self.buffer[: len(self.chunk)]
                if not self.chunk:
                    return
                put(slot["url"], self.chunk)
                self.chunk = b""
                self.next_n += 1
