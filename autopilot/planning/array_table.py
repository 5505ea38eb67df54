"""The table that comes with an array: a task for each of its rows."""

from __future__ import annotations

from dataclasses import replace

from autopilot.domain.array import read_table
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec


def with_table(spec: JobSpec, table: str | None, source: str) -> JobSpec:
    """The spec once its table is there, with a task for each row. ``table``: None if none came along.

    Raises ``UserError``.
    """
    array = spec.array
    if array is None or not array.source:
        if table is not None:
            raise UserError(f"{source}: a table was sent, but [array] does not name one", hint="omit the table")
        return spec
    if table is None:
        raise UserError(
            f"{source}: array.from: the table {array.source} was not sent",
            hint="submit it with autopilot submit, or send its text as table",
        )
    try:
        rows = read_table(table)
    except UserError as problem:
        problem.message = f"{array.source}: {problem.message}"
        raise
    taken = {name for name, _ in (*spec.env, *spec.secrets)}
    for name, _ in rows[0]:
        if name in taken:
            hint = "keep one of them"
            raise UserError(f"{array.source}: {name} is in [env] or [secrets] of {source} as well", hint=hint)
    return replace(spec, array=replace(array, count=len(rows)))
