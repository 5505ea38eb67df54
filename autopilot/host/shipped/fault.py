"""What can go wrong before the container runs, and when it is tried again."""

from __future__ import annotations

import re

RETRY_FIRST_S, RETRY_MOST_S = 10.0, 300.0
MOST_REFUSALS = 3
"""So often docker may refuse the container in the same words. The first boot's own troubles are over by the third."""
_VARYING = re.compile(r"\b(?=\w*\d)\w+\b")
"""Numbers and names made of them, such as a container's or a process's, differ in words that say the same."""


class Fault(Exception):
    """``name``: of the faults that the daemon knows (``HOST_FAULTS``). ``is_final``: trying again is of no use."""

    def __init__(self, name: str, detail: str, is_final: bool = True) -> None:
        super().__init__(detail)
        self.name, self.detail, self.is_final = name, detail[:400], is_final


class Retries:
    """When a boot is tried again after a fault: after ever longer waits, until its time is over, or docker has refused
    the container in the same words three times.

    A pull is not a refusal: a network that fails is often back after minutes.
    """

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.next_s = RETRY_FIRST_S
        self.refusal, self.refusals = "", 0

    def wait_s(self, fault: Fault, now: float) -> float:
        """From ``now``, by the clock of ``ends_at``. Raises the fault where nothing is tried again."""
        self._count(fault)
        if fault.is_final or self.refusals >= MOST_REFUSALS or now + self.next_s >= self.ends_at:
            raise fault
        wait_s, self.next_s = self.next_s, min(2 * self.next_s, RETRY_MOST_S)
        return wait_s

    def _count(self, fault: Fault) -> None:
        said = _VARYING.sub("#", fault.detail) if fault.name == "container_refused" else ""
        self.refusals = self.refusals + 1 if said and said == self.refusal else int(bool(said))
        self.refusal = said
