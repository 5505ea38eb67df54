"""The course of a rehearsal: two runs that nothing interrupts, then losses until the time is over."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef
from autopilot.rehearsal.following import RunFollower, RunStart
from autopilot.rehearsal.lines import StepScale
from autopilot.rehearsal.machine import RehearsalMachine
from autopilot.rehearsal.mailbox import RehearsalLease, serve_store
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, Said, SeenCheckpoint, SeenRun
from autopilot.rehearsal.tables import count_most, is_doubled, is_overwritten
from autopilot.rehearsal.verdict import JUMP_STEPS, MARKET_S
from autopilot.rehearsal.watching import LOOK_S, list_saved, read_outputs

WHOLE_SHARE = 0.2
"""Of the time beside all starts, for each of the two runs that nothing interrupts; longer while nothing is saved."""
UNLOST = 2
"""Runs that nothing interrupts, of which the second one comes to the first loss."""
LOSSES = (
    Loss(LossKind.TERM, keeps_disk=False),
    Loss(LossKind.MID_SAVE, keeps_disk=True),
    Loss(LossKind.KILL, keeps_disk=False),
    Loss(LossKind.KILL, keeps_disk=True),
    Loss(LossKind.TERM, keeps_disk=True),
    Loss(LossKind.MID_SAVE, keeps_disk=False),
)
MOST_MOMENT_S = 3.0
"""In a program that ends by itself a loss comes so long after a save at the most: it is to come to its end."""
MIDDLE = 0.3, 0.7
"""Of a program that ends by itself: where its first loss comes, so that its first epoch is over by then."""
SEAM_STEPS = JUMP_STEPS + 2
"""Told after the last loss, and it is over where its end is too far."""
READ_S = 2.0
"""For a run after a loss, beside its start."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is rehearsed. ``put_code`` lays its code into a work directory."""

    work: Work
    put_code: Callable[[Path], None]
    framework: str = ""
    counts_on_term: bool = False
    not_isolated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RehearsalBounds:
    seconds: float
    losses: int
    seed: int = 0


