"""What many seeds of one market and share came to, in a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from tests.simulation.zoo.play import Played


@dataclass(frozen=True, slots=True)
class Sums:
    jobs: int
    failed: int
    """Nothing fails here but hosts."""
    not_done: int
    """They neither failed nor came to their end."""
    launches: int
    duds: int
    again: int
    excluded: int
    lost_dollars: tuple[float, float]
    """A job: mean, and 90th percentile."""
    lost_minutes: tuple[float, float]
    cost: float
    """A job: mean."""
    violations: int


def sums(played: Iterable[Played]) -> Sums:
    """Of one job or more."""
    known = list(played)
    failed = sum(one.status == "failed" for one in known)
    return Sums(
        len(known),
        failed,
        sum(not one.is_done for one in known) - failed,
        sum(one.launches for one in known),
        sum(one.duds for one in known),
        sum(one.again for one in known),
        sum(one.excluded for one in known),
        _spread([one.lost_dollars for one in known]),
        _spread([one.lost_minutes for one in known]),
        fmean(one.cost for one in known),
        sum(len(one.violations) for one in known),
    )


def line(market: str, share: float, total: Sums) -> str:
    dollars, minutes = total.lost_dollars, total.lost_minutes
    return (
        f"{market} {share:.0%}: {total.jobs} jobs, {total.failed} failed of hosts, {total.not_done} not done; "
        f"{total.launches} launches, {total.duds} on duds ({total.again} on one again), {total.excluded} on hosts that "
        f"the image excludes; lost a job ${dollars[0]:.4f} (90 %: ${dollars[1]:.4f}) and {minutes[0]:.1f} min "
        f"(90 %: {minutes[1]:.1f}); cost a job ${total.cost:.3f}; violations {total.violations}"
    )


def line_beside(now: Sequence[Played], then: Sequence[Played]) -> str:
    """What the duds cost now beside what they cost then, on the same seeds."""
    ours, theirs = sums(now), sums(then)
    before, after = theirs.lost_dollars[0], ours.lost_dollars[0]
    share = f"{after / before:.0%} of it" if before else "there was nothing to lose"
    return (
        f"  beside {theirs.jobs} of the same seeds: ${after:.4f} a job, then ${before:.4f} ({share}); "
        f"{ours.lost_minutes[0]:.1f} min, then {theirs.lost_minutes[0]:.1f}; "
        f"failed of hosts {ours.failed}, then {theirs.failed}"
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), sorted(values)[ceil(0.9 * len(values)) - 1]
