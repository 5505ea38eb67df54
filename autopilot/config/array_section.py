"""``[array]`` of a job file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from autopilot.config.toml_document import KeyPath, TomlDocument
from autopilot.domain.array import PARALLEL, ArraySpec
from autopilot.domain.errors import UserError

_SOURCES = ("count", "matrix", "from")
_Variables = Iterable[tuple[str, str]]


def read_array(
    document: TomlDocument, read: Mapping[KeyPath, Any], env: _Variables, secrets: _Variables
) -> ArraySpec | None:
    """None if the file has no ``[array]``. Raises ``UserError``."""
    if "array" not in document.values:
        return None
    named = [key for key in _SOURCES if ("array", key) in read]
    if len(named) != 1:
        hint = 'count = 100, or matrix = { LR = [0.1, 0.01] }, or from = "params.csv"'
        problem = f"{named[0]} and {named[1]} both define the tasks" if named else "[array] needs its tasks"
        raise UserError(f"{document.place(('array',))}: {problem}", hint=hint)
    axes = read.get(("array", "matrix"), ())
    product = 1
    for _, listed in axes:
        product *= len(listed)
    count = product if axes else read.get(("array", "count"), 0)
    taken = {name for name, _ in (*env, *secrets)}
    for name, _ in axes:
        if name in taken:
            place = document.place(("array", "matrix"))
            raise UserError(f"{place}: {name} is in [env] or [secrets] as well", hint="keep one of them")
    succeed_at = read.get(("array", "succeed_at"), Decimal(1))
    parallel, failures = read.get(("array", "parallel"), PARALLEL), read.get(("array", "max_failures"))
    return ArraySpec(count, axes, read.get(("array", "from"), ""), parallel, succeed_at, failures)


def table_named_in(toml: str) -> str | None:
    """The file that ``[array] from`` names; None if it names none, or the job file cannot be read."""
    try:
        section = tomllib.loads(toml).get("array")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return None  # the daemon says what is wrong with it
    named = section.get("from") if isinstance(section, dict) else None
    return named if isinstance(named, str) and named.strip() else None
