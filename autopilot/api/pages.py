"""What the lists have in common: fields that are chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from autopilot import render
from autopilot.domain.errors import UserError


def select_fields(rows: Iterable[render.Json], chosen: str, kind: type[Any]) -> list[render.Json]:
    """``chosen``: names with commas between; empty: all. Raises ``UserError`` for one that no row has."""
    names = tuple(name for name in chosen.split(",") if name)
    known = [each.name for each in fields(kind)]
    for name in names:
        if name not in known:
            raise UserError(f"fields: there is no field {name[:60]!r}", hint=f"fields: {', '.join(known)}")
    return [{name: row[name] for name in names} if names else row for row in rows]
