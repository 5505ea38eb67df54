"""The job's output and the agent's own words, on their way to the mailbox in numbered chunks."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

LOG_CHUNK_BYTES, LOG_BUFFER_BYTES = 256 << 10, 8 << 20
LINE_BYTES = 4096  # so far the end of a line is looked for where output is cut
KEPT_SLOTS = 2  # of those in the orders: for the end of the output, when there is no time to be given others


class Log:
    def __init__(self, boot: int) -> None:
        self.boot, self.sent_n = boot, 0
        self.task = self.sent_task = ""  # whose output comes now, and whose chunks ``sent_n`` counts
        self.buffer, self.chunk = bytearray(), b""
        self.cut_bytes, self.is_line_open = 0, False  # before what waits; whether what was sent ends within a line
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
            self.cut(LOG_BUFFER_BYTES)

    def cut(self, most_bytes: int) -> None:
        """Drop the oldest of what waits, up to the end of a line: its beginning was sent, its end stays."""
        too_many = len(self.buffer) - max(most_bytes, 0)
        if too_many > 0:
            line_end = self.buffer.find(b"\n", too_many, too_many + LINE_BYTES) + 1
            self.cut_bytes += line_end or too_many
            del self.buffer[: line_end or too_many]

    @property
    def is_all_sent(self) -> bool:
        return not self.buffer and not self.chunk

    @property
    def has_much(self) -> bool:
        """More waits than one chunk holds."""
        return len(self.buffer) >= LOG_CHUNK_BYTES

    @property
    def next_n(self) -> int:
        """The number of the chunk that is sent next."""
        return self.sent_n if self.task == self.sent_task else 0

    def begin(self, task: str) -> None:
        """What comes from now on is that task's. What the one before has not sent is dropped: it must not be mixed."""
        with self.lock:
            if self.task and task != self.task:
                self.buffer.clear()
                self.cut_bytes = 0
            self.task = task

    def ship(
        self, task: str, slots: list[dict[str, Any]], put: Callable[[str, bytes], None], is_last: bool = False
    ) -> None:
        """``task``: whose slots they are. ``is_last``: no others will come, so what they do not hold is cut.

        Raises ``OSError``.
        """
        with self.ship_lock:
            if self.sent_task != self.task:
                self.sent_task, self.sent_n, self.chunk, self.is_line_open = self.task, 0, b"", False
            if is_last:
                free = sum(slot["boot"] == self.boot and slot["n"] >= self.sent_n for slot in slots)
                with self.lock:
                    self.cut(free * LOG_CHUNK_BYTES - max(len(self.chunk), LINE_BYTES))
            for slot in slots if is_last else slots[:-KEPT_SLOTS]:
                if not task == self.task == self.sent_task:
                    return
                if (slot["boot"], slot["n"]) != (self.boot, self.sent_n):
                    continue
                if not self.chunk:  # a chunk once begun keeps its content until it has arrived
                    self.chunk = self.next_chunk()
                if not self.chunk:
                    return
                put(slot["url"], self.chunk)
                self.chunk = b""
                self.sent_n += 1

    def next_chunk(self) -> bytes:
        with self.lock:
            cut = b""
            if self.cut_bytes:
                text = f"{self.cut_bytes // 1000 + 1} kB of output were cut here: more came than could be sent"
                cut = b"\n" * self.is_line_open + f"autopilot: {text}\n".encode()
                self.cut_bytes = 0
            size = LOG_CHUNK_BYTES - len(cut)
            chunk = cut + bytes(self.buffer[:size])
            del self.buffer[:size]
            self.is_line_open = bool(chunk) and not chunk.endswith(b"\n")
            return chunk
