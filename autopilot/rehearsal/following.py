"""Following one run from its start to its end, or to the moment at which its machine is taken away."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from autopilot.rehearsal.lines import PrintedStep, read_claims, read_name
from autopilot.rehearsal.machine import RehearsalMachine
from autopilot.rehearsal.mailbox import RehearsalLease
from autopilot.rehearsal.observed import Loss, LossKind, SeenRun, TermSave
from autopilot.rehearsal.printed import Printed
from autopilot.rehearsal.verdict import MARKET_S
from autopilot.rehearsal.watching import LOOK_S, SaveWatch

MEMORY_EVERY = 25
"""Looks between two readings of memory."""
AT_ONCE_STEPS = 1
"""Told between SIGTERM and the save that it brings: later ones come by the program's own clock."""
SAVES_OF_A_DISK = 2
"""Of one run, after which its disk has something to go on from."""
LEAST_SAVES, BY_CLOCK = 3, 0.2
"""Saves from which the next one is foretold, and by which share of their interval it may be off."""
OVERDUE_S = 5.0
"""Beyond the moment of a loss that waits for a verified checkpoint."""
LEAST_WAIT_S = 6.0
"""For what is to be told after the first save, where the share of the time is less."""


class RunStart(NamedTuple):
    machine: RehearsalMachine
    lease: RehearsalLease
    until: float
    """By the monotonic clock: it is stopped then, lost or not."""
    checkpoint_path: str
    loss: Loss | None = None
    otherwise: Loss | None = None
    """That keeps the disk, where nothing is verified long after its moment: a busy computer takes its time."""
    lose_after_s: float = 0.0
    """Of its work, which begins with the first that it tells: then it is lost, once something new is saved."""
    beyond_save_s: float = 0.0
    """After what it waits for: else it would be lost whenever it has just saved, with nothing to do again."""
    lose_at_latest_s: float = math.inf
    """Of its work: then it is lost without anything new as well, where a checkpoint was restored."""
    lose_until: float = 0.0
    """No longer after this: the next run would have no time."""
    enough_s: float = math.inf
    """Of its work: then it is stopped, once it has saved and told ``steps`` of them; at twice that without them."""
    starts: int = 0
    """Its own and those to come, which take as long: ``share`` of the time beside them is enough, too."""
    share: float = 0.0
    steps: int = 0
    """Told after its first save."""
    is_asked_unsaved: bool = False
    """It has SIGTERM before its time is over, where it has saved nothing until then: that may be when it saves."""
    trusted_until: float = math.inf
    """By the wall clock: what was written later on its disk was cut off."""


