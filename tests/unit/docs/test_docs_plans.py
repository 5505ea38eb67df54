"""The plans in the docs are those of the shipped jobs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopilot.config.job_file import parse_job
from autopilot.domain.money import show

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/plan-a-job.md").read_text()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLANS = dict(re.findall(r"```text\n\$ autopilot plan config/jobs/([\w-]+)\.toml\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize("name", ["research", "finetune-70b", "batch-inference"])
def test_there_is_a_plan_for_each_job_and_it_fits_its_file(name: str) -> None:
    spec = parse_job((ROOT / f"config/jobs/{name}.toml").read_text(), source=name, now=NOW)
    shown = PLANS[name]
    assert spec.budget is not None
    assert re.search(rf"^budget +{re.escape(show(spec.budget))}$", shown, re.MULTILINE)
    assert ("on time" in shown) == (spec.deadline is not None)
    wanted = {f"{gpu.count}×{gpu.name}" for gpu in spec.gpus}
    offered = set(re.findall(r"^\w+ +\d+ +(\d×.+?) +(?:spot|on demand) ", shown, re.MULTILINE))
    assert offered
    assert offered <= wanted
    cost = re.search(r"^expected cost +\$([\d.]+) \(\$([\d.]+) to \$([\d.]+) ", shown, re.MULTILINE)
    assert cost is not None
    assert float(cost[2]) <= float(cost[1]) <= float(cost[3])
