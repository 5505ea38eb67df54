"""What a program prints, line by line while it does: when each line came tells which step a save is of."""

from __future__ import annotations

import re
from pathlib import Path

from autopilot.rehearsal.lines import PrintedLine

AGENT_LINE = "autopilot: "
BLOCK = 1 << 20
LINE_CHARS = 2000
FIRST_LINES, LAST_LINES = 20_000, 20_000
"""Of one run; those between them are dropped, for a program may print without end."""
TAIL_CHARS = 2000


class Printed:
    """From the end that the file has now. Its agent's own lines are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = path.stat().st_size if path.exists() else 0
        self.rest = ""
        self.lines: list[PrintedLine] = []
        self.bytes = 0

    def read(self, now: float, *, is_last: bool = False) -> None:
        """``now``: seconds of the wall clock. One block, or all that there is."""
        while data := self.read_block():
            *lines, self.rest = re.split(r"[\r\n]", self.rest + data.decode("utf-8", "replace"))
            self.rest = self.rest[-LINE_CHARS:]
            self.keep(now, lines)
            if not is_last:
                return
        if is_last and self.rest:
            self.keep(now, [self.rest])
            self.rest = ""

    def read_block(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(BLOCK)
        except OSError:
            return b""
        self.offset += len(data)
        return data

    def keep(self, now: float, lines: list[str]) -> None:
        own = [line for line in lines if line and not line.startswith(AGENT_LINE)]
        self.bytes += sum(len(line) + 1 for line in own)
        self.lines += [PrintedLine(now, line[:LINE_CHARS]) for line in own]
        if len(self.lines) > 2 * (FIRST_LINES + LAST_LINES):
            del self.lines[FIRST_LINES:-LAST_LINES]

    def tail(self) -> str:
        text = "\n".join(line.text for line in self.lines[-50:])
        return text[-TAIL_CHARS:]
