"""What can go wrong before the container runs."""

from __future__ import annotations


class Fault(Exception):
    """``name``: of the faults that the daemon knows (``HOST_FAULTS``). ``is_final``: trying again is of no use."""

    def __init__(self, name: str, detail: str, is_final: bool = True) -> None:
        super().__init__(detail)
        self.name, self.detail, self.is_final = name, detail[:400], is_final
