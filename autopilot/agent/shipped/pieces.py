"""What of a job's files the next checkpoint holds: pieces that are whole, and of the others what they were before."""

from __future__ import annotations

import copy
import os
from typing import Any

from .chunks import BLOCK_BYTES
from .disk import MAPPED
from .snapshots import Moved, Record
from .tree import ROOT, Scanned
from .watch import Item, Plan, piece_of, tops_of


class Pieces:
    """The judge of one checkpoint, by the watch of its keeper."""

    def __init__(self, keeper: Any) -> None:
        self.keeper, self.watch, self.snapshots = keeper, keeper.watch, keeper.snapshots
        self.scanned: list[Scanned] = []
        self.taken: dict[str, Scanned] = {}  # of what lies there, by name
        self.plan: Plan = Plan([], [], [], [], {})
        self.items: dict[str, Item] = {}
        self.mapped: set[str] = set()
        self.is_suspect = self.is_all = self.waits = False

    def choose(self, scanned: list[Scanned]) -> list[Scanned]:
        """Nothing while nothing new is whole: then ``waits`` says whether that may change."""
        keeper, watch = self.keeper, self.watch
        if watch.verdicts is None:
            keeper.look_at(scanned)
        with keeper.looking:
            self.plan, is_over = watch.plan(keeper.pace()), watch.verdicts is not None
            doubtful = {name for name, piece in watch.pieces.items() if piece.is_doubtful}
        has_new, best = bool(self.plan.ready or self.plan.dropped), self.snapshots.best()
        is_last_resort = is_over and not has_new and self.plan.kept and (best is None or best.get("suspect"))
        self.scanned, self.is_all = scanned, bool(self.plan.suspect or is_last_resort)
        self.waits = bool(self.plan.kept) and not (has_new or is_over or self.is_all)
        if self.is_all:
            self.is_suspect = True
            return scanned if [each.identity for each in scanned] != keeper.seen else []
        if not has_new:
            return []
        chosen = self.compose(scanned)
        self.is_suspect = bool(doubtful - {*self.plan.ready, *self.plan.dropped}) and bool(chosen)
        return chosen

    def compose(self, scanned: list[Scanned]) -> list[Scanned]:
        kept, tops = set(self.plan.kept), tops_of(each.entry for each in scanned)
        self.items = {name: copy.copy(item) for name, item in self.watch.items.items()}  # as they are now
        self.mapped = {name for name, item in self.items.items() if item.maps}
        chosen = [
            self.as_watched(each) for each in scanned if is_top(each) or piece_of(each.entry.name, tops) not in kept
        ]
        self.taken = {each.entry.name: each for each in chosen}
        before = self.list_before(kept)
        if before:
            chosen = [*chosen, *(each for each in before if each.entry.name not in self.taken)]
            chosen.sort(key=lambda each: each.entry.name.split("/"))
        return chosen if any(each.entry.kind != "dir" for each in chosen) else []

    def as_watched(self, each: Scanned) -> Scanned:
        """A memory-mapped file may change without any trace, so a copy of it is never reused."""
        if each.entry.name in self.mapped:
            return each._replace(identity=[*each.identity, "mapped", self.watch.looks])
        return each

    def list_before(self, kept: set[str]) -> list[Scanned]:
        """The last complete state of the pieces that are waited for. Raises ``Moved`` if that is lost."""
        wanted = {name for name in kept if self.watch.pieces[name].good is not None}
        best = self.snapshots.best() if wanted else None
        lies = self.snapshots.as_kept(best) if best else []
        tops = tops_of(each.entry for each in lies)
        before = [each for each in lies if piece_of(each.entry.name, tops) in wanted]
        if wanted - {piece_of(each.entry.name, tops) for each in before}:
            raise Moved("what was whole before is not on this disk any more")
        for each in before:
            self.snapshots.refuse_harmed(each)
        return before

    def is_still(self, scanned: list[Scanned], copies: str) -> bool:
        """Whether what was copied is what was chosen."""
        if self.is_all:
            return True
        kept, tops = set(self.plan.kept), tops_of(each.entry for each in scanned)
        now = {each.entry.name: each for each in scanned if piece_of(each.entry.name, tops) not in kept}
        files = {name for name, each in self.taken.items() if each.entry.kind != "dir"}
        if files != {name for name, each in now.items() if each.entry.kind != "dir"}:
            return False
        with self.keeper.looking:
            pace = self.keeper.pace()
            is_same = all(self.watch.is_same(self.items[name], now[name], pace) for name in files)
        uses = self.keeper.find_uses([now[name] for name in files])
        mapped = [name for name in files if uses.get(now[name].path) == MAPPED]
        with self.keeper.looking:
            self.watch.note_mapped(mapped)
        return is_same and not mapped and all(is_equal(now[name], copies) for name in self.mapped & files)

    def says(self) -> Record:
        return {"suspect": True} if self.is_suspect else {}

    def note_taken(self) -> None:
        keeper, plan = self.keeper, self.plan
        if self.is_all:
            keeper.seen = [each.identity for each in self.scanned]
            with keeper.looking:
                self.watch.settle_suspect(plan, keeper.pace())
        else:
            keeper.seen = None if plan.kept else [each.identity for each in self.scanned]
            with keeper.looking:
                self.watch.settle(plan)
        self.say()

    def say(self) -> None:
        log, plan = self.keeper.log, self.plan
        names = ", ".join(name.partition("/")[2] or "the files" for name in (plan.suspect or plan.kept)[:3])
        if not self.is_suspect:
            log.resolve("suspect")
            if names:
                log.say(f"not whole yet, and not in this checkpoint as it is now: {names}")
            return
        reason = f"{names} was never quiet for two intervals" if plan.suspect else "the job was cut off while it saved"
        log.trouble(
            "suspect",
            f"the newest checkpoint is suspect: {reason}. It is restored only if there is no other. The job can say"
            " when its files are whole by $AUTOPILOT_CHECKPOINT_MARK, or write aside and rename",
        )


def is_top(each: Scanned) -> bool:
    return each.entry.kind == "dir" and each.entry.name == ROOT


def is_equal(each: Scanned, copies: str) -> bool:
    """Whether what lies there is what was copied, byte for byte."""
    with open(each.path, "rb") as file, open(os.path.join(copies, each.entry.name), "rb") as copy:
        return all(block == copy.read(BLOCK_BYTES) for block in iter(lambda: file.read(BLOCK_BYTES), b""))
