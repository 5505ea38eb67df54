"""What was played: a line of JSON for each start in each column, with the code that it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.calibration.kept import ROOT, code_of

RESULTS = ROOT / "docs/research/bids.jsonl"
WHAT_COUNTS = (
    "autopilot/domain/params.py", "autopilot/engine/auctions.py", "autopilot/policy", "autopilot/pricing",
    "packages/lab/autopilot_lab/backtest", "tools/bids/columns.py",
)  # fmt: skip
"""What a result depends on."""


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
    """The policies that were late, where on-demand capacity from the first tick on would have been in time."""

    @property
    def case(self) -> tuple[str, str, str, str, float, int]:
        return self.mode, self.pays, self.market, self.stretch, self.deadline_h, self.start


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
    return [Kept(**(row | {"late": tuple(row["late"])})) for row in rows]
