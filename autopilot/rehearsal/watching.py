"""Looking at a machine's files from outside: saves at the checkpoint path, and what else the program writes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from autopilot.agent.shipped.tree import Scanned, scan
from autopilot.agent.shipped.watch import ends_of, mask
from autopilot.rehearsal.tables import ARRAY_SUFFIX, SUFFIXES, is_table, read_array

LOOK_S = 0.02
SETTLED_S = 0.15
"""What has not changed for so long is one save."""
LARGE = 0.5
"""Of the largest file at the checkpoint path."""
AS_LARGE = 0.9
BETWEEN = 0.2
"""Of the time between two writes of a file."""
DATABASE = b"SQLite format 3"
OVERWRITTEN = "is written over where it lies: a loss meanwhile leaves half of it"
REMOVED = "is removed before the next save is written: a loss meanwhile leaves none"
LARGEST_OUTPUT = 4 << 20
"""Bytes of an output file that is compared."""


class SeenFile(NamedTuple):
    path: str
    identity: list[object]
    ends: bytes | None
    changed_at: float
    writes: int
    """In this run: what was there before it may be the half of a file, which it writes again."""


class SaveWatch:
    """The saves of one run. ``now`` is passed in: monotonic seconds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[str, SeenFile] = {}
        self.began_at: list[float] = []
        self.writes: dict[str, list[float]] = {}
        """When each file was begun, by its path without digits."""
        self.changed_at = -1e9
        self.changed: list[str] = []
        """What the last look found changed."""
        self.longest_s = 0.0
        self.in_place = ""
        """What of it is never whole at some moment, and how."""
        self.bare: SeenFile | None = None
        """The last that went, while none as large is there."""
        self.is_first = True

    def look(self, now: float) -> bool:
        """Whether something has changed since the look before."""
        present = self.list_present()
        self.note_removal(present)
        changed = [each for path, each in present.items() if path not in self.known or self.has_changed(each)]
        is_first, self.is_first = self.is_first, False
        for each in changed:
            self.note_rewrite(each, now)
            self.note_write(each, now, is_first)
        for path in [path for path in self.known if path not in present]:
            del self.known[path]
        self.changed = [] if is_first else [each.path for each in changed]
        if not self.changed:
            return False
        if now - self.changed_at > SETTLED_S:
            self.began_at.append(now)
        self.changed_at = now
        self.longest_s = max(self.longest_s, now - self.began_at[-1])
        return True

    def list_present(self) -> dict[str, Scanned]:
        """A directory may be renamed while it is listed: what is missing is looked for once more."""
        present = {each.path: each for each in list_saved(self.path)}
        return present if present.keys() >= self.known.keys() else {each.path: each for each in list_saved(self.path)}

    def note_removal(self, present: dict[str, Scanned]) -> None:
        """The only save that this run had written goes, and the next one is written after: nothing is whole meanwhile.

        Pure removal, as at the end of a training, has no next one.
        """
        large = max((size_of(file.identity) for file in self.known.values()), default=0)
        least = AS_LARGE * (large if self.bare is None else size_of(self.bare.identity))
        has_whole = any(each.entry.size >= least for each in present.values())
        if self.bare is not None:
            if has_whole:
                self.in_place = self.in_place or f"{os.path.basename(self.bare.path)} {REMOVED}"
                self.bare = None
            return
        gone = [file for path, file in self.known.items() if path not in present and file.writes]
        if large and not has_whole:
            self.bare = next((file for file in gone if size_of(file.identity) >= least), None)

    def has_changed(self, each: Scanned) -> bool:
        return self.known[each.path].identity != [*each.identity]

    def note_write(self, each: Scanned, now: float, is_first: bool) -> None:
        before = self.known.get(each.path)
        writes = 0 if is_first else 1 + (before.writes if before is not None else 0)
        self.known[each.path] = SeenFile(each.path, [*each.identity], ends_of(each.path, each.entry.size), now, writes)
        if not is_first and is_large(each, self.known.values()):
            begun = self.writes.setdefault(mask(each.path), [])
            if not begun or now - begun[-1] > SETTLED_S:
                begun.append(now)

    def note_rewrite(self, each: Scanned, now: float) -> None:
        """A file that this run had written and left alone, is the same one, and is neither as it was nor only longer.

        Where saves alternate between files, the other one is whole meanwhile.
        """
        before = self.known.get(each.path)
        if before is None or not before.writes or now - before.changed_at < SETTLED_S:
            return
        size = size_of(before.identity)
        if before.identity[:3] != [*each.identity][:3] or not size or not is_large(each, self.known.values()):
            return
        is_other = [is_between(other, before, now) for path, other in self.known.items() if path != each.path]
        has_gone = each.entry.size < size or ends_of(each.path, size) != before.ends
        if has_gone and not any(is_other) and not is_kept_otherwise(each.path, before.ends):
            self.in_place = self.in_place or f"{os.path.basename(each.path)} {OVERWRITTEN}"

    def newest(self, before: float) -> float | None:
        """When, by the wall clock, the newest of the large files was written that were there before."""
        files = list_saved(self.path)
        most = max((each.entry.size for each in files), default=0)
        times = [each.entry.mtime_ns / 1e9 for each in files if each.entry.size >= LARGE * most]
        return max((time for time in times if time <= before), default=None)


def is_between(other: SeenFile, before: SeenFile, now: float) -> bool:
    """Whether one as large was written by another save since then: not by the same one, nor by the present one."""
    apart = max(SETTLED_S, BETWEEN * (now - before.changed_at))
    is_apart = other.changed_at - before.changed_at > apart and now - other.changed_at > apart
    return is_apart and size_of(other.identity) >= AS_LARGE * size_of(before.identity)


def is_large(each: Scanned, others: Iterable[SeenFile]) -> bool:
    """Whether it is of the weights: what is small beside them only speaks of them."""
    most = max((size_of(other.identity) for other in others), default=0)
    return each.entry.size >= LARGE * most or not each.entry.size


def is_kept_otherwise(path: str, ends: bytes | None) -> bool:
    """Whether it is a table, or a database with a journal of its own."""
    return (ends or b"").startswith(DATABASE) or (path.endswith(SUFFIXES) and is_table(read_text(Path(path))))


def list_saved(path: str) -> list[Scanned]:
    try:
        return [each for each in scan(path) if each.entry.kind == "file"]
    except OSError:  # it moves: the next look will do
        return []


def size_of(identity: list[object]) -> int:
    size = identity[3] if len(identity) > 3 else 0
    return size if isinstance(size, int) else 0


def read_outputs(workdir: Path, code: frozenset[Path]) -> dict[str, str]:
    """The tables that the program has written, by their paths in the directory."""
    found = {}
    for path in sorted(workdir.rglob("*")):
        is_array = path.suffix == ARRAY_SUFFIX
        if (is_array or path.suffix in SUFFIXES) and path.is_file() and not path.is_symlink() and path not in code:
            text = read_array(read_text(path)) if is_array else read_text(path)
            if text:
                found[str(path.relative_to(workdir))] = text
    return found


def read_text(path: Path) -> str:
    try:
        return path.read_text() if path.stat().st_size <= LARGEST_OUTPUT else ""
    except (OSError, ValueError):
        return ""
