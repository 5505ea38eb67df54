"""Where ids come from."""

from __future__ import annotations

from typing import Protocol


class Ids(Protocol):
    def new(self) -> str: ...
