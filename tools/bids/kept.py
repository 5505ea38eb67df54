"""What was played: a line of JSON for each start in each column, with the code that it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.bids.columns import Half
from tools.calibration.kept import ROOT, code_of

RESULTS = ROOT / "docs/research/bids.jsonl"
WHAT_COUNTS = (
    "autopilot/domain/params.py", "autopilot/engine/auctions.py", "autopilot/policy", "autopilot/pricing",
    "packages/lab/autopilot_lab/backtest", "tools/bids/columns.py",
)  # fmt: skip
"""What a result depends on."""


Place = tuple[Half, str, str, str, str, float, int]


@dataclass(frozen=True, slots=True)
class Kept:
    code: str
    mode: str
    pays: str
    market: str
    stretch: str
    deadline_h: float
    start: int
    optimal: float
    costs: Mapping[str, float]
    """By policy; dollars."""
    late: tuple[str, ...]
    """The policies that were not done in time, where on-demand capacity from the first tick on would have been."""
    half: Half = "scored"
    """Whether numbers may be chosen on it."""
    done: Mapping[str, float] = field(default_factory=dict)
    """By policy: the share of the work that was done by the end, where it was not all of it."""
    over: tuple[str, ...] = ()
    """The policies that went beyond the budget."""

    @property
    def case(self) -> Place:
        return self.half, self.mode, self.pays, self.market, self.stretch, self.deadline_h, self.start


def code_now() -> str:
    return code_of(ROOT, WHAT_COUNTS)


def append(path: Path, kept: Kept) -> None:
    """In one write, so that shares that run side by side do not cut each other's lines."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(kept)) + "\n")


def read(path: Path) -> list[Kept]:
    """Empty if there is no file yet."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Kept(**(row | {"late": tuple(row["late"]), "over": tuple(row.get("over", ()))})) for row in rows]
