"""Steps and losses in what a program prints: by its job's pattern, as trainers do, or as a person does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from autopilot.agent.shipped.progress import Progress
from autopilot.agent.shipped.trainers import Mark, read_marks
from autopilot.rehearsal.observed import Said

SETTING = re.compile(
    r"\b(?:total|max|num|number of|warm-?up|save|eval|logging|every|all)[ _]?\w*[ _]?steps?\b", re.IGNORECASE
)
"""Steps of a setting, not of the work."""
_STEP = re.compile(r"\b(?:global[ _]?)?(?:step|iter(?:ation)?|it|batch|update)s?['\"]?\s*[:=#]?\s*\[?(\d{1,12})", re.I)
_EPOCH = re.compile(r"\bepoch['\"]?\s*[:=#]?\s*\[?['\"]?(\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)
_LOSS = re.compile(
    r"(?<!val )(?<!eval )(?<!valid )(?<!validation )(?<!test )\b(?:train(?:ing)?[_ /])?loss['\"]?\s*[:=]?\s*['\"]?"
    r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:step|checkpoint|ckpt|iter(?:ation)?|update)s?[-_=.]?(\d{1,12})(?!\d)", re.IGNORECASE)
"""In the name of what is saved: checkpoint-40, epoch=0-step=40.ckpt, step_000040.pt."""
ENOUGH = 3
"""Lines with a loss after which those without one are no sign of work: a line may speak of a step that was loaded."""


class PrintedLine(NamedTuple):
    at: float
    """When it was printed, in seconds of the wall clock."""
    text: str


class PrintedStep(NamedTuple):
    """What one line tells; ``total`` is that of a bar."""

    at: float
    step: int | None
    epoch: float | None
    loss: float | None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class StepScale:
    """How a program counts its steps, by what it told in a run that nothing interrupted."""

    by_loss: bool = False
    """It tells a loss with its steps: a line without one does not count."""
    steps_of_epoch: int | None = None
    """Its steps begin again with each epoch, and there are so many."""
    epoch_unit: float | None = None
    """It tells epochs alone, so far apart."""
    total: int | None = None
    """Of its bar: one that begins again counts what is left."""
    other_totals: frozenset[int] = frozenset()
    """Of bars that are of something else, as of an evaluation."""
    is_unclear: bool = False
    """Its steps begin again, and nothing tells how often they have."""

    @classmethod
    def of_runs(cls, runs: Iterable[list[PrintedStep]]) -> StepScale:
        """Of the first run that told anything; whether steps begin again shows in any that goes on for longer."""
        scales = [cls.of(claims) for claims in runs if claims]
        again = [scale for scale in scales if scale.steps_of_epoch is not None]
        if again:
            return max(again, key=lambda scale: scale.steps_of_epoch or 0)
        return next((scale for scale in scales if scale.is_unclear), scales[0] if scales else cls())

    @classmethod
    def of(cls, claims: Iterable[PrintedStep]) -> StepScale:
        claims = list(claims)
        total, others = choose_bar(claims)
        claims = carry(claims, others)
        by_loss = sum(each.loss is not None for each in claims) >= ENOUGH
        claims = [each for each in claims if each.loss is not None or not by_loss]
        steps = [each.step for each in claims if each.step is not None]
        epochs = [each.epoch for each in claims if each.epoch is not None]
        if not steps:
            apart = [after - before for before, after in pairwise(epochs) if after > before]
            return cls(by_loss, epoch_unit=min(apart, default=1.0), other_totals=others)
        if not any(has_wrapped(min(steps), before, after) for before, after in pairwise(steps)):
            return cls(by_loss, total=total, other_totals=others)
        if len(set(epochs)) > 1:
            return cls(by_loss, steps_of_epoch=max(max(steps) - min(steps) + 1, total or 0), other_totals=others)
        return cls(is_unclear=True)

    def place(self, claims: Iterable[PrintedStep]) -> tuple[Said, ...]:
        """The same numbers for the same work, in each run."""
        found = []
        for each in carry(claims, self.other_totals):
            step = None if self.by_loss and each.loss is None else self.number(each)
            if step is not None:
                found.append(Said(step, each.loss, each.at))
        return tuple(found)

    def number(self, claim: PrintedStep) -> int | None:
        if self.epoch_unit is not None:
            return None if claim.epoch is None else round(claim.epoch / self.epoch_unit)
        if claim.step is None or self.is_unclear:
            return None
        if self.steps_of_epoch is not None:
            return None if claim.epoch is None else int(claim.epoch) * self.steps_of_epoch + claim.step
        if self.total is not None and claim.total is not None and claim.total < self.total:
            return claim.step + self.total - claim.total
        return claim.step


def has_wrapped(first: int, before: int, after: int) -> bool:
    """Lines of several processes may only be out of order."""
    return after < before and after - first <= (before - first) / 2


def choose_bar(claims: Iterable[PrintedStep]) -> tuple[int | None, frozenset[int]]:
    """(the total of the bar that never begins again, or of the one that is heard most; the totals of all others)."""
    bars: dict[int, list[int]] = {}
    for each in claims:
        if each.total is not None and each.step is not None:
            bars.setdefault(each.total, []).append(each.step)
    lasting = [total for total, steps in bars.items() if all(a <= b for a, b in pairwise(steps))]
    chosen = max(lasting or bars, key=lambda total: len(set(bars[total])), default=None)
    return chosen, frozenset(bars.keys() - {chosen})


def carry(claims: Iterable[PrintedStep], other_totals: frozenset[int] = frozenset()) -> list[PrintedStep]:
    """A loss belongs to the step of its line, or else to the one that was told last; a step to the epoch told last."""
    found: list[PrintedStep] = []
    step: int | None = None
    epoch: float | None = None
    for each in claims:
        if each.total in other_totals:
            continue
        epoch = epoch if each.epoch is None else each.epoch
        if each.step is not None or each.loss is None:
            step = each.step
        if step is not None or epoch is not None:
            found.append(each._replace(step=step, epoch=epoch))
    return found


def read_claims(lines: Iterable[PrintedLine], pattern: str = "") -> list[PrintedStep]:
    """One of each line that tells something."""
    progress = Progress("", pattern)
    found = []
    for line in lines:
        told, loss = read_line(line, progress, pattern), read_loss(line.text)
        if told is not None or loss is not None:
            found.append((told or PrintedStep(line.at, None, None, None))._replace(loss=loss))
    return found


def read_line(line: PrintedLine, progress: Progress, pattern: str) -> PrintedStep | None:
    if pattern:
        progress.said = (None, None)
        progress.feed(line.text.encode() + b"\n")
        return None if progress.said[0] is None else PrintedStep(line.at, progress.said[0], None, None)
    if SETTING.search(line.text):
        return None
    marks = read_marks(line.text)
    found = _EPOCH.search(line.text)
    epoch = float(found[1]) if found else next((mark.done for mark in marks if mark.kind == "epoch"), None)
    steps = [mark for mark in marks if mark.kind != "epoch"]
    if steps:
        return read_mark(line, steps[-1], epoch)
    plain = _STEP.search(line.text)
    if plain is None and epoch is None:
        return None
    return PrintedStep(line.at, int(plain[1]) if plain else None, epoch, None)


def read_mark(line: PrintedLine, mark: Mark, epoch: float | None) -> PrintedStep | None:
    """A bar that is at nothing has only been drawn."""
    if mark.kind == "bar" and not mark.done:
        return None
    epoch = mark.epoch if epoch is None else epoch
    total = int(mark.total) if mark.kind == "bar" and mark.total else None
    return PrintedStep(line.at, int(mark.done), epoch, None, total)


def read_name(path: str) -> int | None:
    """The step in the name of a file that is saved, or of its directory: the last that stands there."""
    found = _NAMED.findall(path)
    return int(found[-1]) if found else None


def read_loss(line: str) -> float | None:
    found = _LOSS.search(line)
    return None if found is None or found[1].lower() == "nan" else float(found[1])
