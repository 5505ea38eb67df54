"""The verdict of a rehearsal: each finding is of one kind, and comes from what was observed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import sqrt
from statistics import median

from autopilot.rehearsal.advice import advise
from autopilot.rehearsal.observed import LossKind, RehearsalSeen, SeenRun

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
    has_begun = any(run.said or run.exit_code == 0 for run in seen.whole)
    if has_begun and not seen.verified and not any(run.saves for run in seen.whole):
        yield (
            FaultKind.DOES_NOT_RESUME,
            f"nothing was saved at the checkpoint path in {max(run.took_s for run in seen.whole):.0f} s; "
            "where it saves later, give it more --minutes",
        )
        return
    for after, lacking in resumes(seen):
        if begins_again(seen, after) and lacking > reported_apart(seen) + SPARE_STEPS:
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


def reported_apart(seen: RehearsalSeen) -> int:
    """Steps between two that are told."""
    gaps = [b.step - a.step for run in seen.whole for a, b in pairwise(run.said) if b.step > a.step]
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
    allowed = interval + reported_apart(seen) + SPARE_STEPS
    for after, lacking in resumes(seen):
        if interval and lacking > allowed and not begins_again(seen, after):
            yield (
                FaultKind.WORK_DONE_TWICE,
                f"with a checkpoint of step {after.saved_step} there, it went on from step {after.first_step}; "
                f"it saves every {interval:.0f} steps",
            )


def find_term(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    terms = [run.term for run in seen.course if run.term is not None]
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
    curves = [run.losses for run in seen.whole if run.losses]
    if len(curves) < 2:
        return
    for before, after in seams(seen.course):
        if not after.restored:
            continue
        jump = measure_jump(after.losses, curves)
        if jump is not None:
            off, allowed, step = jump
            kind = "" if before.lost_by is None or before.lost_by.kind is not LossKind.TERM else " after SIGTERM"
            yield (
                FaultKind.JUMP_AT_THE_SEAM,
                f"from step {step} on{kind} the loss lay {off:.3g} beside two uninterrupted runs, which differ by "
                f"{allowed:.3g} at the most",
            )


def measure_jump(resumed: Mapping[int, float], curves: list[dict[int, float]]) -> tuple[float, float, int] | None:
    """(how far it lies outside, what would be allowed, the first step); None: it does not, or nothing can be said."""
    common = sorted(curves[0].keys() & curves[1].keys())
    compared = [step for step in sorted(resumed) if step in set(common)][:JUMP_STEPS]
    if len(common) < LEAST_JUMP_STEPS or len(compared) < LEAST_JUMP_STEPS:
        return None
    values = [curve[step] for curve in curves[:2] for step in common]
    spread = max(abs(curves[0][step] - curves[1][step]) for step in common)
    near = [step for step in common if compared[0] - NEAR_STEPS <= step <= compared[-1] + NEAR_STEPS]
    noise = max(measure_noise([curve[step] for step in near]) for curve in curves[:2])
    allowed = max(JUMP_SPREADS * spread, JUMP_SHARE * (max(values) - min(values)), JUMP_NOISES * noise)
    off = min(abs(median(resumed[step] - curve[step] for step in compared)) for curve in curves[:2])
    return (off, allowed, compared[0]) if off > allowed else None


def measure_noise(values: list[float]) -> float:
    """The standard deviation about the line between neighbours: that of second differences, by their median."""
    bends = [abs(b - (a + c) / 2) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return NORMAL_OF_MEDIAN * median(bends) / sqrt(1.5) if bends else 0.0
