"""An array in one line."""

from __future__ import annotations

from dataclasses import fields, replace

from autopilot.answers.jobs import Tasks
from autopilot.words.arrays import brief

NONE = Tasks(**{each.name: 0 for each in fields(Tasks)})


def test_an_array_is_told_in_one_line() -> None:
    assert brief(replace(NONE, count=6)) == "0/6 done, 0 running"
    tasks = replace(NONE, count=100, succeeded=12, running=4, waiting=2, failed=1)
    assert brief(tasks) == "12/100 done, 4 running, 2 starting, 1 failed"
