"""Looking at a machine's files from outside: saves at the checkpoint path, and what else the program writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from autopilot.agent.shipped.tree import Scanned, scan
from autopilot.agent.shipped.watch import ends_of
from autopilot.rehearsal.lines import is_table

LOOK_S = 0.02
SETTLED_S = 0.15
"""What has not changed for so long is one save."""
LARGEST_OUTPUT = 4 << 20
"""Bytes of an output file that is compared."""


class SaveWatch:
    """The saves of one run. ``now`` is passed in: monotonic seconds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[str, tuple[list[object], bytes | None, float]] = {}
        self.began_at: list[float] = []
        self.changed_at = -1e9
        self.longest_s = 0.0
        self.in_place = ""
        self.is_first = True

    def look(self, now: float) -> bool:
        """Whether something has changed since the look before."""
        present = {each.path: each for each in list_saved(self.path)}
        changed = [each for path, each in present.items() if path not in self.known or self.has_changed(each)]
        is_first, self.is_first = self.is_first, False
        for each in changed:
            self.note_rewrite(each, now)
            self.known[each.path] = ([*each.identity], ends_of(each.path, each.entry.size), now)
        for path in [path for path in self.known if path not in present]:
            del self.known[path]
        if not changed or is_first:
            return False
        if now - self.changed_at > SETTLED_S:
            self.began_at.append(now)
        self.changed_at = now
        self.longest_s = max(self.longest_s, now - self.began_at[-1])
        return True

    def has_changed(self, each: Scanned) -> bool:
        return self.known[each.path][0] != [*each.identity]

    def note_rewrite(self, each: Scanned, now: float) -> None:
        """A file that had been left alone, is the same one, and is neither as it was nor only longer."""
        if each.path not in self.known:
            return
        before, ends, changed_at = self.known[each.path]
        if before[:3] != [*each.identity][:3] or not before_size(before) or now - changed_at < SETTLED_S:
            return
        size = before_size(before)
        if each.entry.size < size or ends_of(each.path, size) != ends:
            self.in_place = self.in_place or os.path.basename(each.path)


def list_saved(path: str) -> list[Scanned]:
    try:
        return [each for each in scan(path) if each.entry.kind == "file"]
    except OSError:  # it moves: the next look will do
        return []


def before_size(identity: list[object]) -> int:
    size = identity[3] if len(identity) > 3 else 0
    return size if isinstance(size, int) else 0


def read_outputs(workdir: Path, is_left_out: Callable[[Path], bool]) -> dict[str, str]:
    """The texts that the program has written beside its checkpoint."""
    found = {}
    for path in sorted(workdir.rglob("*")):
        if path.is_file() and not path.is_symlink() and not is_left_out(path):
            text = read_text(path)
            if text:
                found[str(path.relative_to(workdir))] = text
    return found


def read_text(path: Path) -> str:
    try:
        return path.read_text() if path.stat().st_size <= LARGEST_OUTPUT else ""
    except (OSError, ValueError):
        return ""


def is_overwritten(before: str, after: str) -> bool:
    """Whether most of what stood there is gone, although something new is written after what is left of it."""
    lines, now = before.splitlines(), after.splitlines()
    same = next(
        (n for n, (old, new) in enumerate(zip(lines, now, strict=False)) if old != new), min(len(lines), len(now))
    )
    return is_table(before) and len(now) > same and same < len(lines) / 2
