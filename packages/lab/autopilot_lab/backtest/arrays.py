"""What an array costs by how many of its tasks are at work: the engine's own choice beside fixed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autopilot.domain.errors import UserError
from autopilot.workers import workers
from autopilot_lab.backtest.array_play import ArrayOutcome, play_array
from autopilot_lab.backtest.live import Live
from autopilot_lab.backtest.suite import HOUR_S, BidRun, BidSuite
from autopilot_lab.backtest.tasks import Task

COSTED = None
"""In place of a number: as many as the engine would have at work."""
PARALLEL = "1,2,4,8,16,32"
MOST_TASKS = 1000
"""An array of more takes hours to play."""
SHARES = (8, 4, 2)
"""Where no deadline is given: the work of all tasks, done by so many machines without a pause."""
CHUNK_ARRAYS = 2

Width = int | None
_Part = tuple[int, int, Width]
"""(market, run, width)."""


@dataclass(frozen=True, slots=True)
class WidthScore:
    """Arrays of one deadline at one width. Means are over all arrays, those that were late among them."""

    parallel: Width
    deadline_h: float
    arrays: int
    mean_cost: float
    over_costed: float | None
    """The costs over those of the costed width; None if more arrays were late: they left work undone."""
    late: int
    done: float
    """The share of all tasks that were done by the deadline."""
    mean_end_h: float | None
    """Of arrays that were done in time."""
    boots: float
    """Mean."""
    widest: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"parallel": self.parallel or "costed"}


def parse_widths(text: str) -> tuple[Width, ...]:
    """``1,2,4``; the costed width comes first. Raises UserError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and 1 <= len(word) <= 4 and int(word) for word in words):
        raise UserError(f"--parallel cannot be {text!r}", hint="write numbers of tasks, like 1,4,16")
    return COSTED, *dict.fromkeys(map(int, words))


def check_tasks(tasks: int) -> None:
    if not 1 <= tasks <= MOST_TASKS:
        raise UserError(f"--tasks cannot be {tasks}", hint=f"an array that is played has 1 to {MOST_TASKS:,} tasks")


def deadlines_of(work_s: float, tasks: int) -> tuple[float, ...]:
    """Of an array that has none of its own, s."""
    return tuple(round(max(work_s * tasks / share, 2 * work_s), 3) for share in SHARES)


def an_hour_each(tasks: int) -> Task:
    return Task("1 h", HOUR_S, deadlines_of(HOUR_S, tasks), checkpoint_s=600.0)


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """What is played; goes to every process once. Floors are those of ``as_searched``."""

    suites: tuple[BidSuite, ...]
    tasks: int
    live: Live

    def run(self, part: _Part) -> BidRun:
        return self.suites[part[0]].runs[part[1]]

    def play(self, part: _Part) -> ArrayOutcome:
        return play_array(self.suites[part[0]], self.run(part), self.tasks, part[2], self.live)


def run_arrays(
    plan: ArrayPlan,
    runs: Iterable[tuple[int, int]],
    widths: Sequence[Width],
    jobs: int,
    advance: Callable[[int], None] | None = None,
) -> list[WidthScore]:
    """Scores by deadline, then by width. ``runs``: (market, run) of each."""
    parts = [(suite, run, width) for suite, run in runs for width in widths]
    outcomes: dict[_Part, ArrayOutcome] = {}
    done = map(plan.play, parts) if jobs == 1 else _in_processes(plan, parts, jobs)
    for part, outcome in zip(parts, done, strict=True):
        outcomes[part] = outcome
        if advance is not None:
            advance(1)
    deadlines = sorted({plan.run(part).deadline_s for part in parts})
    return [score for each in deadlines for score in _score(plan, outcomes, widths, each)]


def _score(
    plan: ArrayPlan, outcomes: dict[_Part, ArrayOutcome], widths: Sequence[Width], deadline_s: float
) -> Iterator[WidthScore]:
    def of(width: Width) -> list[ArrayOutcome]:
        return [each for part, each in outcomes.items() if part[2] == width and plan.run(part).deadline_s == deadline_s]

    costed = of(COSTED)
    for width in widths:
        found = of(width)
        ends = [each.end_h for each in found if each.end_h is not None]
        cost, late = sum(each.cost for each in found), len(found) - len(ends)
        is_comparable = late <= sum(each.end_h is None for each in costed)
        yield WidthScore(
            parallel=width,
            deadline_h=deadline_s / HOUR_S,
            arrays=len(found),
            mean_cost=cost / len(found),
            over_costed=cost / sum(each.cost for each in costed) if is_comparable else None,
            late=late,
            done=sum(each.done for each in found) / (len(found) * plan.tasks),
            mean_end_h=sum(ends) / len(ends) if ends else None,
            boots=sum(each.boots for each in found) / len(found),
            widest=max(each.widest for each in found),
        )


_here: ArrayPlan | None = None
"""The plan of this worker process."""


def _receive(plan: ArrayPlan) -> None:
    global _here
    _here = plan


def _play_here(part: _Part) -> ArrayOutcome:
    assert _here is not None
    return _here.play(part)


def _in_processes(plan: ArrayPlan, parts: Sequence[_Part], jobs: int) -> Iterator[ArrayOutcome]:
    with workers(min(jobs, len(parts)), _receive, plan) as pool:
        try:
            yield from pool.map(_play_here, parts, chunksize=CHUNK_ARRAYS)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
