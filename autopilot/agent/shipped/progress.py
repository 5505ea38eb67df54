"""How far the job says it is: in a file that it keeps, or in the lines that it prints.

Without a pattern of the user's, what common trainers print is recognised. It is shown, and is not the job's word.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .disk import clear, read_start
from .trainers import Trainers

LINE_BYTES = 2000
LINES_AT_ONCE = 50
"""Of each block of output so many lines are looked at for what trainers print: the newest."""
OFF = "off"
"""The pattern of a job whose output says nothing of its progress."""


class Progress:
    """Claims of (step, fraction done). ``pattern`` finds them in the output: a regular expression with groups named
    ``step``, ``total``, ``percent`` or ``fraction``, or ``json`` for lines that are objects with such members.
    """

    def __init__(self, path: str, pattern: str = "") -> None:
        self.path, self.pattern = path, pattern
        self.regex = None if pattern in ("", "json", OFF) else re.compile(pattern)
        self.trainers = Trainers()
        self.recognised: dict[str, Any] | None = None
        """What the output of a trainer told last. Heartbeats read it in a thread of their own."""
        self.said: tuple[int | None, float | None] = (None, None)
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Output of the job, in blocks of any length."""
        if self.pattern == OFF:
            return
        *lines, self.rest = re.split(rb"[\r\n]", self.rest + data)
        self.rest = self.rest[-LINE_BYTES:]
        if not self.pattern:
            for line in lines[-LINES_AT_ONCE:]:
                self.trainers.feed(line[:LINE_BYTES].decode("utf-8", "replace"))
            told = self.trainers.read()
            self.recognised = None if told is None else told._asdict()
            return
        for line in lines:
            found = self.parse(line[:LINE_BYTES].decode("utf-8", "replace"))
            if found:
                step, fraction = parse_claim(found)
                self.said = (
                    step if step is not None else self.said[0],
                    fraction if fraction is not None else self.said[1],
                )

    def parse(self, line: str) -> dict[str, Any] | None:
        if self.regex is not None:
            match = self.regex.search(line)
            return match.groupdict() if match else None
        if not line.lstrip().startswith("{"):
            return None
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return body if isinstance(body, dict) else None

    def read(self) -> tuple[int | None, float | None]:
        """The file's word, or else the output's."""
        try:
            claim = json.loads(read_start(self.path, 4096))
            step, fraction = parse_claim({"step": claim.get("step"), "fraction": claim.get("progress")})
        except (OSError, ValueError, AttributeError, RecursionError):
            step, fraction = None, None
        return (step, fraction) if (step, fraction) != (None, None) else self.said

    def forget(self) -> None:
        """Drop the progress of an earlier run: it says nothing about the next one."""
        self.said, self.rest, self.trainers, self.recognised = (None, None), b"", Trainers(), None
        clear(self.path)


def parse_claim(fields: dict[str, Any]) -> tuple[int | None, float | None]:
    step, total = number(fields.get("step")), number(fields.get("total"))
    fraction, percent = number(fields.get("fraction", fields.get("progress"))), number(fields.get("percent"))
    if fraction is None and percent is not None:
        fraction = percent / 100
    if fraction is None and step is not None and total:
        fraction = step / total
    whole = int(step) if step is not None and 0 <= step < 2**53 and step == int(step) else None
    return whole, None if fraction is None else min(max(fraction, 0.0), 1.0)


def number(value: Any) -> float | None:
    """What can be read as one; a person writes 12,000 and a program 1.2e4."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        read = float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return read if read == read and abs(read) < 2**53 else None
