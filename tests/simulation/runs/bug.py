"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Patches = Sequence[tuple[object, str, Any]]
"""(whose, attribute, what takes its place)."""


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    patches: Callable[[], Patches]


def bug(what: str) -> Callable[[Callable[[], Patches]], Bug]:
    """Its patches, under the name of what answers them."""
    return lambda patches: Bug(patches.__name__.strip("_"), what, patches)
