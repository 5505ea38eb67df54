"""The course of a rehearsal: two runs that nothing interrupts, then losses until the time is over."""

from __future__ import annotations

import asyncio
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
from autopilot.rehearsal.lines import has_steps_twice, read_output
from autopilot.rehearsal.machine import RehearsalMachine
from autopilot.rehearsal.mailbox import RehearsalLease, serve_store
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, SeenCheckpoint, SeenRun
from autopilot.rehearsal.verdict import MARKET_S
from autopilot.rehearsal.watching import is_overwritten, list_saved, read_outputs

WHOLE_SHARE = 0.2
"""Of the time, for each of the two runs that nothing interrupts; longer while nothing is saved."""
LOSSES = (
    Loss(LossKind.TERM, keeps_disk=False),
    Loss(LossKind.MID_SAVE, keeps_disk=True),
    Loss(LossKind.KILL, keeps_disk=False),
    Loss(LossKind.KILL, keeps_disk=True),
    Loss(LossKind.TERM, keeps_disk=True),
    Loss(LossKind.MID_SAVE, keeps_disk=False),
)
MOST_MOMENT_S = 3.0
"""After the save that a loss waits for, it comes within an interval, or within this where that is longer."""
OUTPUT_TAIL = 2000
AGENT_LINE = "autopilot: "


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

    intervals: list[float] = field(default_factory=list)
    bytes: int = 0
    save_s: float = 0.0
    verified: int = 0
    in_place: str = ""
    reports_saves: bool = False
    memory: int = 0
    output: int = 0
    overwritten: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


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
        whole: list[SeenRun] = []
        for name in ("first", "second"):
            whole.append(await self.run_whole(name))
            is_hopeless = bool(whole[-1].exit_code) or not whole[-1].saves
            if is_hopeless:
                break
        course, lost = ([], 0) if is_hopeless else await self.lose_machines()
        notes = self.notes
        return RehearsalSeen(
            whole=tuple(whole),
            course=tuple(course),
            checkpoint=SeenCheckpoint(notes.bytes, notes.save_s, median(notes.intervals) if notes.intervals else 0.0),
            verified=notes.verified,
            in_place=notes.in_place,
            reports_saves=notes.reports_saves,
            counts_on_term=self.program.counts_on_term,
            overwritten=tuple(dict.fromkeys(notes.overwritten)),
            doubled=tuple(dict.fromkeys(notes.doubled)),
            framework=self.program.framework,
            memory_bytes=notes.memory,
            output_bytes=notes.output,
            not_reached=tuple(self.list_not_reached(whole, course, lost)),
            not_isolated=self.program.not_isolated,
        )

    def list_not_reached(self, whole: list[SeenRun], course: list[SeenRun], lost: int) -> list[str]:
        missed = []
        if not self.notes.verified and any(run.saves for run in whole):
            missed.append(
                "a verified checkpoint: its saves follow so closely that none was left alone; save less often"
            )
        if lost < self.bounds.losses:
            missed.append(f"{self.bounds.losses - lost} of {self.bounds.losses} losses")
        if not all(run.exit_code == 0 for run in whole[:1]):
            missed.append("the end of an uninterrupted run")
        if len([run for run in whole if run.losses]) < 2:
            missed.append("a comparison of the loss with two uninterrupted runs: it told no loss twice")
        if not any(run.exit_code == 0 for run in course):
            missed.append("the end of a run that had lost machines")
        return missed

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

    async def run_whole(self, name: str) -> SeenRun:
        machine = self.rent()
        least_until = time.monotonic() + WHOLE_SHARE * self.bounds.seconds
        run = await self.run_once(self.start(machine, self.lease(f"whole-{name}", None), self.until, least_until), None)
        self.say(f"{name} run without a loss: {describe(run)}")
        await self.drop(machine)
        return run

    async def lose_machines(self) -> tuple[list[SeenRun], int]:
        """Runs and the number of losses. A program that ends before all of them begins again, as another job."""
        runs: list[SeenRun] = []
        lost, job, number = 0, 0, 0
        machine, lease = self.rent(), self.lease("course-0", None)
        while time.monotonic() < self.until:
            loss = self.choose(number) if lost < self.bounds.losses else None
            run = await self.run_once(self.start(machine, lease, self.until), loss)
            runs.append(run)
            self.say(f"{describe_loss(run)}: {describe(run)}")
            number += run.lost_by is not None
            lost += run.lost_by is not None
            if run.lost_by is None and (lost >= self.bounds.losses or run.exit_code != 0):
                break
            if run.lost_by is not None and run.lost_by.keeps_disk:
                continue
            await self.drop(machine)
            machine = self.rent()
            if run.lost_by is None:
                job += 1
                lease = self.lease(f"course-{job}", None)
            else:
                lease = self.lease(f"course-{job}", lease.restore)
        return runs, lost

    def choose(self, number: int) -> Loss:
        """A fresh disk needs a verified checkpoint: before there is any, the disks are kept."""
        possible = [loss for loss in LOSSES if self.notes.verified or loss.keeps_disk]
        return possible[number % len(possible)]

    async def drop(self, machine: RehearsalMachine) -> None:
        await machine.kill()
        machine.remove()

    async def run_once(self, start: RunStart, loss: Loss | None) -> SeenRun:
        machine, lease = start.machine, start.lease
        printed_before, outputs_before = len(lease.output()), self.read_outputs(machine)
        has_saved = lease.restore is not None or bool(list_saved(start.checkpoint_path))
        await lease.renew()
        renewing = asyncio.create_task(lease.keep_renewed())
        look = RunFollower(start, self.moment())
        machine.start(lease.orders_url, MARKET_S, self.environ)
        try:
            run = await look.follow(loss)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await machine.kill()
        await lease.renew()
        text = own_output(lease.output()[printed_before:])
        self.take_notes(look, text)
        self.compare_outputs(machine, outputs_before)
        said = read_output(text, self.program.work.progress) or tuple(look.told)
        return replace(run, said=said, output=text[-OUTPUT_TAIL:], restored=has_saved)

    def moment(self) -> float:
        """After what a loss waits for."""
        apart = median(self.notes.intervals) if self.notes.intervals else 0.0
        return self.random.uniform(0.0, min(max(apart, 1.0), MOST_MOMENT_S))

    def start(
        self, machine: RehearsalMachine, lease: RehearsalLease, until: float, least_until: float | None = None
    ) -> RunStart:
        return RunStart(
            machine, lease, until, until if least_until is None else least_until, self.checkpoint_path(machine)
        )

    def checkpoint_path(self, machine: RehearsalMachine) -> str:
        return os.path.join(machine.workdir, self.program.work.checkpoint_path)

    def take_notes(self, look: RunFollower, text: str) -> None:
        notes, began_at = self.notes, look.saves.began_at
        notes.intervals += [after - before for before, after in pairwise(began_at)]
        notes.save_s = max(notes.save_s, look.saves.longest_s)
        notes.in_place = notes.in_place or look.saves.in_place
        notes.output += len(text)
        notes.memory = max(notes.memory, look.memory)
        notes.reports_saves = notes.reports_saves or look.start.machine.mark.exists()
        notes.verified += len(look.start.lease.verified) - look.verified_before
        sizes = [manifest.content_size for manifest in look.start.lease.verified.values()]
        notes.bytes = max([notes.bytes, *sizes])

    # -- outputs

    def read_outputs(self, machine: RehearsalMachine) -> dict[str, str]:
        kept = {each.path for each in list_saved(self.checkpoint_path(machine))}

        def is_left_out(path: Path) -> bool:
            return str(path) in kept or path in machine.code or path == machine.mark

        return read_outputs(machine.workdir, is_left_out)

    def compare_outputs(self, machine: RehearsalMachine, before: dict[str, str]) -> None:
        after = self.read_outputs(machine)
        for name, text in before.items():
            if name in after and is_overwritten(text, after[name]):
                self.notes.overwritten.append(name)
        for name, text in after.items():
            if has_steps_twice(text):
                self.notes.doubled.append(name)


def own_output(text: str) -> str:
    """Without the agent's own lines."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(AGENT_LINE))


def describe(run: SeenRun) -> str:
    steps = "no step told" if run.first_step is None else f"steps {run.first_step} to {run.last_step}"
    ended = "" if run.exit_code is None else f", ended with code {run.exit_code}"
    return f"{steps} in {run.took_s:.0f} s, {run.saves} saves{ended}"


def describe_loss(run: SeenRun) -> str:
    if run.lost_by is None:
        return "run to the end" if run.exit_code is not None else "run until the time was over"
    disk = "disk kept" if run.lost_by.keeps_disk else "fresh disk"
    return f"lost by {run.lost_by.kind.value}, {disk}"
