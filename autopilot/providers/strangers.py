"""Rows of other programs and colleagues, which stand in the lists of the same account. Whatever they hold, ours are to
be seen: of a stranger's row the id and the name are enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.domain.labels import LABEL_PREFIX


def is_strangers(row: Mapping[str, Any], field: str) -> bool:
    """Whether the row says a name, in ``field``, that is none of ours; None says it as well. A row that says no name
    may be ours."""
    name = row.get(field, 0)
    return name is None or (isinstance(name, str) and not name.startswith(LABEL_PREFIX))
