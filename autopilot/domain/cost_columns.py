"""What money was spent for, in columns. They stand here once: reports, answers, files, the page and the ledger's views
are made of them, and what is posted is the sum of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, NamedTuple

from autopilot.domain.instance import CostKind
from autopilot.domain.money import ZERO


class CostColumn(NamedTuple):
    name: str
    """Name of the member in answers, and of the column in files and in the ledger's views."""
    title: str
    """Over the column on the page."""
    kinds: tuple[CostKind, ...]
    is_always_shown: bool = True
    """Else people see it only where some line has an amount in it."""


def _column(title: str, *kinds: CostKind, is_always_shown: bool = True) -> dict[str, Any]:
    return {"column": (title, kinds, is_always_shown)}


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was posted, by what it was for: a member for each of ``COST_COLUMNS``. Their sum is ``posted``."""

    compute: Decimal = field(metadata=_column("Compute", CostKind.COMPUTE))
    storage: Decimal = field(metadata=_column("Disk", CostKind.STORAGE_RUNNING, CostKind.STORAGE_STOPPED))
    bandwidth: Decimal = field(metadata=_column("Traffic", CostKind.BANDWIDTH))
    fees: Decimal = field(metadata=_column("Fees", CostKind.FEE, CostKind.CREDIT, is_always_shown=False))

    @property
    def by_column(self) -> dict[str, Decimal]:
        """Also of a line that has other members beside."""
        return {name: getattr(self, name) for name in COST_NAMES}

    @property
    def total(self) -> Decimal:
        return sum(self.by_column.values(), ZERO)


COST_COLUMNS = tuple(CostColumn(each.name, *each.metadata["column"]) for each in fields(Costs))
"""Each kind of cost belongs to one of them. A credit is negative."""
COST_NAMES = tuple(column.name for column in COST_COLUMNS)
COLUMN_OF = {kind: column.name for column in COST_COLUMNS for kind in column.kinds}
NO_COSTS = Costs(**dict.fromkeys(COST_NAMES, ZERO))


def list_shown(lines: Iterable[Costs]) -> list[CostColumn]:
    """The columns to show of these lines."""
    lines = list(lines)
    return [
        column for column in COST_COLUMNS if column.is_always_shown or any(getattr(line, column.name) for line in lines)
    ]