class RunFollower:
    def __init__(self, start: RunStart) -> None:
        self.start = start
        self.saves = SaveWatch(start.checkpoint_path)
        self.verified_before = len(start.lease.verified)
        self.printed = Printed(start.machine.console)
        self.memory = self.looks = 0
        self.due_from = math.inf
        self.began_at = 0.0
        self.worked_from: float | None = None
        self.newest_save: float | None = None
        """Of what it began with, by the wall clock."""
        self.read_lines = 0
        self.told: list[PrintedStep] = []
        """In the file that autopilot.checkpoint.progress writes."""
        self.named: list[PrintedStep] = []
        """By the names of what it saved."""

    async def follow(self) -> SeenRun:
        await self.wait_for_job()
        self.began_at = time.monotonic()
        self.newest_save = self.saves.newest(min(time.time(), self.start.trusted_until))
        while not self.is_over():
            record = self.start.lease.heartbeat.exit if self.start.lease.heartbeat else None
            if record is not None:
                return self.make_run(exit_code=record.exit_code or (1 if record.signal else 0))
            has_changed = self.look()
            for loss in self.losses():
                if self.is_due(loss, has_changed):
                    return await self.lose(loss)
            if self.is_to_be_asked():
                return self.make_run(term=await self.end_softly())
            await asyncio.sleep(LOOK_S)
        return self.make_run()

    def is_over(self) -> bool:
        now = time.monotonic()
        if now >= self.start.until:
            return True
        if not self.has_saved or self.worked_s < self.enough_s or self.looks % MEMORY_EVERY:
            return False
        return self.count_after_save() >= self.start.steps or self.worked_s >= max(2 * self.enough_s, LEAST_WAIT_S)

    def is_to_be_asked(self) -> bool:
        is_last = time.monotonic() >= self.start.until - MARKET_S
        return is_last and self.start.is_asked_unsaved and not self.has_saved and self.worked_from is not None

    def count_after_save(self) -> int:
        """Steps that it told after its first save."""
        saved_at = self.saves.began_at[0] + time.time() - time.monotonic()
        return max(sum(each.at > saved_at for each in source) for source in self.sources())

    @property
    def enough_s(self) -> float:
        if not self.start.starts or self.worked_from is None:
            return self.start.enough_s
        beside_s = self.start.until - self.began_at - self.start.starts * (self.worked_from - self.began_at)
        return max(0.0, self.start.share * beside_s)

    @property
    def has_saved(self) -> bool:
        return bool(self.saves.began_at)

    @property
    def worked_s(self) -> float:
        """However long its start takes on a busy computer."""
        return 0.0 if self.worked_from is None else time.monotonic() - self.worked_from

    def sources(self) -> tuple[list[PrintedStep], ...]:
        """What the program told of its steps: in lines, in its progress file, and by the names of its saves."""
        return read_claims(self.printed.lines, self.start.lease.work.progress), self.told, self.named

    async def wait_for_job(self) -> None:
        """What the agent restores before is no save of the program's."""
        while time.monotonic() < self.start.until and not self.start.machine.job_processes():
            heartbeat = self.start.lease.heartbeat
            if heartbeat is not None and heartbeat.exit is not None:
                return
            await asyncio.sleep(LOOK_S)

    def look(self) -> bool:
        if self.looks % MEMORY_EVERY == 0:
            self.memory = max(self.memory, self.start.machine.memory_bytes())
        self.looks += 1
        self.printed.read(time.time())
        self.read_progress()
        if self.worked_from is None and (self.has_claimed() or self.told or self.has_saved):
            self.worked_from = time.monotonic()
        has_changed = self.saves.look(time.monotonic())
        names = (
            [os.path.relpath(path, self.start.machine.workdir) for path in self.saves.changed] if has_changed else []
        )
        steps = [read_name(name) for name in names]
        self.named += [PrintedStep(time.time(), step, None, None) for step in steps if step is not None]
        return has_changed

    def has_claimed(self) -> bool:
        """Whether one of the lines that are new tells a step: before there may be warnings of what it imports."""
        lines, self.read_lines = self.printed.lines[self.read_lines :], len(self.printed.lines)
        return bool(read_claims(lines, self.start.lease.work.progress))

    def read_progress(self) -> None:
        try:
            step = json.loads(self.start.machine.progress_file.read_bytes())["step"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(step, int) and (not self.told or self.told[-1].step != step):
            self.told.append(PrintedStep(time.time(), step, None, None))

    def losses(self) -> list[Loss]:
        is_overdue = self.worked_s >= self.start.lose_after_s + OVERDUE_S
        return [each for each in (self.start.loss, self.start.otherwise if is_overdue else None) if each is not None]

    def is_due(self, loss: Loss, has_changed: bool) -> bool:
        """Once something new is verified, or saved twice on a disk that is kept, or its share of the time is over; then
        at its moment, or when the next save begins."""
        now = time.monotonic()
        is_verified = len(self.start.lease.verified) > self.verified_before and self.has_saved
        is_late = self.start.lease.restore is not None and 0.0 < self.start.lose_at_latest_s <= self.worked_s
        if not (is_verified or is_late or (loss.keeps_disk and len(self.saves.began_at) >= SAVES_OF_A_DISK)):
            return False
        if self.worked_s < self.start.lose_after_s or now > self.start.lose_until:
            return False
        if loss.kind is LossKind.MID_SAVE:
            return has_changed
        self.due_from = min(self.due_from, now)
        return now >= self.due_from + self.start.beyond_save_s

    async def lose(self, loss: Loss) -> SeenRun:
        if loss.kind is not LossKind.TERM:
            await self.start.machine.kill()
            return self.make_run(lost_by=loss)
        term = await self.end_softly()
        await self.start.machine.kill()
        return self.make_run(lost_by=loss, term=term)

    async def end_softly(self) -> TermSave | None:
        """The job has what markets give; the agent sends what it saved until the same moment. None: it saved when it
        would have saved anyway, and ended."""
        machine, asked_at, asked_wall = self.start.machine, time.monotonic(), time.time()
        saved_before = self.saves.changed_at
        machine.term()
        ended_s: float | None = None
        while (passed_s := time.monotonic() - asked_at) < MARKET_S:
            self.look()
            if ended_s is None and not machine.job_processes():
                ended_s = passed_s
            if machine.agent is None or machine.agent.poll() is not None:
                break
            await asyncio.sleep(LOOK_S)
        self.look()
        return self.judge_end(asked_at, asked_wall, saved_before, ended_s)

    def judge_end(
        self, asked_at: float, asked_wall: float, saved_before: float, ended_s: float | None
    ) -> TermSave | None:
        """One that saves at once and works on has done what it could; so has one that had nothing new to save."""
        told = [each.at - asked_wall for each in self.sources()[0] or self.told]
        saved_s = self.saves.changed_at - asked_at
        has_saved = saved_s > max(0.0, saved_before - asked_at)
        has_nothing_new = max(told, default=-math.inf) <= saved_before - asked_at
        between = sum(0 < at <= saved_s for at in told)
        goes_on = has_saved and between <= AT_ONCE_STEPS and max(told, default=0.0) > saved_s
        was_killed = ended_s is None and not goes_on
        if has_saved and not was_killed and self.is_by_clock(asked_at):
            return None
        return TermSave(has_saved or has_nothing_new, MARKET_S if ended_s is None else ended_s, was_killed)

    def is_by_clock(self, asked_at: float) -> bool:
        """Whether the save after SIGTERM came when the next one was due by those before."""
        before = [at for at in self.saves.began_at if at <= asked_at]
        after = [at for at in self.saves.began_at if at > asked_at]
        if len(before) < LEAST_SAVES or not after:
            return False
        interval_s = median(b - a for a, b in pairwise(before))
        return abs(after[0] - before[-1] - interval_s) <= BY_CLOCK * interval_s

    def make_run(
        self, exit_code: int | None = None, lost_by: Loss | None = None, term: TermSave | None = None
    ) -> SeenRun:
        self.printed.read(time.time(), is_last=True)
        took_s = time.monotonic() - self.began_at
        run = SeenRun((), took_s, exit_code, lost_by, saves=len(self.saves.began_at), term=term)
        return replace(run, output=self.printed.tail())
