"""The verdict of a rehearsal: each finding is of one kind, and comes from what was observed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import sqrt
from statistics import median
from typing import NamedTuple

from autopilot.rehearsal.advice import advise
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, SeenRun

MARKET_S = 5.0
"""The least that markets give between SIGTERM and SIGKILL."""
SPARE_STEPS = 2
JUMP_SHARE = 0.02
"""Of the range of the loss: what lies nearer than that is no jump."""
JUMP_SPREADS = 2.0
JUMP_NOISES = 2.0
"""Where the loss goes up and down from step to step, what lies nearer than so much of that is no jump."""
JUMP_STEPS = 10
"""Steps after a resume whose losses are compared."""
LEAST_JUMP_STEPS = 3
NORMAL_OF_MEDIAN = 1.4826
"""Standard deviations in the median of absolute deviations, of a normal distribution."""
NEAR_STEPS = 20
"""On either side of a step: what the noise is measured in."""


LOSS_WORDS = {
    LossKind.TERM: "SIGTERM",
    LossKind.KILL: "SIGKILL",
    LossKind.MID_SAVE: "SIGKILL in the middle of a save",
}


class FaultKind(StrEnum):
    DOES_NOT_RESUME = "does_not_resume"
    WORK_DONE_TWICE = "work_done_twice"
    TORN = "torn"
    SIGTERM_SAVE = "sigterm_save"
    OUTPUTS_OVERWRITTEN = "outputs_overwritten"
    JUMP_AT_THE_SEAM = "jump_at_the_seam"
    FAILS = "fails"
    """It fails by itself, without any loss: nothing else can be judged."""


@dataclass(frozen=True, slots=True)
class RehearsalFinding:
    kind: FaultKind
    said: str
    advice: str
    is_suspicion: bool = False


class Jump(NamedTuple):
    off: float
    """How far the loss lies beside an uninterrupted run after a resume, as a rule."""
    allowed: float
    step: int
    """The first that is compared."""


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    findings: tuple[RehearsalFinding, ...]
    is_proven: bool
    """Each kind of loss and of disk that was promised was followed by a resume: else no finding means little."""
    unproven: tuple[str, ...]
    pace_s: float | None
    """Seconds a step takes."""
    redone_steps: tuple[int, ...]
    """Of each loss."""
    loss_costs_s: float | None

    @property
    def is_sound(self) -> bool:
        return self.is_proven and not self.findings


def judge(seen: RehearsalSeen) -> RehearsalVerdict:
    pace_s = measure_pace(seen.whole)
    redone = tuple(count_redone(before, after) for before, after in seams(seen.course))
    found = list(find_faults(seen))
    kinds: dict[FaultKind, RehearsalFinding] = {}
    for kind, said in found:
        advice = advise(kind, seen.framework)
        kinds.setdefault(kind, RehearsalFinding(kind, said, advice, kind is FaultKind.JUMP_AT_THE_SEAM))
    cost = max(redone) * pace_s if redone and pace_s else None
    unproven = tuple(list_unproven(seen))
    return RehearsalVerdict(tuple(kinds.values()), bool(redone) and not unproven, unproven, pace_s, redone, cost)


def list_unproven(seen: RehearsalSeen) -> Iterator[str]:
    """What was promised and was not followed by a run that told its steps."""
    proven = [before.lost_by for before, _ in seams(seen.course) if before.lost_by is not None]
    for kind in dict.fromkeys(loss.kind for loss in seen.promised):
        if kind not in [loss.kind for loss in proven]:
            yield f"a resume after {LOSS_WORDS[kind]}"
    for keeps_disk in dict.fromkeys(loss.keeps_disk for loss in seen.promised):
        if keeps_disk not in [loss.keeps_disk for loss in proven]:
            yield "a resume on the disk that was kept" if keeps_disk else "a resume on a fresh disk"


def find_faults(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    failed = next((run for run in seen.whole if run.exit_code), None)
    if failed is not None:
        yield FaultKind.FAILS, f"without any loss it ended with code {failed.exit_code}: {failed.output[-300:].strip()}"
        return
    yield from find_no_resume(seen)
    yield from find_torn(seen)
    yield from find_work_twice(seen)
    yield from find_term(seen)
    yield from find_outputs(seen)
    yield from find_jump(seen)


def seams(course: tuple[SeenRun, ...]) -> list[tuple[SeenRun, SeenRun]]:
    """Each loss with the run after it, where both told their steps."""
    pairs = [(before, after) for before, after in pairwise(course) if before.lost_by is not None]
    return [pair for pair in pairs if pair[0].last_step is not None and pair[1].first_step is not None]


def count_redone(before: SeenRun, after: SeenRun) -> int:
    assert before.last_step is not None
    assert after.first_step is not None
    return max(before.last_step - after.first_step + 1, 0)


def measure_pace(runs: tuple[SeenRun, ...]) -> float | None:
    """From its first step to its last, however long its start takes."""
    ends = [(run.said[0], run.said[-1]) for run in runs if run.said]
    paces = [(last.at - first.at) / (last.step - first.step) for first, last in ends if last.step > first.step]
    return min(paces, default=None)


def find_no_resume(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    took_s = max((run.took_s for run in seen.whole), default=0.0)
    has_begun = any(run.said or run.exit_code == 0 for run in seen.whole)
    is_unsaved = not seen.verified and not any(run.saves for run in seen.whole)
    if any(run.term is not None and run.term.has_saved and run.lost_by is None for run in seen.whole):
        yield FaultKind.DOES_NOT_RESUME, f"nothing was saved in {took_s:.0f} s but at SIGTERM: SIGKILL leaves nothing"
    elif has_begun and is_unsaved and not any(find_term(seen)):
        yield (
            FaultKind.DOES_NOT_RESUME,
            f"nothing was saved at the checkpoint path in {took_s:.0f} s; where it saves later, give it more --minutes",
        )
    for after, _ in resumes(seen):
        if (
            begins_again(seen, after)
            and not goes_on_from(seen.whole, after.saved_step, after)
            and not is_coarse(seen, after)
        ):
            yield (
                FaultKind.DOES_NOT_RESUME,
                f"with a checkpoint of step {after.saved_step} there, it began at step {after.first_step}",
            )


def resumes(seen: RehearsalSeen) -> Iterator[tuple[SeenRun, int]]:
    """Runs that began with a checkpoint, and how many of the steps that were told when it was saved they did again."""
    for _, after in seams(seen.course):
        if after.restored and after.saved_step is not None and after.first_step is not None:
            yield after, after.saved_step - after.first_step + 1


def begins_again(seen: RehearsalSeen, after: SeenRun) -> bool:
    starts = [run.first_step for run in seen.whole if run.first_step is not None]
    return bool(starts) and after.first_step is not None and after.first_step <= max(starts)


def is_coarse(seen: RehearsalSeen, after: SeenRun) -> bool:
    """Whether it began again because it goes on from epochs alone, the first of which was not over: another run went on
    from a step beyond that save."""
    others = [other.first_step for other, _ in resumes(seen) if not begins_again(seen, other)]
    return after.saved_step is not None and any(first is not None and after.saved_step < first for first in others)


def reported_apart(whole: tuple[SeenRun, ...]) -> int:
    """Steps between two that are told."""
    gaps = [b.step - a.step for run in whole for a, b in pairwise(run.said) if b.step > a.step]
    return int(median(gaps)) if gaps else 1


def find_torn(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    for before, after in pairwise(seen.course):
        if before.lost_by is not None and after.restored and after.exit_code:
            last = after.output[-300:].strip()
            yield FaultKind.TORN, f"with what was saved it ended with code {after.exit_code}: {last}"
    if seen.in_place and not seen.reports_saves:
        yield FaultKind.TORN, seen.in_place


def find_work_twice(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    """Against the save that it began with: one that was being written may cost the interval before it."""
    interval = seen.checkpoint.interval_steps
    allowed = interval + reported_apart(seen.whole) + SPARE_STEPS
    for after, lacking in resumes(seen):
        if interval and lacking > allowed and (not begins_again(seen, after) or is_coarse(seen, after)):
            yield (
                FaultKind.WORK_DONE_TWICE,
                f"with a checkpoint of step {after.saved_step} there, it went on from step {after.first_step}; "
                f"it saves every {interval:.0f} steps",
            )


def find_term(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    terms = [run.term for run in (*seen.whole[:1], *seen.course) if run.term is not None]
    if not seen.counts_on_term or not terms:
        return
    silent = [term for term in terms if not term.has_saved]
    late = [term for term in terms if term.was_killed]
    if late:
        yield (
            FaultKind.SIGTERM_SAVE,
            f"{len(late)} of {len(terms)} times it ran on {MARKET_S:.0f} s after SIGTERM",
        )
    elif silent:
        yield FaultKind.SIGTERM_SAVE, f"{len(silent)} of {len(terms)} times nothing was saved after SIGTERM"


def find_outputs(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    if seen.overwritten:
        names = ", ".join(seen.overwritten[:3])
        yield FaultKind.OUTPUTS_OVERWRITTEN, f"after a loss, what was in {names} before was gone"
    elif seen.doubled:
        yield FaultKind.OUTPUTS_OVERWRITTEN, f"after a loss, {', '.join(seen.doubled[:3])} had the same steps twice"


def find_jump(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    for lost_by, jump in list_jumps(seen.whole, seen.course):
        if jump.off > jump.allowed:
            kind = " after SIGTERM" if lost_by is not None and lost_by.kind is LossKind.TERM else ""
            yield (
                FaultKind.JUMP_AT_THE_SEAM,
                f"from step {jump.step} on{kind} the loss lay {jump.off:.3g} beside two uninterrupted runs, which "
                f"differ by {jump.allowed:.3g} at the most",
            )


def list_jumps(whole: tuple[SeenRun, ...], course: tuple[SeenRun, ...]) -> list[tuple[Loss | None, Jump]]:
    """Of each resume that can be compared, with the loss before it."""
    curves = [run.losses for run in whole if run.losses]
    pairs = seams(course) if len(curves) > 1 else []
    resumed = [(before, after, after.saved_step or before.last_step) for before, after in pairs if after.restored]
    exact = [(before, after) for before, after, saved in resumed if goes_on_from(whole, saved, after)]
    jumps = [(before.lost_by, measure_jump(after.losses, curves)) for before, after in exact]
    return [(lost_by, jump) for lost_by, jump in jumps if jump is not None]


def goes_on_from(whole: tuple[SeenRun, ...], saved_step: int | None, after: SeenRun) -> bool:
    """Whether it does no steps again that were in what it began with: their loss would be another one."""
    if saved_step is None or after.first_step is None:
        return False
    return saved_step - after.first_step + 1 <= reported_apart(whole) + SPARE_STEPS


def measure_jump(resumed: Mapping[int, float], curves: list[dict[int, float]]) -> Jump | None:
    """Beside the nearer of two curves, of which one may go on for longer; None: nothing can be said."""
    common = sorted(curves[0].keys() & curves[1].keys())
    if len(common) < LEAST_JUMP_STEPS:
        return None
    values = [curve[step] for curve in curves[:2] for step in common]
    spread = max(abs(curves[0][step] - curves[1][step]) for step in common)
    allowed = max(JUMP_SPREADS * spread, JUMP_SHARE * (max(values) - min(values)))
    jumps = [jump for curve in curves[:2] if (jump := measure_beside(resumed, curve, allowed, common[-1])) is not None]
    return min(jumps, key=lambda jump: jump.off - jump.allowed, default=None)


def measure_beside(resumed: Mapping[int, float], curve: dict[int, float], allowed: float, until: int) -> Jump | None:
    """``until``: the last step for which ``allowed`` is known. Runs that differ do so the more the longer they are; and
    of few steps the noise tells less."""
    steps = [step for step in sorted(resumed) if step in curve][:JUMP_STEPS]
    if len(steps) < LEAST_JUMP_STEPS:
        return None
    near = [value for step, value in sorted(curve.items()) if steps[0] - NEAR_STEPS <= step <= steps[-1] + NEAR_STEPS]
    noise = JUMP_NOISES * measure_noise(near) * sqrt(JUMP_STEPS / len(steps))
    off = abs(median(resumed[step] - curve[step] for step in steps))
    return Jump(off, max(allowed * max(1.0, steps[-1] / max(until, 1)), noise), steps[0])


def measure_noise(values: list[float]) -> float:
    """The standard deviation about the line between neighbours: that of second differences, by their median."""
    bends = [abs(b - (a + c) / 2) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return NORMAL_OF_MEDIAN * median(bends) / sqrt(1.5) if bends else 0.0
