"""Plays one seed on one market, and finds what its duds have cost: dollars of their bills, minutes beside no other."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from autopilot_lab.sandbox.host_traits import is_excluded
from tests.simulation.ground.books import dollars
from tests.simulation.ground.machines import Box
from tests.simulation.runs.run import Play, run
from tests.simulation.zoo.job import IMAGE, JOB, MOST_H, scenario_of
from tests.simulation.zoo.world import ZooWorld

LOOKS_EVERY_S = 60.0
ENDS_S = 1800.0
"""From the end of the job to that of its machines."""
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Played:
    """A line of a results file."""

    market: str
    share: float
    seed: int
    status: str
    """Of the job, at its end."""
    finished_h: float | None
    """From its submission."""
    cost: float
    """Dollars, of all machines."""
    launches: int
    duds: int
    """Launches on hosts where the image does not come up."""
    again: int
    """Of these, on a host on which one has failed before."""
    excluded: int
    """Launches on hosts whose stated driver or architecture says already that the image does not start there."""
    lost_dollars: float
    lost_minutes: float
    violations: tuple[str, ...] = ()
    story: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.status == "succeeded"

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "story": ()})

    @classmethod
    def from_json(cls, line: str) -> Played:
        row = json.loads(line)
        return cls(**{**row, "violations": tuple(row["violations"]), "story": ()})


def play(
    market: str,
    share: float,
    seed: int,
    *,
    keep_story: bool = False,
    most_h: float = MOST_H,
    rules: Collection[str] = (),
) -> Played:
    """``rules``: checkers of hosts that it is held to beside all others."""
    worlds: list[ZooWorld] = []
    ended_s: list[float] = []

    def make(*arguments: Any) -> ZooWorld:
        worlds.append(ZooWorld(share, *arguments))
        return worlds[0]

    async def whole(of: Play) -> None:
        of.begin()
        world = worlds[0]
        while world.now_s < most_h * 3600 and not _is_over(world):
            await of.watch(LOOKS_EVERY_S)
        ended_s.append(world.now_s)
        await of.watch(ENDS_S)
        world.books.settle_all(world.now_s)

    done = run(seed, scenario_of(market, rules), play=whole, make_world=make, keep_story=keep_story)
    boxes = _boxes_of(worlds[0])
    duds = [box for box in boxes if box.is_dud]
    status = done.jobs.get(JOB, "never submitted")
    return Played(
        market,
        share,
        seed,
        status,
        round((ended_s[0] - 60.0) / 3600, 3) if status == "succeeded" else None,
        _bill(boxes),
        len(boxes),
        len(duds),
        len(duds) - len({_host(box) for box in duds}),
        sum(box.place is not None and is_excluded(box.place.traits, IMAGE) for box in boxes),
        _bill(duds),
        round(_minutes_without(duds, [box for box in boxes if box not in duds], worlds[0].now_s), 1),
        tuple(f"{each.checker} at {each.at_s:.0f} s: {each.what}" for each in done.violations),
        done.story,
    )


def _host(box: Box) -> str:
    assert box.place is not None, "in a zoo each machine has its host"
    return box.place.id


def _is_over(world: ZooWorld) -> bool:
    job = world.committed.get("jobs", {}).get(JOB)
    return job is not None and job.status.is_final


def _boxes_of(world: ZooWorld) -> list[Box]:
    """All of the job's, oldest first."""
    known = [box for market in world.markets.values() for box in (*market.past.values(), *market.boxes.values())]
    return sorted((box for box in known if box.job_id == JOB), key=lambda box: box.created_s)


def _bill(boxes: Iterable[Box]) -> float:
    return round(float(dollars(sum(sum(box.meter.lines.values()) for box in boxes))), 6)


def _minutes_without(duds: Iterable[Box], others: Iterable[Box], now_s: float) -> float:
    """Minutes in which the job had duds alone."""
    left = take_away(_union(_spans(duds, now_s)), _union(_spans(others, now_s)))
    return sum(ends - begins for begins, ends in left) / 60


def _spans(boxes: Iterable[Box], now_s: float) -> list[Span]:
    return [(box.created_s, box.gone_s if box.is_gone else now_s) for box in boxes]


def _union(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for begins, ends in sorted(spans):
        if found and begins <= found[-1][1]:
            found[-1] = found[-1][0], max(ends, found[-1][1])
        else:
            found.append((begins, ends))
    return found


def take_away(spans: Iterable[Span], covered: Iterable[Span]) -> list[Span]:
    """What is left of the spans outside of those that are covered."""
    left = list(spans)
    for begins, ends in covered:
        cut = [((one, min(other, begins)), (max(one, ends), other)) for one, other in left]
        left = [part for pair in cut for part in pair if part[0] < part[1]]
    return left
