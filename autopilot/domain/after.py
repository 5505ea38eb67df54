"""Jobs that wait for others: which one, and how it has to end."""

from __future__ import annotations

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


ENDS = {On.OK: "succeeds", On.FAIL: "fails or is cancelled", On.ANY: "is over"}


@dataclass(frozen=True, slots=True)
class After:
    job: str
    """Its id; in a job file that is not accepted yet, as the user wrote it: an id, the beginning of one, or a name."""
    on: On = On.OK

    def is_met_by(self, has_succeeded: bool) -> bool:
        """Of a job that is over."""
        return self.on is On.ANY or has_succeeded is (self.on is On.OK)
