"""Plays every run of a suite under every policy: here, on all cores, or on a Ray cluster; same results in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autopilot.domain.errors import UserError, lab_hint
from autopilot.workers import workers
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, Start, budget_of, optimal_cost, play
from autopilot_lab.backtest.policies import Policy, starter
from autopilot_lab.backtest.suite import Suite, on_demand_cost

CHUNK_RUNS = 12
"""Enough that handing out costs nothing, few enough that no core waits at the end."""

Place = Literal["processes", "ray"]

_Part = tuple[Literal["policies", "optimum"], Sequence[int]]
"""What one process does at a time, for some runs. The policies stay together, for they share tables; the optimum of a
long run takes as long as they do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played; goes to every process once."""

    suite: Suite
    policies: tuple[Policy, ...]
    models: Mapping[str, Any]
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Result:
    """One run: what it costs by the two yardsticks, and under each policy, in the plan's order."""

    run: int
    on_demand: float
    optimal: float
    budget: float | None
    outcomes: tuple[Outcome, ...]


def run_plan(
    plan: Plan, runs: Sequence[int], jobs: int, place: Place = "processes", advance: Callable[[int], None] | None = None
) -> list[Result]:
    """The results of those runs, in that order. ``advance`` receives how many more are done.

    Raises UserError when a policy does not play on this kind of suite, or Ray is not there.
    """
    chunks = [runs[first : first + CHUNK_RUNS] for first in range(0, len(runs), CHUNK_RUNS)]
    parts: list[_Part] = [part for chunk in chunks for part in (("policies", chunk), ("optimum", chunk))]
    starts = _starts(plan)
    if place == "ray":
        done = _on_ray(plan, parts)
    elif jobs == 1:
        done = (_play_part(plan, starts, part) for part in parts)
    else:
        done = _in_processes(plan, parts, jobs)
    results: list[Result] = []
    for (played, optima), chunk in zip(zip(done, done, strict=True), chunks, strict=True):
        results += [_result(plan, *of_run) for of_run in zip(chunk, played, optima, strict=True)]
        if advance is not None:
            advance(len(chunk))
    return results


def _starts(plan: Plan) -> list[Start]:
    return [starter(policy, plan.suite.config.kind, plan.models) for policy in plan.policies]


def _play_part(plan: Plan, starts: Sequence[Start], part: _Part) -> list[Any]:
    """For each run its outcomes, one a policy, or its optimum."""
    what, chunk = part
    runs = [plan.suite.runs[number] for number in chunk]
    if what == "optimum":
        return [optimal_cost(plan.suite, run) for run in runs]
    return [tuple(play(plan.suite, run, start, plan.conditions) for start in starts) for run in runs]


def _result(plan: Plan, number: int, outcomes: tuple[Outcome, ...], optimal: float) -> Result:
    run = plan.suite.runs[number]
    on_demand, budget = on_demand_cost(plan.suite.config, run), budget_of(plan.suite, run, plan.conditions)
    return Result(number, on_demand, optimal, budget, outcomes)


_here: tuple[Plan, list[Start]] | None = None
"""The plan of this worker process: sent once, not with every chunk."""


def _receive(plan: Plan) -> None:
    global _here
    _here = plan, _starts(plan)


def _play_here(part: _Part) -> list[Any]:
    assert _here is not None
    return _play_part(*_here, part)


def _in_processes(plan: Plan, parts: Sequence[_Part], jobs: int) -> Iterator[list[Any]]:
    with workers(min(jobs, len(parts)), _receive, plan) as pool:
        try:
            yield from pool.map(_play_here, parts)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _on_ray(plan: Plan, parts: Sequence[_Part]) -> Iterator[list[Any]]:
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UserError("--on ray needs Ray", hint=lab_hint("ray")) from None
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    shared = ray.put(plan)
    remote = ray.remote(_play_sent)
    for pending in [remote.remote(shared, part) for part in parts]:
        yield ray.get(pending)


def _play_sent(plan: Plan, part: _Part) -> list[Any]:
    return _play_part(plan, _starts(plan), part)
