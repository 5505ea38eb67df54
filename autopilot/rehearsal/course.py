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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef
from autopilot.rehearsal.following import RunFollower, RunStart
from autopilot.rehearsal.machine import RehearsalMachine
from autopilot.rehearsal.mailbox import RehearsalLease, serve_store
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, SeenCheckpoint, SeenRun
from autopilot.rehearsal.placing import FollowedRun, PlacedRuns, place
from autopilot.rehearsal.tables import count_most, is_doubled, is_overwritten
from autopilot.rehearsal.verdict import JUMP_STEPS, LEAST_JUMP_STEPS, MARKET_S, list_jumps
from autopilot.rehearsal.watching import LOOK_S, list_saved, read_outputs

WHOLE_SHARE = 0.25
"""Of the time beside all starts, for the run that nothing interrupts; longer while nothing is saved."""
SECOND_SHARE = 0.15
"""The same for the next one, up to its loss: after it the first run still tells what a resume is compared with."""
CLEANING_S = 6.0
"""Of the time, for what comes before the first run and after the last."""
UNLOST = 2
"""Runs that nothing interrupts, of which the second one comes to the first loss."""
LOSSES = (
    Loss(LossKind.TERM, keeps_disk=False),
    Loss(LossKind.MID_SAVE, keeps_disk=True),
    Loss(LossKind.KILL, keeps_disk=False),
    Loss(LossKind.TERM, keeps_disk=True),
    Loss(LossKind.KILL, keeps_disk=True),
    Loss(LossKind.MID_SAVE, keeps_disk=False),
)
MOST_MOMENT_S = 3.0
"""In a program that ends by itself a loss comes so long after a save at the most: it is to come to its end."""
MIDDLE = 0.3, 0.7
"""Of a program that ends by itself: where its first loss comes, so that its first epoch is over by then."""
SEAM_STEPS = JUMP_STEPS + 2
"""Told after the last loss, and it is over where its end is too far."""
COMPARED_STEPS = LEAST_JUMP_STEPS + 2
"""Told without a loss beyond the first save, and beyond the first loss where that comes at its moment."""
MOST_WAIT_S = 5.0
"""For a save, where the share of a loss is over."""
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

    ends: bool = False
    """A run that nothing interrupts comes to its end in its share of the time."""
    whole_s: float = 0.0
    """From the first step that it told to the last."""
    step_s: float = 0.0
    """Seconds between two steps that it printed."""
    starts_s: list[float] = field(default_factory=list)
    """From the start of a machine to the first step that it tells."""
    intervals: list[float] = field(default_factory=list)
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
    def start_s(self) -> float:
        """As a rule. The first one may take long: what it reads is at hand for the others."""
        return median(self.starts_s[1:] or self.starts_s or [0.0])

    @property
    def least_start_s(self) -> float:
        return min(self.starts_s, default=0.0)


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
        self.until = time.monotonic() + bounds.seconds - min(CLEANING_S, bounds.seconds / 10)
        self.notes = CourseNotes()
        self.machine = RehearsalMachine(place / "machine", program.work.workdir)
        self.leases = 0
        self.followed: list[FollowedRun] = []
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
        if not first.exit_code and first.saves:
            await self.lose_machines()
        return self.sum_up()

    def sum_up(self) -> RehearsalSeen:
        placed, notes = place(self.followed), self.notes
        first, *course = placed.runs
        whole = (first, *course[:1])
        return RehearsalSeen(
            whole=whole,
            course=tuple(course),
            checkpoint=SeenCheckpoint(notes.bytes, notes.save_s, notes.interval_s, placed.interval_steps),
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
            not_reached=tuple(self.list_not_reached(placed, whole, course)),
            not_isolated=self.program.not_isolated,
        )

    @property
    def starts(self) -> int:
        """At least: one after each kind of loss."""
        return UNLOST + min(self.bounds.losses, len(LossKind))

    def list_not_reached(self, placed: PlacedRuns, whole: tuple[SeenRun, ...], course: list[SeenRun]) -> list[str]:
        missed, lost = [], sum(run.lost_by is not None for run in course)
        if placed.scale.is_unclear:
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
        if not list_jumps(whole, tuple(course)):
            missed.append("a comparison of the loss after a resume with two uninterrupted runs: too little was told")
        if not any(run.exit_code == 0 for run in course[1:]):
            missed.append("the end of a run that had lost machines")
        return missed

    def minutes_for_all(self) -> int:
        """Whole ones, for all starts and the work between them, and more than there were."""
        starts_s = (self.bounds.losses + UNLOST) * (self.notes.start_s + READ_S) / (1 - WHOLE_SHARE - SECOND_SHARE)
        return max(math.ceil(starts_s / 60), math.floor(self.bounds.seconds / 60) + 1)

    # -- machines

    async def rent(self) -> None:
        """A fresh disk, where the one before was: on rented machines a work directory has the same path everywhere, and
        programs keep paths in what they save."""
        await self.end()
        self.machine.furnish(self.program.put_code)

    def lease(self, job: str, restore: CheckpointRef | None) -> RehearsalLease:
        self.leases += 1
        return RehearsalLease(self.store, job, self.leases, self.program.work, restore)

    async def end(self) -> None:
        await self.machine.kill()
        self.machine.remove()

    # -- runs

    async def run_whole(self) -> SeenRun:
        await self.rent()
        start = self.start(self.lease("whole", None))
        run = await self.run_once(
            start._replace(
                starts=self.starts,
                share=WHOLE_SHARE,
                steps=COMPARED_STEPS,
                is_asked_unsaved=self.program.counts_on_term,
            )
        )
        self.notes.ends = run.exit_code == 0
        if run.said:
            self.notes.whole_s = run.said[-1].at - run.said[0].at
            self.notes.step_s = self.notes.whole_s / len(run.said)
        self.say(f"run without a loss: {describe(run)}")
        return run

    async def lose_machines(self) -> None:
        """The first of these runs is another one of the whole, up to its loss. A program that ends before all losses
        begins again, as another job."""
        runs = lost = job = 0
        await self.rent()
        lease = self.lease("course-0", None)
        trusted_until = math.inf
        while time.monotonic() < self.until:
            start = self.start(lease)._replace(trusted_until=trusted_until)
            run = await self.run_once(self.plan_loss(start, lost, is_whole=not runs))
            runs += 1
            self.say(f"{describe_loss(run)}: {describe(run)}")
            lost += run.lost_by is not None
            if run.lost_by is None and (lost >= self.bounds.losses or run.exit_code != 0):
                break
            trusted_until = math.inf
            if run.lost_by is not None and run.lost_by.keeps_disk:
                trusted_until = self.cut_off_at if run.lost_by.kind is LossKind.MID_SAVE else math.inf
                continue
            await self.rent()
            job += run.lost_by is None
            lease = self.lease(f"course-{job}", None if run.lost_by is None else lease.restore)

    def plan_loss(self, start: RunStart, lost: int, *, is_whole: bool) -> RunStart:
        """The time that is left is shared by the losses that are left; each comes at a random moment of its share."""
        notes = self.notes
        if lost >= self.bounds.losses:
            return start if notes.ends else start._replace(enough_s=0.0, steps=SEAM_STEPS)
        now, latest = time.monotonic(), self.until - notes.least_start_s - READ_S
        share = max(0.0, (latest - now) / (self.bounds.losses - lost) - notes.start_s)
        lose_at_latest_s = math.inf if notes.ends else max(share, min(notes.interval_s * 1.5, MOST_WAIT_S))
        if is_whole:
            lose_after_s = math.inf if notes.ends else self.choose_first_moment()
        elif notes.ends and all(each.job != start.lease.job for each in self.followed):
            lose_after_s = notes.whole_s * self.random.uniform(*MIDDLE)
        elif notes.ends:
            lose_after_s = notes.interval_s + self.random.uniform(0.0, min(max(notes.interval_s, 1.0), MOST_MOMENT_S))
        else:
            lose_after_s = self.random.uniform(0.0, share)
        return start._replace(
            loss=self.choose(is_verified=bool(notes.verified)),
            otherwise=self.choose(is_verified=False),
            lose_after_s=lose_after_s,
            lose_at_latest_s=lose_at_latest_s,
            beyond_save_s=0.0 if notes.ends else self.random.uniform(0.0, min(notes.interval_s, MOST_WAIT_S)),
            lose_until=latest,
        )

    def choose_first_moment(self) -> float:
        """Early enough that the run before has told what comes after the resume."""
        notes = self.notes
        beside_s = max(0.0, self.bounds.seconds - self.starts * notes.start_s)
        beyond_s = notes.interval_s + COMPARED_STEPS * notes.step_s
        return max(0.0, min(SECOND_SHARE * beside_s, notes.whole_s - beyond_s))

    def choose(self, *, is_verified: bool) -> Loss:
        """A fresh disk needs a verified checkpoint: before there is any, the disks are kept."""
        possible = [loss for loss in LOSSES if is_verified or loss.keeps_disk]
        return next((loss for loss in possible if loss not in self.tried), possible[len(self.tried) % len(possible)])

    async def run_once(self, start: RunStart) -> SeenRun:
        machine, lease = self.machine, start.lease
        outputs_before = self.read_outputs()
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
        await self.renew_at_last(lease)
        to_wall = time.time() - time.monotonic()
        begun = {name: [at + to_wall for at in times] for name, times in look.saves.writes.items()}
        run = replace(run, restored=has_saved)
        sources = look.sources()
        self.followed.append(FollowedRun(run, sources, lease.job, look.newest_save, begun))
        first_told = next((source[0].at for source in sources if source), None)
        if first_told is not None:
            self.notes.starts_s.append(first_told - began_wall)
        self.take_notes(look)
        self.compare_outputs(outputs_before)
        if run.lost_by is not None and (run.lost_by.kind is not LossKind.TERM or run.term is not None):
            self.tried.append(run.lost_by)
        return place(self.followed).runs[-1]

    async def renew_at_last(self, lease: RehearsalLease) -> None:
        """What was uploaded until the loss counts, unless the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self.until - time.monotonic())):
                await lease.renew()

    def start(self, lease: RehearsalLease) -> RunStart:
        checkpoint_path = os.path.join(self.machine.workdir, self.program.work.checkpoint_path)
        return RunStart(self.machine, lease, self.until, checkpoint_path)

    def take_notes(self, look: RunFollower) -> None:
        notes, saves = self.notes, look.saves
        notes.intervals += [after - before for before, after in pairwise(saves.began_at)]
        to_wall = time.time() - time.monotonic()
        self.cut_off_at = saves.began_at[-1] + to_wall - LOOK_S * 2 if saves.began_at else math.inf
        notes.save_s = max(notes.save_s, saves.longest_s)
        notes.in_place = notes.in_place or saves.in_place
        notes.output += look.printed.bytes
        notes.memory = max(notes.memory, look.memory)
        notes.reports_saves = notes.reports_saves or look.start.machine.mark.exists()
        notes.verified += len(look.start.lease.verified) - look.verified_before
        sizes = [manifest.content_size for manifest in look.start.lease.verified.values()]
        notes.bytes = max([notes.bytes, *sizes])

    # -- outputs

    def read_outputs(self) -> dict[str, str]:
        return read_outputs(self.machine.workdir, self.machine.code)

    def compare_outputs(self, before: dict[str, str]) -> None:
        after = self.read_outputs()
        if not self.notes.rows:
            self.notes.rows = {name: count_most(text) for name, text in after.items()}
        for name, text in before.items():
            if name in after and is_overwritten(text, after[name]):
                self.notes.overwritten.append(name)
        for name, text in after.items():
            if name in self.notes.rows and is_doubled(text, self.notes.rows[name]):
                self.notes.doubled.append(name)


def describe(run: SeenRun) -> str:
    steps = "no step told" if run.first_step is None else f"steps {run.first_step} to {run.last_step}"
    ended = "" if run.exit_code is None else f", ended with code {run.exit_code}"
    return f"{steps} in {run.took_s:.0f} s, {run.saves} saves{ended}"


def describe_loss(run: SeenRun) -> str:
    if run.lost_by is None:
        return "run to the end" if run.exit_code is not None else "run until the time was over"
    disk = "disk kept" if run.lost_by.keeps_disk else "fresh disk"
    return f"lost by {run.lost_by.kind.value}, {disk}"
