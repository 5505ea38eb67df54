"""Whether what a job saves is whole, judged piece by piece from how its files change between one look and the next.

A piece is what is saved by itself: each directory in the saved one, or each that the pattern matches; files that stand
loose in one directory are one piece together. A piece is whole when none of its files is being written and

- nothing of it has changed for the quiet time, or
- each of the files that its saves write has been written as often as the others since it was last whole.

A directory that is new is compared with the one before of the same name but for digits. If it has the same files and
is as large, a quarter of the quiet time will do. If it lacks a file it must be quiet for two intervals, and if there is
none to compare it with, for twice the quiet time.

Growth of a file that has been there for long is no change: logs and event files are taken to their length. A file that
stays open for two intervals is judged by its changes alone, as that of a database.

Pure but for the ends of files that grow: what is there, what is open and what time it is come from the caller.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Dict, List, NamedTuple  # noqa: UP035 -- Python 3.8 cannot subscript dict

from .disk import CLOSED, MAPPED, OPEN
from .tree import ROOT, Entry, Scanned, parents

QUIET_S = 30.0
"""Market seconds; less where checkpoints are taken more often."""
LOOKS = 8
"""In a quiet time."""
LEAST_LOOK_S = 0.1
LOOK_COSTS = 10
"""Looks take a tenth of a thread at the most."""
MOST_STEP = 3
"""Looks: more time than these take, between two of them, does not count. The machine has stood still, and with it the
job."""
LONGEST_GROWTH = 10
"""Times two intervals: a new piece that grows for longer is never quiet."""
AS_LARGE = 0.9
SOON = 0.25
LONG_AGO = -1e12
END_BYTES = 4096
DIGITS = re.compile(r"\d+")

State = Dict[str, Any]  # noqa: UP006 -- what identifies each file of a piece, by name
Writes = Dict[str, Any]  # noqa: UP006 -- the same, with how often each was written


class LookPace(NamedTuple):
    """In the seconds of the caller's clock."""

    quiet_s: float
    two_intervals_s: float
    look_s: float
    """Between two looks."""

    @classmethod
    def of(cls, interval_s: float, speed: float, look_takes_s: float = 0.0) -> LookPace:
        """``interval_s``: market seconds between two checkpoints; ``speed`` of them pass in a second."""
        quiet_s = min(interval_s, QUIET_S) / speed
        look_s = max(quiet_s / LOOKS, LEAST_LOOK_S, LOOK_COSTS * look_takes_s)
        quiet_s = max(quiet_s, 2 * look_s)
        return cls(quiet_s, max(2 * interval_s / speed, 2 * quiet_s), look_s)


class Shape(NamedTuple):
    """What a piece consists of. Names are without their digits."""

    names: Counter[str]
    size: int

    @classmethod
    def of(cls, name: str, sizes: Mapping[str, int]) -> Shape:
        return cls(Counter(mask(file[len(name) :]) for file in sizes), sum(sizes.values()))

    def lacks(self, other: Shape) -> bool:
        """Whether ``other`` has a file that this has not."""
        return any(self.names[name] < count for name, count in other.names.items())

    def is_as_large_as(self, other: Shape) -> bool:
        return self.size >= AS_LARGE * other.size


class Plan(NamedTuple):
    """What the next checkpoint holds of each piece; a piece in none of the lists is as it was."""

    ready: List[str]  # noqa: UP006
    """As they are now."""
    kept: List[str]  # noqa: UP006
    """As they were when they were last whole, or not at all if they never were: they are waited for."""
    dropped: List[str]  # noqa: UP006
    """The job has removed them."""
    suspect: List[str]  # noqa: UP006
    """Never quiet for two intervals."""
    states: Dict[str, Writes]  # noqa: UP006
    """For those that are ready: what is taken of them."""


