"""A column of money that is added appears everywhere at once, and what is shown adds up with it."""

from __future__ import annotations

import csv
import io
from contextlib import redirect_stdout
from decimal import Decimal
from typing import Any

from rich.console import Console

from autopilot.answers.models.base import Costs
from autopilot.cli import money_views, views
from autopilot.cli import spend as command
from autopilot.domain.cost_columns import COLUMN_OF, COST_COLUMNS, COST_NAMES, list_shown
from autopilot.domain.instance import CostKind
from autopilot.web import money_page

AMOUNTS = {name: str(number) for number, name in zip((10, 1, 2, -4), COST_NAMES, strict=True)}
POSTED = sum(map(Decimal, AMOUNTS.values()))
REST = {"running_s": 3600, "saved": None, "on_demand": None, "instances": 1}
ROW: dict[str, Any] = {"key": "a", "name": "a", "posted": str(POSTED), "accrued": "0", "held": "0"} | REST | AMOUNTS


def test_every_kind_of_cost_has_one_column_and_every_column_a_member() -> None:
    assert set(COLUMN_OF) == set(CostKind)
    assert sum(len(column.kinds) for column in COST_COLUMNS) == len(CostKind)
    assert tuple(Costs.model_fields) == COST_NAMES


def test_what_is_nothing_throughout_may_be_left_out() -> None:
    rows = [ROW | {"fees": "0"}, ROW | {"fees": "0.0"}]
    assert [column.name for column in list_shown(rows)] == list(COST_NAMES[:-1])
    assert [column.name for column in list_shown([*rows, ROW])] == list(COST_NAMES)


def test_the_page_s_total_is_what_is_posted() -> None:
    shown = {"rows": [ROW], "others": None, "total_row": ROW, "by": "provider"}
    table = money_page._tabulate(shown)
    total = dict(zip(table.columns, table.total, strict=True))
    assert [total[column.title] for column in COST_COLUMNS] == ["$10.00", "$1.00", "$2.00", "-$4.00"]
    assert total["Total"] == f"${POSTED}.00"


def test_the_terminal_s_total_is_what_is_posted() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(money_views.spend_table({"rows": [ROW], "total_row": ROW}, "job"))
    *_, total = console.file.getvalue().strip().splitlines()  # type: ignore[attr-defined]
    assert total.split()[1:6] == ["$10.0000", "$1.0000", "$2.0000", "-$4.0000", f"${POSTED}.0000"]
    told = dict(views._money_lines(ROW, {"posted": ROW["posted"]} | AMOUNTS))["posted"]
    assert told.startswith(f"${POSTED}.0000 (compute $10.0000")
    assert "fees -$4.0000" in told


def test_the_file_has_every_column() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        command._print_csv([ROW])
    (line,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert sum(Decimal(line[name]) for name in COST_NAMES) == Decimal(line["posted"]) == POSTED
