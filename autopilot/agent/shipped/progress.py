"""How far the job says it is: in a file that it keeps, or in the lines that it prints.

Without a pattern of the user's, what common trainers print and save is recognised. It is not the job's own word.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .disk import clear, read_start
from .state_files import find_state
from .trainers import Recognised, State, Trainers

LINE_BYTES = 2000
LINES_AT_ONCE = 50
"""Of each block of output so many lines are looked at for what trainers print: the newest."""
LOOKS_APART_S = 30.0
"""Between two looks for a trainer's state file. Market seconds, as all times here."""
BACK = 0.02
"""By so much a share may fall back and still be of the same bar: at an epoch's end its steps are not yet told."""
MOST_LEFT_S = 1e8
NEVER = float("-inf")
OFF = "off"
"""The pattern of a job whose output says nothing of its progress."""


class Progress:
    """Claims of (step, fraction done). ``pattern`` finds them in the output: a regular expression with groups named
    ``step``, ``total``, ``percent`` or ``fraction``, or ``json`` for lines that are objects with such members.
    """

    def __init__(self, path: str, pattern: str = "") -> None:
        self.path, self.pattern = path, pattern
        self.regex = None if pattern in ("", "json", OFF) else re.compile(pattern)
        self.trainers, self.advance = Trainers(), Advance()
        self.look_at = NEVER
        self.first_state: State | None = None
        """What was there before the run."""
        self.said: tuple[int | None, float | None] = (None, None)
        self.rest = b""

    def feed(self, data: bytes, now: float = 0.0) -> None:
        """Output of the job, in blocks of any length."""
        if self.pattern == OFF:
            return
        *lines, self.rest = re.split(rb"[\r\n]", self.rest + data)
        self.rest = self.rest[-LINE_BYTES:]
        if not self.pattern:
            for line in lines[-LINES_AT_ONCE:]:
                self.trainers.feed(line[:LINE_BYTES].decode("utf-8", "replace"))
            self.advance.take(self.trainers.read(), now)
            return
        for line in lines:
            found = self.parse(line[:LINE_BYTES].decode("utf-8", "replace"))
            if found:
                step, fraction = parse_claim(found)
                self.said = (
                    step if step is not None else self.said[0],
                    fraction if fraction is not None else self.said[1],
                )

    def look(self, checkpoint_path: str, now: float) -> None:
        """At the state file that a trainer keeps in its checkpoint. It counts once this run has written one."""
        if self.pattern or now < self.look_at:
            return
        state = find_state(checkpoint_path)
        if self.look_at == NEVER:
            self.first_state = state
        self.look_at = now + LOOKS_APART_S
        if state is not None and state != self.first_state:
            self.trainers.saved = state
            self.advance.take(self.trainers.read(), now)

    def recognise(self, now: float) -> dict[str, Any] | None:
        """What a trainer told last. Heartbeats ask in a thread of their own."""
        return self.advance.tell(now)

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
        self.said, self.rest, self.trainers, self.advance = (None, None), b"", Trainers(), Advance()
        self.look_at, self.first_state = NEVER, None
        clear(self.path)


class Advance:
    """How fast a recognised share grows. What comes before its first change is no pace: a compile, a cold cache."""

    def __init__(self) -> None:
        self.reported: Recognised | None = None
        self.since: tuple[float, float] | None = None
        """Time and share at its first change."""

    def take(self, reported: Recognised | None, now: float) -> None:
        before, self.reported = self.reported, reported
        if (
            reported is None
            or before is None
            or reported.form != before.form
            or reported.fraction < before.fraction - BACK
        ):
            self.since = None
        elif self.since is None and reported.fraction > before.fraction:
            self.since = (now, reported.fraction)

    def tell(self, now: float) -> dict[str, Any] | None:
        reported, since = self.reported, self.since
        if reported is None:
            return None
        left_s, seen = None, 0.0
        if since is not None and reported.fraction > since[1] and now > since[0]:
            seen = reported.fraction - since[1]
            left_s = min((1.0 - reported.fraction) * (now - since[0]) / seen, MOST_LEFT_S)
        return {**reported._asdict(), "left_s": left_s, "seen": seen}


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