class Item:
    """One file or link of a piece."""

    def __init__(self, each: Scanned, now: float, use: str) -> None:
        self.identity, self.size, self.since = each.identity, each.entry.size, now
        self.writes, self.is_in_write = 1, True
        self.use, self.open_since = use, None if use == CLOSED else now
        self.is_busy = use != CLOSED
        self.maps = int(use == MAPPED)
        self.ends = ends_of(each.path, each.entry.size)

    @property
    def state(self) -> list[Any]:
        """A mapped file may change without a sign of it: having been mapped is one."""
        return [*self.identity, self.maps] if self.maps else self.identity

    def look(self, each: Scanned, now: float, use: str, pace: LookPace) -> bool:
        """Whether it has changed otherwise than a log does."""
        was_busy, before = self.is_busy, self.identity
        self.note_use(use, now, pace)
        if each.identity == before and use != MAPPED:
            self.is_in_write = self.is_in_write and self.is_busy
            return False
        has_grown = self.has_grown(each)
        self.size = each.entry.size
        self.identity, self.ends = each.identity, ends_of(each.path, each.entry.size)
        if has_grown and not (was_busy or self.is_busy) and now - self.since >= 2 * pace.quiet_s:
            return False
        if not self.is_in_write or before[:3] != each.identity[:3]:
            self.writes += 1
        self.is_in_write = True
        return True

    def note_use(self, use: str, now: float, pace: LookPace) -> None:
        self.maps += use == MAPPED and self.use != MAPPED
        if use == CLOSED:
            self.open_since = None
        elif self.open_since is None:
            self.open_since = now
        is_held = self.open_since is not None and now - self.open_since >= pace.two_intervals_s
        self.use, self.is_busy = use, use == MAPPED or (use == OPEN and not is_held)

    def has_grown(self, each: Scanned) -> bool:
        """Whether the same file is longer now, and begins and went on as it did."""
        before, after = self.identity, each.identity
        if self.ends is None or len(before) != len(after) or before[:3] != after[:3] or after[3] <= before[3]:
            return False
        return ends_of(each.path, before[3]) == self.ends


class Piece:
    def __init__(self, now: float) -> None:
        self.items: dict[str, Item] = {}
        self.good: State | None = None  # as it was when it was last whole
        self.together: set[str] | None = None  # what was written between the last two whole states
        self.since, self.changed_at, self.changed_in = now, now, 0
        self.restless_since, self.grown_at, self.most = now, now, (0, 0)
        self.is_gone = False
        self.waited_for_until = LONG_AGO  # after a suspect copy
        self.is_doubtful = False  # it was restored from a suspect checkpoint and is as it was then

    @property
    def state(self) -> State:
        return {name: item.state for name, item in self.items.items()}

    @property
    def sizes(self) -> dict[str, int]:
        return {name: item.size for name, item in self.items.items()}

    @property
    def is_new(self) -> bool:
        return self.is_gone or self.good != self.state

    @property
    def is_busy(self) -> bool:
        return any(item.is_busy for item in self.items.values())

    def look(
        self, now: float, look: int, present: Mapping[str, Scanned], use: Mapping[str, str], pace: LookPace
    ) -> None:
        was_new, was_gone = self.is_new, self.is_gone
        has_changed = was_gone or not self.items.keys() <= present.keys()
        for name in [name for name in self.items if name not in present]:
            del self.items[name]
        for name, each in present.items():
            used = use.get(each.path, CLOSED)
            if name in self.items:
                has_changed = self.items[name].look(each, now, used, pace) or has_changed
            else:
                self.items[name], has_changed = Item(each, now, used), True
        self.is_gone = False
        if has_changed or self.is_busy:
            self.changed_at, self.changed_in = now, look
        size = len(present), sum(each.entry.size for each in present.values())
        if size[0] > self.most[0] or size[1] > self.most[1]:
            self.most, self.grown_at = (max(size[0], self.most[0]), max(size[1], self.most[1])), now
        if not was_new:
            self.restless_since = now

    def lose(self, now: float, look: int) -> None:
        """It is there no more."""
        if not self.is_gone:
            self.is_gone, self.items, self.changed_at, self.changed_in = True, {}, now, look

    @property
    def writes(self) -> Writes:
        return {name: (item.state, item.writes) for name, item in self.items.items()}

    def settle(self, taken: Writes) -> None:
        """As it was then it has been taken as whole."""
        if self.good is not None:
            self.together = {name for name, (_, writes) in taken.items() if writes} or self.together
        self.good, self.is_doubtful = {name: state for name, (state, _) in taken.items()}, False
        for name, item in self.items.items():
            state, writes = taken.get(name, (None, 0))
            item.writes -= min(item.writes, writes)
            item.is_in_write = item.is_in_write and item.state != state

    def has_closed_round(self, least: int) -> bool:
        """Whether each file that its saves write was written equally often, ``least`` times or more."""
        counts = [
            item.writes
            for name, item in self.items.items()
            if item.writes or self.together is None or name in self.together
        ]
        most = max(counts, default=0)
        if most < least:
            return most == 0 and self.good is not None
        return all(count == most for count in counts if count >= most - 1)

    def count_writers(self) -> int:
        return sum(item.writes > 0 for item in self.items.values())


