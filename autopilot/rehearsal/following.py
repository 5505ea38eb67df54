"""Following one run from its start to its end, or to the moment at which its machine is taken away."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import NamedTuple

from autopilot.rehearsal.machine import RehearsalMachine
from autopilot.rehearsal.mailbox import RehearsalLease
from autopilot.rehearsal.observed import Loss, LossKind, Said, SeenRun, TermSave
from autopilot.rehearsal.verdict import MARKET_S
from autopilot.rehearsal.watching import LOOK_S, SaveWatch

MEMORY_EVERY = 25
"""Looks between two readings of memory."""

SAVES_OF_A_DISK = 2
"""Of one run, after which its disk has something to go on from."""


class RunStart(NamedTuple):
    machine: RehearsalMachine
    lease: RehearsalLease
    until: float
    """By the monotonic clock: it is stopped then, lost or not."""
    least_until: float
    """Once something is saved it is stopped as early as this."""
    checkpoint_path: str


class RunFollower:
    """``moment_s``: the time from a new verified checkpoint to the loss."""

    def __init__(self, start: RunStart, moment_s: float) -> None:
        self.start, self.moment_s = start, moment_s
        self.saves = SaveWatch(start.checkpoint_path)
        self.verified_before = self.verified_count = len(start.lease.verified)
        self.verified_at: list[float] = []
        self.memory = self.looks = 0
        self.began_at = 0.0
        self.lose_at: float | None = None
        self.has_new_save = False
        self.told: list[Said] = []

    async def follow(self, loss: Loss | None) -> SeenRun:
        await self.wait_for_job()
        self.began_at = time.monotonic()
        while not self.is_over():
            record = self.start.lease.heartbeat.exit if self.start.lease.heartbeat else None
            if record is not None:
                return self.make_run(exit_code=record.exit_code or (1 if record.signal else 0))
            has_changed = self.look()
            if loss is not None and self.is_due(loss, has_changed):
                return await self.lose(loss)
            await asyncio.sleep(LOOK_S)
        return self.make_run()

    def is_over(self) -> bool:
        now, count = time.monotonic(), len(self.start.lease.verified)
        if count != self.verified_count:
            self.verified_count = count
            self.verified_at = [*self.verified_at[-1:], now]
        return now >= self.start.until or (now >= self.start.least_until and bool(self.saves.began_at))

    def count_unsent(self) -> float:
        """Seconds of work that the newest verified checkpoint may lack: it was copied after the one before it came."""
        return time.monotonic() - (self.verified_at[0] if len(self.verified_at) > 1 else self.began_at)

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
        self.read_progress()
        return self.saves.look(time.monotonic())

    def read_progress(self) -> None:
        try:
            step = json.loads(self.start.machine.progress_file.read_bytes())["step"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(step, int) and (not self.told or self.told[-1].step != step):
            self.told.append(Said(step))

    def is_due(self, loss: Loss, has_changed: bool) -> bool:
        """Once something new is verified, or saved twice on a disk that is kept; then by chance, or when the
        next save begins."""
        is_verified = len(self.start.lease.verified) > self.verified_before and bool(self.saves.began_at)
        if not is_verified and not (loss.keeps_disk and len(self.saves.began_at) >= SAVES_OF_A_DISK):
            return False
        if loss.kind is LossKind.MID_SAVE:
            return has_changed
        if self.lose_at is None:
            self.lose_at = time.monotonic() + self.moment_s
        return time.monotonic() >= self.lose_at

    async def lose(self, loss: Loss) -> SeenRun:
        unsent_s = self.count_unsent()
        if loss.kind is not LossKind.TERM:
            await self.start.machine.kill()
            return replace(self.make_run(lost_by=loss), unsent_s=unsent_s)
        term = await self.end_softly()
        await self.start.machine.kill()
        return replace(self.make_run(lost_by=loss, term=term), unsent_s=unsent_s)

    async def end_softly(self) -> TermSave:
        """The job has what markets give; the agent sends what it saved until the same moment."""
        machine, asked_at, saved_before = self.start.machine, time.monotonic(), self.saves.changed_at
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
        has_saved = self.saves.changed_at > max(asked_at, saved_before)
        return TermSave(has_saved, passed_s if ended_s is None else ended_s, ended_s is None)

    def make_run(
        self, exit_code: int | None = None, lost_by: Loss | None = None, term: TermSave | None = None
    ) -> SeenRun:
        took_s = time.monotonic() - self.began_at
        return SeenRun((), took_s, exit_code, lost_by, saves=len(self.saves.began_at), term=term)
