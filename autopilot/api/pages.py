"""What the lists have in common: fields that are chosen."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from autopilot.answers import render
from autopilot.domain.errors import UserError


def select_fields(rows: Iterable[render.Json], chosen: str, model: type[BaseModel]) -> list[render.Json]:
    """``chosen``: names with commas between; empty: all. Raises ``UserError`` for one that no row has."""
    names = tuple(name for name in chosen.split(",") if name)
    for name in names:
        if name not in model.model_fields:
            raise UserError(f"fields: there is no field {name[:60]!r}", hint=f"fields: {', '.join(model.model_fields)}")
    return [{name: row[name] for name in names} if names else row for row in rows]