class Watch:
    def __init__(self) -> None:
        self.pieces: dict[str, Piece] = {}
        self.shapes: dict[str, Shape] = {}  # of the last piece that was whole, or had a successor, by name
        self.now, self.looked_at, self.looks = 0.0, 0.0, 0
        self.seen: list[Any] = []
        self.items: dict[str, Item] = {}  # of all pieces
        self.is_single = False
        self.verdicts: dict[str, bool] | None = None  # once the process has ended

    # -- looks

    def look(self, clock: float, scanned: list[Scanned], use: Mapping[str, str], pace: LookPace) -> None:
        """``use``: by path, of what is open for writing."""
        if self.looks:
            self.now += min(max(clock - self.looked_at, 0.0), MOST_STEP * pace.look_s)
        self.looked_at, self.looks, self.verdicts = clock, self.looks + 1, None
        self.seen = [each.identity for each in scanned]
        self.is_single = len(scanned) == 1 and scanned[0].entry.name == ROOT and scanned[0].entry.kind != "dir"
        present = split(scanned)
        for name, files in present.items():
            if name not in self.pieces:
                self.note_successor(name)
                self.pieces[name] = Piece(self.now)
            self.pieces[name].look(self.now, self.looks, files, use, pace)
        for name in [name for name in self.pieces if name not in present]:
            if self.pieces[name].good is None:
                del self.pieces[name]
            else:
                self.pieces[name].lose(self.now, self.looks)
        self.items = {name: item for piece in self.pieces.values() for name, item in piece.items.items()}
        for name, piece in self.pieces.items():
            if piece.is_new and self.is_whole(name, piece, pace):
                piece.restless_since = piece.grown_at = self.now

    def note_successor(self, name: str) -> None:
        """A writer starts the next one only when the last one has all its files."""
        before = [
            (piece.since, other)
            for other, piece in self.pieces.items()
            if piece.items and mask(other) == mask(name) and other != name
        ]
        if before:
            other = max(before)[1]
            self.shapes[mask(name)] = Shape.of(other, self.pieces[other].sizes)

    @property
    def is_restless(self) -> bool:
        """Whether something is to be waited for."""
        return any(piece.is_new for piece in self.pieces.values())

    def has_changed(self, scanned: list[Scanned]) -> bool:
        """Whether there is anything that the last look has not seen."""
        return [each.identity for each in scanned] != self.seen

    def adopt(self, scanned: Iterable[Scanned], is_doubtful: bool = False) -> None:
        """This is what the newest checkpoint has: it was restored, or who knows has said that it is whole."""
        self.pieces = {}
        for name, present in split(scanned).items():
            piece = self.pieces[name] = Piece(self.now)
            piece.items = {each.entry.name: Item(each, LONG_AGO, CLOSED) for each in present.values()}
            self.settle_piece(name, piece, piece.writes)
            piece.together, piece.is_doubtful = None, is_doubtful

    def settle(self, plan: Plan) -> None:
        """The plan has been carried out."""
        for name, taken in plan.states.items():
            self.settle_piece(name, self.pieces.setdefault(name, Piece(self.now)), taken)
        for name in plan.dropped:
            self.pieces.pop(name, None)

    def settle_suspect(self, plan: Plan, pace: LookPace) -> None:
        """All was copied as it was: for another interval a good copy is waited for before the next of that kind."""
        for name in plan.suspect:
            if name in self.pieces:
                self.pieces[name].waited_for_until = self.now + pace.two_intervals_s / 2

    def settle_piece(self, name: str, piece: Piece, taken: Writes) -> None:
        piece.settle(taken)
        if piece.items:
            self.shapes[mask(name)] = Shape.of(name, piece.sizes)

    # -- the end of the process

    def close(self, clock: float, scanned: list[Scanned], pace: LookPace, is_cut: bool) -> None:
        """The process has ended; ``is_cut``: not by itself, so that it may have been writing.

        Time proves nothing any more: what was not whole by then is whole only if nothing of it is missing.
        """
        was_busy = {name for name, piece in self.pieces.items() if piece.is_busy}
        self.look(clock, scanned, {}, pace)
        self.verdicts = {}
        for name, piece in self.pieces.items():
            has_changed = piece.changed_in == self.looks
            if has_changed:
                is_whole = not is_cut and self.is_complete(name, piece, True)
            elif name in was_busy:
                is_whole = False
            else:
                is_whole = self.is_quiet(name, piece, pace) or self.is_complete(name, piece, False)
            self.verdicts[name] = is_whole

    def is_complete(self, name: str, piece: Piece, is_unknown_good: bool) -> bool:
        """Whether nothing of it is missing, as far as that can be known from its files."""
        if self.is_single:
            return True
        if piece.good is None:
            before, shape = self.shapes.get(mask(name)), Shape.of(name, piece.sizes)
            if before is None:
                return is_unknown_good
            return shape.is_as_large_as(before) and not shape.lacks(before)
        return is_unknown_good if piece.together is None else piece.has_closed_round(1)

    # -- judgement

    def is_whole(self, name: str, piece: Piece, pace: LookPace) -> bool:
        if self.verdicts is not None:
            return self.verdicts.get(name, False)
        if piece.is_busy:
            return False
        if self.is_quiet(name, piece, pace):
            return True
        if piece.is_gone or not piece.has_closed_round(1 if self.is_single or piece.good is not None else 2):
            return False
        return piece.count_writers() <= 1 or piece.changed_in < self.looks

    def is_quiet(self, name: str, piece: Piece, pace: LookPace) -> bool:
        return self.now - piece.changed_at >= self.needed_quiet_s(name, piece, pace)

    def needed_quiet_s(self, name: str, piece: Piece, pace: LookPace) -> float:
        if piece.good is not None:
            return pace.quiet_s
        before, shape = self.shapes.get(mask(name)), Shape.of(name, piece.sizes)
        if before is None:
            return 2 * pace.quiet_s
        if shape.lacks(before):
            return pace.two_intervals_s
        return SOON * pace.quiet_s if shape.is_as_large_as(before) else pace.quiet_s

    def is_stuck(self, piece: Piece, pace: LookPace) -> bool:
        """Whether it is never quiet. A new one that still grows is no such piece, for as long as that may take."""
        if self.verdicts is None and self.now < piece.waited_for_until:
            return False
        since = piece.restless_since if piece.good is not None else piece.grown_at
        is_endless = self.now - piece.restless_since >= LONGEST_GROWTH * pace.two_intervals_s
        return self.now - since >= pace.two_intervals_s or is_endless

    def is_same(self, item: Item, each: Scanned, pace: LookPace) -> bool:
        """Whether a file is as ``item`` was, or a log that has grown since."""
        if item.identity == each.identity:
            return True
        return not item.is_busy and self.now - item.since >= 2 * pace.quiet_s and item.has_grown(each)

    def note_mapped(self, names: Iterable[str]) -> None:
        """Between two looks."""
        for name in names:
            item = self.items.get(name)
            if item is not None and item.use != MAPPED:
                item.maps, item.use, item.is_busy = item.maps + 1, MAPPED, True

    def plan(self, pace: LookPace) -> Plan:
        """What was written after a piece that is waited for stays as it was, too: it may speak of that piece."""
        new = {name: piece for name, piece in self.pieces.items() if piece.is_new}
        waited = {name: piece for name, piece in new.items() if not self.is_whole(name, piece, pace)}
        first = min((piece.changed_at for piece in waited.values()), default=self.now + 1)
        ready = [
            name
            for name, piece in new.items()
            if name not in waited and piece.changed_at < first and not (piece.is_gone and waited)
        ]
        return Plan(
            ready=[name for name in ready if not new[name].is_gone],
            kept=[name for name in new if name not in ready],
            dropped=[name for name in ready if new[name].is_gone],
            suspect=[name for name, piece in waited.items() if self.is_stuck(piece, pace) and not piece.is_gone],
            states={name: new[name].writes for name in ready if not new[name].is_gone},
        )


