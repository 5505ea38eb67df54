"""Jobs that wait for others: which one, and how it has to end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MOST_AFTER = 50
"""Jobs that one job may wait for."""


class On(StrEnum):
    OK = "ok"
    """It has succeeded."""
    FAIL = "fail"
    """It has failed, or was cancelled."""
    ANY = "any"
    """It is over, however it ended."""
    SAME_TASK = "same task"
    """Between two arrays: each task of the one starts once the task of the same number in the other has succeeded."""


ENDS = {
    On.OK: "succeeds",
    On.FAIL: "fails or is cancelled",
    On.ANY: "is over",
    On.SAME_TASK: "has done the same task",
}


@dataclass(frozen=True, slots=True)
class After:
    job: str
    """Its id; in a job file that is not accepted yet, as the user wrote it: an id, the beginning of one, or a name."""
    on: On = On.OK

    def is_met_by(self, has_succeeded: bool) -> bool:
        """For a job that has ended. A condition task by task is checked for each task."""
        return self.on in (On.ANY, On.SAME_TASK) or has_succeeded is (self.on is On.OK)


def waited_for(after: Iterable[After]) -> tuple[After, ...]:
    """Those that have to be over before the job begins at all."""
    return tuple(each for each in after if each.on is not On.SAME_TASK)


def paired_with(after: Iterable[After]) -> tuple[str, ...]:
    """The arrays that the job follows task by task."""
    return tuple(each.job for each in after if each.on is On.SAME_TASK)
