"""For any amounts in the daemon's answers, a table of money adds up as it is shown: its rows and its columns."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import PaidLease
from autopilot.answers.money import Budget, Reconciliation, Spend
from autopilot.cli import money_views, views
from autopilot.domain.cost_columns import COST_NAMES, list_shown
from tests.unit.cli.sample_daemon import sample

nanos = st.one_of(st.just(0), st.integers(0, 10**7), st.integers(0, 10**13)).map(lambda nano: Decimal(nano).scaleb(-9))
signed = st.one_of(nanos, nanos.map(lambda amount: -amount))


def shown(part: RenderableType, columns: list[str]) -> list[dict[str, Decimal]]:
    """The money of each line, by column; the last line is the total where there is one."""
    console = Console(width=400, color_system=None)
    with console.capture() as captured:
        console.print(part)
    lines = captured.get().splitlines()[1:]
    rows = [re.findall(r"-?\$[\d.,]+(?!\S)|(?<= )-(?= )", line) for line in lines]
    assert all(len(row) >= len(columns) for row in rows), lines
    return [
        {
            name: Decimal("0") if cell == "-" else Decimal(cell.replace("$", "").replace(",", ""))
            for name, cell in zip(columns, row, strict=False)
        }
        for row in rows
    ]


def check_totals(rows: list[dict[str, Decimal]], columns: list[str]) -> None:
    *lines, total = rows
    for name in columns:
        assert sum((line[name] for line in lines), Decimal(0)) == total[name], name


def some(data: st.DataObject, names: tuple[str, ...], amounts: st.SearchStrategy[Decimal] = nanos) -> dict[str, str]:
    return {name: f"{data.draw(amounts):f}" for name in names}


@given(data=st.data(), count=st.integers(1, 6), exact=st.booleans())
def test_spend(data: st.DataObject, count: int, exact: bool) -> None:
    body = sample("spend")
    body["rows"] = [
        body["rows"][0] | {"saved": None} | some(data, COST_NAMES, signed) | some(data, ("accrued", "held"))
        for _ in range(count)
    ]
    body["total_row"] |= dict.fromkeys(COST_NAMES, "0")
    spend = from_json(Spend, body)
    kinds = [column.name for column in list_shown(spend.rows)]
    columns = [*kinds, "posted", "accrued", "held"]
    rows = shown(money_views.spend_table(spend, "job", exact=exact), columns)
    assert {row["posted"].as_tuple().exponent for row in rows} == {-9 if exact else -2}
    check_totals(rows, columns)
    for row in rows:
        assert sum((row[kind] for kind in kinds), Decimal(0)) == row["posted"]


@pytest.mark.slow
@given(data=st.data(), count=st.integers(1, 6))
def test_reconcile(data: st.DataObject, count: int) -> None:
    body = sample("reconcile")
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        row = body["rows"][0] | some(data, ("estimate", "accrued", "held")) | some(data, ("corrected",), signed)
        row["posted"] = str(Decimal(row["estimate"]) + Decimal(row["corrected"]))
        row["invoiced"] = data.draw(st.none() | nanos.map(str))
        row["not_billed"] = str(Decimal(row["posted"]) - Decimal(row["invoiced"] or 0))
        rows.append(row)
    columns = ["estimate", "corrected", "posted", "invoiced", "unbilled", "accrued", "held"]
    table = shown(money_views.reconciliation(from_json(Reconciliation, body | {"rows": rows}))[0], columns)
    check_totals(table, columns)
    for row in table:
        assert row["estimate"] + row["corrected"] == row["posted"]
        assert row["posted"] - row["invoiced"] == row["unbilled"]


@given(data=st.data())
def test_budget(data: st.DataObject) -> None:
    body = sample("budget")
    for limit in (body["account"]["day"], body["account"]["month"], *body["jobs"]):
        limit |= some(data, ("posted", "accrued", "held", "limit"))
        spent = sum((Decimal(limit[name]) for name in ("posted", "accrued", "held")), Decimal(0))
        limit["left"] = str(Decimal(limit["limit"]) - spent)
    for row in shown(money_views.budget(from_json(Budget, body))[0], ["limit", "posted", "accrued", "held", "left"]):
        assert row["limit"] - row["posted"] - row["accrued"] - row["held"] == row["left"]


@given(data=st.data(), count=st.integers(1, 6))
def test_leases_of_a_job(data: st.DataObject, count: int) -> None:
    lease = sample("job")["leases"][0]
    leases = [from_json(PaidLease, lease | some(data, ("posted", "accrued", "held"))) for _ in range(count)]
    part = views.lease_list(leases, datetime(2026, 1, 1, 12, tzinfo=UTC))
    columns = ["posted", "accrued", "held"]
    check_totals(shown(part, columns), columns)
