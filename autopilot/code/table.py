"""The table that an array's job file names: read here, sent with the job file."""

from __future__ import annotations

from pathlib import Path

from autopilot.config.array_section import table_named_in
from autopilot.domain.array import MOST_TABLE_BYTES
from autopilot.domain.errors import UserError


def read_table_of(toml: str, beside: Path) -> str | None:
    """Its text; None if the job file names none. ``beside``: the directory that its path is relative to.

    Raises ``UserError``.
    """
    named = table_named_in(toml)
    if named is None:
        return None
    path = beside / Path(named).expanduser()
    try:
        with path.open("rb") as opened:
            raw = opened.read(MOST_TABLE_BYTES + 1)
    except OSError as error:
        raise UserError(f"array.from: cannot read {path}: {error.strerror or error}") from None
    if len(raw) > MOST_TABLE_BYTES:
        problem = f"array.from: {path} has more than {MOST_TABLE_BYTES:,} bytes"
        raise UserError(problem, hint="send large values in [code]")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"array.from: {path} is not UTF-8 text") from None
