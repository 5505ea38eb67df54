"""What was said and what came: a line of JSON each, kept with the code that it is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.calibration.trial import Trial

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/research/calibration.jsonl"
_WHAT_COUNTS = (
    "autopilot/planning/plan.py", "autopilot/planning/prospects.py", "autopilot/policy", "autopilot/pricing",
    "packages/lab/autopilot_lab/backtest", "tools/calibration/cases.py", "tools/calibration/trial.py",
)  # fmt: skip
"""What a result depends on: forecast, policy, and the day that is played."""


@dataclass(frozen=True, slots=True)
class Kept:
    code: str
    kind: str
    """Of market."""
    trial: Trial


def code_of(root: Path = ROOT, paths: Sequence[str] = _WHAT_COUNTS) -> str:
    """A hash of the sources on which results depend: by which is forecast and played, if no others are named."""
    named = [root / path for path in paths]
    files = sorted(file for each in named for file in ([each] if each.is_file() else each.rglob("*.py")))
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return whole.hexdigest()[:12]


def append(path: Path, kept: Kept) -> None:
    """In one write, so that shards that run side by side do not cut each other's lines."""
    with path.open("a") as file:
        file.write(json.dumps({"code": kept.code, "kind": kept.kind, **asdict(kept.trial)}) + "\n")


def read(path: Path) -> list[Kept]:
    """Empty if there is no file yet."""
    if not path.exists():
        return []
    return [_kept(json.loads(line)) for line in path.read_text().splitlines()]


def _kept(row: dict[str, object]) -> Kept:
    code, kind = str(row.pop("code")), str(row.pop("kind"))
    return Kept(code, kind, Trial(**row))  # type: ignore[arg-type]
