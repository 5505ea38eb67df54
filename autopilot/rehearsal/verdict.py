"""The verdict of a rehearsal: each finding is of one kind, and comes from what was observed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from autopilot.rehearsal.advice import advise
from autopilot.rehearsal.observed import LossKind, RehearsalSeen, SeenRun

MARKET_S = 5.0
"""The least that markets give between SIGTERM and SIGKILL."""
SPARE_STEPS = 2
INTERVALS = 1.5
"""So many intervals of work may be done twice: a loss in the midst of a save costs the one before as well."""
JUMP_SHARE = 0.02
"""Of the range of the loss: what lies nearer than that is no jump."""
JUMP_SPREADS = 2.0
JUMP_STEPS = 10
"""Steps after a resume whose losses are compared."""


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
    """At least one loss was followed by a resume: without any, no finding means nothing."""
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
    found = list(find_faults(seen, pace_s))
    kinds: dict[FaultKind, RehearsalFinding] = {}
    for kind, said in found:
        advice = advise(kind, seen.framework)
        kinds.setdefault(kind, RehearsalFinding(kind, said, advice, kind is FaultKind.JUMP_AT_THE_SEAM))
    cost = max(redone) * pace_s if redone and pace_s else None
    return RehearsalVerdict(tuple(kinds.values()), bool(redone), pace_s, redone, cost)


def find_faults(seen: RehearsalSeen, pace_s: float | None) -> Iterator[tuple[FaultKind, str]]:
    failed = next((run for run in seen.whole if run.exit_code), None)
    if failed is not None:
        yield FaultKind.FAILS, f"without any loss it ended with code {failed.exit_code}: {failed.output[-300:].strip()}"
        return
    yield from find_no_resume(seen)
    yield from find_torn(seen)
    yield from find_work_twice(seen, pace_s)
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
    """By the longest of them; the time before its first step is counted, too."""
    rates = [run.took_s / count for run in runs if (count := count_steps(run)) > 1]
    return min(rates, default=None)


def count_steps(run: SeenRun) -> int:
    return 0 if run.first_step is None or run.last_step is None else run.last_step - run.first_step + 1


def find_no_resume(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    has_begun = any(run.said or run.exit_code == 0 for run in seen.whole)
    if has_begun and not seen.verified and not any(run.saves for run in seen.whole):
        yield (
            FaultKind.DOES_NOT_RESUME,
            f"nothing was saved at the checkpoint path in {max(run.took_s for run in seen.whole):.0f} s",
        )
        return
    starts = [run.first_step for run in seen.whole if run.first_step is not None]
    for before, after in seams(seen.course):
        first, last = after.first_step or 0, before.last_step or 0
        if after.restored and starts and first <= max(starts) and last > first:
            yield (
                FaultKind.DOES_NOT_RESUME,
                f"with a checkpoint there it began at step {first}, after step {last}",
            )


def find_torn(seen: RehearsalSeen) -> Iterator[tuple[FaultKind, str]]:
    for before, after in pairwise(seen.course):
        if before.lost_by is not None and after.restored and after.exit_code:
            last = after.output[-300:].strip()
            yield FaultKind.TORN, f"with what was saved it ended with code {after.exit_code}: {last}"
    if seen.in_place and not seen.reports_saves:
        yield FaultKind.TORN, f"{seen.in_place} is written over where it lies: a loss meanwhile leaves half of it"


def find_work_twice(seen: RehearsalSeen, pace_s: float | None) -> Iterator[tuple[FaultKind, str]]:
    if pace_s is None or not seen.checkpoint.interval_s:
        return
    interval = seen.checkpoint.interval_s / pace_s
    starts = [run.first_step for run in seen.whole if run.first_step is not None]
    for before, after in seams(seen.course):
        redone, allowed = count_redone(before, after), INTERVALS * interval + before.unsent_s / pace_s + SPARE_STEPS
        begins_again = after.first_step is not None and bool(starts) and after.first_step <= max(starts)
        if after.restored and redone > allowed and not begins_again:
            yield (
                FaultKind.WORK_DONE_TWICE,
                f"a loss cost {redone} steps; it saves every {interval:.0f} steps: {allowed:.0f} are explained",
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
    if len(common) < 3 or not compared:
        return None
    values = [curve[step] for curve in curves[:2] for step in common]
    spread = max(abs(curves[0][step] - curves[1][step]) for step in common)
    allowed = max(JUMP_SPREADS * spread, JUMP_SHARE * (max(values) - min(values)))
    off = median(min(abs(resumed[step] - curve[step]) for curve in curves[:2]) for step in compared)
    return (off, allowed, compared[0]) if off > allowed else None
