"""What money was spent for, in columns. They stand here once: reports, answers, files, the page and the ledger's views
are made of them, and what is posted is the sum of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from autopilot.domain.instance import CostKind


class CostColumn(NamedTuple):
    name: str
    """Of the member in answers, and of the column in files and in the ledger's views."""
    title: str
    """Over the column on the page."""
    kinds: tuple[CostKind, ...]
    is_always_shown: bool = True
    """Else people see it only where some line has an amount in it."""


COST_COLUMNS = (
    CostColumn("compute", "Compute", (CostKind.COMPUTE,)),
    CostColumn("storage", "Disk", (CostKind.STORAGE_RUNNING, CostKind.STORAGE_STOPPED)),
    CostColumn("bandwidth", "Traffic", (CostKind.BANDWIDTH,)),
    CostColumn("fees", "Fees", (CostKind.FEE, CostKind.CREDIT), is_always_shown=False),
)
"""Each kind of cost belongs to one of them. A credit is negative."""
COST_NAMES = tuple(column.name for column in COST_COLUMNS)
COLUMN_OF = {kind: column.name for column in COST_COLUMNS for kind in column.kinds}


def list_shown(lines: Iterable[Mapping[str, Any]]) -> list[CostColumn]:
    """The columns to show of lines whose members are amounts, as text, by the columns' names."""
    lines = list(lines)
    return [
        column
        for column in COST_COLUMNS
        if column.is_always_shown or any(Decimal(line.get(column.name) or 0) for line in lines)
    ]
