"""A part of a suite's runs, for a quick look."""

from __future__ import annotations

import re

from autopilot.domain.errors import UserError
from autopilot_lab.backtest.suite import Suite


def select_runs(suite: Suite, which: str | None) -> list[int]:
    """The numbers of the runs that ``every-N`` (within each deadline and setting) or a count selects; None: all."""
    every = range(len(suite.runs))
    if which is None:
        return list(every)
    if step := re.fullmatch(r"every-(\d+)(?:st|nd|rd|th)?", which):
        if int(step[1]) < 1:
            raise UserError("--runs every-N needs a number from 1 on")
        seen: dict[tuple[str, float], int] = {}
        chosen = []
        for number in every:
            run = suite.runs[number]
            group = (run.setting, run.deadline_s)
            if seen.setdefault(group, 0) % int(step[1]) == 0:
                chosen.append(number)
            seen[group] += 1
        return chosen
    if re.fullmatch(r"[1-9]\d*", which):
        count = min(int(which), len(suite.runs))
        return [number * len(suite.runs) // count for number in range(count)]
    raise UserError(f"--runs cannot be {which!r}", hint="write every-2, or a number of runs")