@dataclass
class CourseNotes:
    """What is learnt on the way."""

    scale: StepScale | None = None
    ends: bool = False
    """A run that nothing interrupts comes to its end in its share of the time."""
    whole_s: float = 0.0
    """From the first step that it told to the last."""
    start_s: float = 0.0
    """From the start of a machine to the first step that it prints, at the most."""
    intervals: list[float] = field(default_factory=list)
    apart: dict[str, list[float]] = field(default_factory=dict)
    """Steps between two saves, by the name of the file; none where it was written but once in each run."""
    bytes: int = 0
    save_s: float = 0.0
    verified: int = 0
    in_place: str = ""
    reports_saves: bool = False
    memory: int = 0
    output: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Of each table, of one key at the most, where nothing is lost."""
    overwritten: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @property
    def interval_s(self) -> float:
        return median(self.intervals) if self.intervals else 0.0

    @property
    def interval_steps(self) -> float:
        """Of the file that is written most seldom: the program may resume from any of them."""
        return max((median(apart) for apart in self.apart.values() if apart), default=0.0)


async def rehearse(
    program: Program, bounds: RehearsalBounds, say: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> RehearsalSeen:
    """Raises ``OSError``. Nothing of it is left when it returns, or is cancelled."""
    with tempfile.TemporaryDirectory(prefix="autopilot-rehearsal-") as place:
        async with serve_store(Path(place)) as store:
            course = RehearsalCourse(Path(place), program, bounds, say, environ, store)
            try:
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, course.ends.set)
                return await course.run_unless_ended()
            finally:
                await course.end()


class RehearsalCourse:
    def __init__(
        self,
        place: Path,
        program: Program,
        bounds: RehearsalBounds,
        say: Callable[[str], None],
        environ: Mapping[str, str],
        store: LocalBlobStore,
    ) -> None:
        self.place, self.program, self.bounds, self.say, self.environ = place, program, bounds, say, environ
        self.store = store
        self.random = random.Random(bounds.seed)  # noqa: S311 -- moments of losses, the same for the same seed
        self.until = time.monotonic() + bounds.seconds
        self.notes = CourseNotes()
        self.machines: list[RehearsalMachine] = []
        self.leases = 0
        self.told: list[Said] = []
        """Of the present job."""
        self.cut_off_at = math.inf
        """When the save began, by the wall clock, in whose midst the machine was lost."""
        self.tried: list[Loss] = []
        self.ends = asyncio.Event()

    async def run_unless_ended(self) -> RehearsalSeen:
        """Raises ``OSError`` when this process is asked to end."""
        running, ending = asyncio.create_task(self.run()), asyncio.create_task(self.ends.wait())
        try:
            await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise OSError("it was asked to end")
            return running.result()
        finally:
            running.cancel()
            ending.cancel()
            await asyncio.gather(running, ending, return_exceptions=True)

    async def run(self) -> RehearsalSeen:
        first = await self.run_whole()
        is_hopeless = bool(first.exit_code) or not first.saves
        course = [] if is_hopeless else await self.lose_machines()
        whole, notes = (first, *course[:1]), self.notes
        return RehearsalSeen(
            whole=whole,
            course=tuple(course),
            checkpoint=SeenCheckpoint(notes.bytes, notes.save_s, notes.interval_s, notes.interval_steps),
            verified=notes.verified,
            in_place=notes.in_place,
            reports_saves=notes.reports_saves,
            counts_on_term=self.program.counts_on_term,
            overwritten=tuple(dict.fromkeys(notes.overwritten)),
            doubled=tuple(dict.fromkeys(notes.doubled)),
            promised=LOSSES[: self.bounds.losses],
            framework=self.program.framework,
            memory_bytes=notes.memory,
            output_bytes=notes.output,
            not_reached=tuple(self.list_not_reached(whole, course)),
            not_isolated=self.program.not_isolated,
        )

    @property
    def starts(self) -> int:
        """At least: one after each kind of loss."""
        return UNLOST + min(self.bounds.losses, len(LossKind))

    def list_not_reached(self, whole: tuple[SeenRun, ...], course: list[SeenRun]) -> list[str]:
        missed, lost = [], sum(run.lost_by is not None for run in course)
        if self.notes.scale is not None and self.notes.scale.is_unclear:
            missed.append(
                "a comparison of steps: they begin again, and no epoch is printed; print a step that only grows"
            )
        if not self.notes.verified and any(run.saves for run in whole):
            missed.append(
                "a verified checkpoint: its saves follow so closely that none was left alone; save less often"
            )
        if lost < self.bounds.losses:
            start = f"a start takes {self.notes.start_s:.0f} s; --minutes {self.minutes_for_all()} has time for all"
            missed.append(f"{self.bounds.losses - lost} of {self.bounds.losses} losses: {start}")
        if not self.notes.ends:
            missed.append("the end of an uninterrupted run")
        if len([run for run in whole if run.losses]) < 2:
            missed.append("a comparison of the loss with two uninterrupted runs: it told no loss twice")
        if not any(run.exit_code == 0 for run in course[1:]):
            missed.append("the end of a run that had lost machines")
        return missed

    def minutes_for_all(self) -> int:
        """Whole ones, for all starts and the work between them, and more than there were."""
        starts_s = (self.bounds.losses + UNLOST) * (self.notes.start_s + READ_S) / (1 - UNLOST * WHOLE_SHARE)
        return max(math.ceil(starts_s / 60), math.floor(self.bounds.seconds / 60) + 1)

    # -- machines

    def rent(self) -> RehearsalMachine:
        """A fresh disk."""
        machine = RehearsalMachine(self.place / f"machine-{len(self.machines)}", self.program.work.workdir)
        machine.furnish(self.program.put_code)
        self.machines.append(machine)
        return machine

    def lease(self, job: str, restore: CheckpointRef | None) -> RehearsalLease:
        self.leases += 1
        return RehearsalLease(self.store, job, f"lease-{self.leases}", self.program.work, restore)

    async def end(self) -> None:
        for machine in self.machines:
            await machine.kill()
            machine.remove()

    # -- runs

    async def run_whole(self) -> SeenRun:
        machine, lease = self.rent(), self.lease("whole", None)
        run = await self.run_once(self.start(machine, lease)._replace(starts=self.starts, share=WHOLE_SHARE))
        self.notes.ends = run.exit_code == 0
        self.notes.whole_s = run.said[-1].at - run.said[0].at if run.said else 0.0
        self.say(f"run without a loss: {describe(run)}")
        await self.drop(machine)
        return run

    async def lose_machines(self) -> list[SeenRun]:
        """The first of them is another run of the whole, up to its loss. A program that ends before all losses begins
        again, as another job."""
        runs: list[SeenRun] = []
        lost, job = 0, 0
        machine, lease = self.rent(), self.lease("course-0", None)
        self.told = []
        trusted_until = math.inf
        while time.monotonic() < self.until:
            start = self.start(machine, lease)._replace(trusted_until=trusted_until)
            run = await self.run_once(self.plan_loss(start, lost, is_whole=not runs))
            runs.append(run)
            self.say(f"{describe_loss(run)}: {describe(run)}")
            lost += run.lost_by is not None
            if run.lost_by is None and (lost >= self.bounds.losses or run.exit_code != 0):
                break
            trusted_until = math.inf
            if run.lost_by is not None and run.lost_by.keeps_disk:
                trusted_until = self.cut_off_at if run.lost_by.kind is LossKind.MID_SAVE else math.inf
                continue
            await self.drop(machine)
            machine = self.rent()
            if run.lost_by is None:
                job += 1
                lease, self.told = self.lease(f"course-{job}", None), []
            else:
                lease = self.lease(f"course-{job}", lease.restore)
        return runs

    def plan_loss(self, start: RunStart, lost: int, *, is_whole: bool) -> RunStart:
        """The time that is left is shared by the losses that are left; each comes at a random moment of its share."""
        if lost >= self.bounds.losses:
            return start if self.notes.ends else start._replace(enough_s=0.0, steps=SEAM_STEPS)
        now, latest = time.monotonic(), self.until - self.notes.start_s - READ_S
        share = (latest - now) / (self.bounds.losses - lost) - self.notes.start_s
        if is_whole:
            beside_s = max(0.0, self.bounds.seconds - self.starts * self.notes.start_s)
            lose_after_s = math.inf if self.notes.ends else WHOLE_SHARE * beside_s
        elif self.notes.ends and not self.told:
            lose_after_s = self.notes.whole_s * self.random.uniform(*MIDDLE)
        elif self.notes.ends:
            interval_s = self.notes.interval_s
            lose_after_s = interval_s + self.random.uniform(0.0, min(max(interval_s, 1.0), MOST_MOMENT_S))
        else:
            lose_after_s = self.random.uniform(0.0, max(share, 0.0))
        return start._replace(loss=self.choose(), lose_after_s=lose_after_s, lose_until=latest)

    def choose(self) -> Loss:
        """A fresh disk needs a verified checkpoint: before there is any, the disks are kept."""
        possible = [loss for loss in LOSSES if self.notes.verified or loss.keeps_disk]
        return next((loss for loss in possible if loss not in self.tried), possible[len(self.tried) % len(possible)])

    async def drop(self, machine: RehearsalMachine) -> None:
        await machine.kill()
        machine.remove()

    async def run_once(self, start: RunStart) -> SeenRun:
        machine, lease = start.machine, start.lease
        outputs_before = self.read_outputs(machine)
        has_saved = lease.restore is not None or bool(list_saved(start.checkpoint_path))
        began_wall = time.time()
        await lease.renew()
        renewing = asyncio.create_task(lease.keep_renewed())
        look = RunFollower(start)
        machine.start(lease.orders_url, MARKET_S, self.environ)
        try:
            run = await look.follow()
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await machine.kill()
        await lease.renew()
        claims = look.claims()
        self.notes.scale = self.notes.scale or StepScale.of(claims)
        said = self.notes.scale.place(claims)
        run = replace(run, said=said, restored=has_saved, saved_step=self.step_at(look.newest_save))
        self.told = [*self.told, *said]
        if said:
            self.notes.start_s = max(self.notes.start_s, said[0].at - began_wall)
        self.take_notes(look, said)
        self.compare_outputs(machine, outputs_before)
        if run.lost_by is not None:
            self.tried.append(run.lost_by)
        return run

    def step_at(self, wall: float | None) -> int | None:
        """That the present job had told last."""
        if wall is None or not self.told or wall < self.told[0].at:
            return None
        return max((said.at, said.step) for said in self.told if said.at <= wall)[1]

    def start(self, machine: RehearsalMachine, lease: RehearsalLease) -> RunStart:
        return RunStart(machine, lease, self.until, self.checkpoint_path(machine))

    def checkpoint_path(self, machine: RehearsalMachine) -> str:
        return os.path.join(machine.workdir, self.program.work.checkpoint_path)

    def take_notes(self, look: RunFollower, said: tuple[Said, ...]) -> None:
        notes, saves = self.notes, look.saves
        notes.intervals += [after - before for before, after in pairwise(saves.began_at)]
        to_wall = time.time() - time.monotonic()
        self.cut_off_at = saves.began_at[-1] + to_wall - LOOK_S * 2 if saves.began_at else math.inf
        for name, begun in saves.writes.items():
            steps = [count_before(said, at + to_wall) for at in begun]
            apart = [float(after - before) for before, after in pairwise(steps)]
            notes.apart.setdefault(os.path.basename(name), []).extend(apart)
        notes.save_s = max(notes.save_s, saves.longest_s)
        notes.in_place = notes.in_place or saves.in_place
        notes.output += look.printed.bytes
        notes.memory = max(notes.memory, look.memory)
        notes.reports_saves = notes.reports_saves or look.start.machine.mark.exists()
        notes.verified += len(look.start.lease.verified) - look.verified_before
        sizes = [manifest.content_size for manifest in look.start.lease.verified.values()]
        notes.bytes = max([notes.bytes, *sizes])

    # -- outputs

    def read_outputs(self, machine: RehearsalMachine) -> dict[str, str]:
        return read_outputs(machine.workdir, machine.code)

    def compare_outputs(self, machine: RehearsalMachine, before: dict[str, str]) -> None:
        after = self.read_outputs(machine)
        if not self.notes.rows:
            self.notes.rows = {name: count_most(text) for name, text in after.items()}
        for name, text in before.items():
            if name in after and is_overwritten(text, after[name]):
                self.notes.overwritten.append(name)
        for name, text in after.items():
            if name in self.notes.rows and is_doubled(text, self.notes.rows[name]):
                self.notes.doubled.append(name)


def count_before(said: tuple[Said, ...], wall: float) -> int:
    """The step that was told last by then; or the one before the first."""
    steps = [each.step for each in said if each.at <= wall]
    return steps[-1] if steps else (said[0].step - 1 if said else 0)


def describe(run: SeenRun) -> str:
    steps = "no step told" if run.first_step is None else f"steps {run.first_step} to {run.last_step}"
    ended = "" if run.exit_code is None else f", ended with code {run.exit_code}"
    return f"{steps} in {run.took_s:.0f} s, {run.saves} saves{ended}"


def describe_loss(run: SeenRun) -> str:
    if run.lost_by is None:
        return "run to the end" if run.exit_code is not None else "run until the time was over"
    disk = "disk kept" if run.lost_by.keeps_disk else "fresh disk"
    return f"lost by {run.lost_by.kind.value}, {disk}"