def split(scanned: Iterable[Scanned]) -> dict[str, dict[str, Scanned]]:
    """Files and links by piece."""
    scanned = list(scanned)
    tops = tops_of(each.entry for each in scanned)
    pieces: dict[str, dict[str, Scanned]] = {}
    for each in scanned:
        name, is_file = each.entry.name, each.entry.kind != "dir"
        if is_file or name in tops:
            pieces.setdefault(piece_of(name, tops), {}).update({name: each} if is_file else {})
    return pieces


def tops_of(entries: Iterable[Entry]) -> set[str]:
    """The directories that are a piece each: those in the saved one, or the outermost that a pattern has matched."""
    directories = {entry.name for entry in entries if entry.kind == "dir"}
    if ROOT in directories:
        return {name for name in directories if name.count("/") == 1}
    return {name for name in directories if not directories.intersection(parents(name))}


def piece_of(name: str, tops: set[str]) -> str:
    if name in tops:
        return name
    above = next((parent for parent in parents(name) if parent in tops), None)
    return above or name.rpartition("/")[0] or name


def mask(name: str) -> str:
    return DIGITS.sub("#", name)


def ends_of(path: str, size: int) -> bytes | None:
    """The first and the last bytes of a file that is so long, or was."""
    try:
        with open(path, "rb", buffering=0) as file:
            first = file.read(min(size, END_BYTES))
            file.seek(max(size - END_BYTES, 0))
            return first + file.read(min(size, END_BYTES))
    except OSError:
        return None
