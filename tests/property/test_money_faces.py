"""Each view of the ledger adds up to what is posted: answers, table, file, page, job, receipt,
bill, budget. Columns are named nowhere here, so one more of them is checked as soon as it is in ``COST_COLUMNS``."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from autopilot.answers.codec import from_json, to_json
from autopilot.answers.money import Budget, Counted, ItemizedReceipt, JobSpend, MonthOfMoney, Spend
from autopilot.books.budget import budget
from autopilot.books.finding import find_job
from autopilot.books.job_life import read_life
from autopilot.books.page_views import read_money
from autopilot.books.receipt import read_receipt
from autopilot.books.spend import spend
from autopilot.cli import money_views, views
from autopilot.cli import spend as command
from autopilot.domain.cost_columns import COLUMN_OF, COST_COLUMNS, COST_NAMES, list_shown
from autopilot.domain.instance import CostKind
from autopilot.domain.lease import LeaseState
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.engine.outstanding import read_moment
from autopilot.web import money_page
from autopilot.web.money_page import Table
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import limits
from tests.leases import change_lease
from tests.store_records import DAY, START, a_job, a_lease, an_entry

JOB = "job-000001"
MONTH = f"{DAY:%Y-%m}"

nanos = st.integers(0, 10**12).map(lambda nano: Decimal(nano).scaleb(-9))
bookings = st.lists(st.tuples(st.sampled_from(CostKind), nanos, st.sampled_from([0, 1])), max_size=12)


@dataclass(frozen=True)
class Faces:
    """As they are once they have crossed HTTP."""

    posted: Decimal
    """By the ledger's entries."""
    by_column: dict[str, Decimal]
    spend: Spend
    month: MonthOfMoney
    budget: Budget
    counted: Counted
    job_spend: JobSpend
    receipt: ItemizedReceipt


async def read_faces(booked: Iterable[tuple[CostKind, Decimal, int]]) -> Faces:
    gone: dict[str, Any] = {"state": LeaseState.GONE, "provider": "vastai"}
    leases = [
        change_lease(a_lease(f"lease-{each}", JOB, instance_id=f"{each}", **gone), settled_at=START) for each in (0, 1)
    ]
    signed = [(kind, -amount if kind is CostKind.CREDIT else amount, lease) for kind, amount, lease in booked]
    store, by_column = MemoryStore(), dict.fromkeys(COST_NAMES, ZERO)
    for kind, amount, _ in signed:
        by_column[COLUMN_OF[kind]] += amount
    async with store.transaction() as work:
        await work.jobs.save(a_job(JOB, leases=tuple(leases)))
        entries = [
            an_entry(f"e{n}", amount, lease=leases[at], kind=kind) for n, (kind, amount, at) in enumerate(signed)
        ]
        await work.ledger.post(entries)
    async with store.snapshot() as uow:
        moment, job = await read_moment(uow, START, Params()), await find_job(uow, JOB)
        life = await read_life(uow, job, moment)
        return Faces(
            sum((amount for _, amount, _ in signed), ZERO),
            by_column,
            from_json(Spend, to_json(await spend(uow, moment, {"by": "job"}))),
            from_json(MonthOfMoney, to_json(await read_money(uow, moment, limits(), "instance", MONTH))),
            from_json(Budget, to_json(await budget(uow, moment, limits(), {}))),
            from_json(Counted, to_json(moment.money_of(job)._asdict())),
            from_json(JobSpend, life["spend"]),
            from_json(ItemizedReceipt, to_json(await read_receipt(uow, job, START))),
        )


def faces(booked: Iterable[tuple[CostKind, Decimal, int]]) -> Faces:
    return asyncio.run(read_faces(booked))


def dollars(cell: str) -> Decimal:
    return Decimal(cell.replace("$", "").replace(",", ""))


def printed(part: RenderableType) -> list[list[str]]:
    console = Console(width=400, color_system=None)
    with console.capture() as captured:
        console.print(part)
    return [line.split() for line in captured.get().splitlines()]


def test_every_kind_of_cost_has_one_column() -> None:
    assert set(COLUMN_OF) == set(CostKind)
    assert sum(len(column.kinds) for column in COST_COLUMNS) == len(CostKind)


def test_what_is_nothing_throughout_may_be_left_out() -> None:
    total = faces([]).spend.total_row
    assert [column.name for column in list_shown([total])] == [
        column.name for column in COST_COLUMNS if column.is_always_shown
    ]


@given(booked=bookings)
@settings(deadline=None)
def test_every_answer_is_what_is_posted(booked: list[tuple[CostKind, Decimal, int]]) -> None:
    read = faces(booked)
    for total in (read.spend.total_row, read.month.spend.total_row, read.job_spend, read.receipt):
        assert total.by_column == read.by_column
        assert total.posted == total.total == read.posted
    for rows in (read.spend.rows, read.month.spend.rows):
        assert sum((row.posted for row in rows), ZERO) == read.posted
        assert all(row.total == row.posted for row in rows)
    assert sum((line.amount for line in read.receipt.lines), ZERO) == read.posted
    assert sum((each.posted for each in read.receipt.machines), ZERO) == read.posted
    assert sum((amount for days in read.month.days.values() for amount in days.values()), ZERO) == read.posted
    assert read.month.bills.total.posted == read.month.account.month.posted == read.posted
    assert read.budget.account is not None
    assert read.budget.account.month.posted == read.posted


@given(booked=bookings)
@settings(deadline=None)
def test_every_face_adds_up_as_it_is_shown(booked: list[tuple[CostKind, Decimal, int]]) -> None:
    read = faces(booked)
    check_terminal(read)
    check_file(read)
    check_page(money_page._tabulate(read.month.spend), read)
    check_job(read)


def check_terminal(read: Faces) -> None:
    (head, *lines), shown = printed(money_views.spend_table(read.spend, "job")), list_shown(read.spend.rows)
    assert head[1 : len(shown) + 2] == [*(column.name.upper() for column in shown), "POSTED"]
    rows = [[dollars(cell) for cell in line[1 : len(shown) + 2]] for line in lines]
    assert all(sum(parts) == posted for *parts, posted in rows)
    assert abs(rows[-1][-1] - read.posted) < Decimal("0.01")


def check_file(read: Faces) -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        command._print_csv(read.spend.rows)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert sum((Decimal(row[name]) for row in rows for name in COST_NAMES), ZERO) == read.posted
    assert sum((Decimal(row["posted"]) for row in rows), ZERO) == read.posted


def check_page(table: Table, read: Faces) -> None:
    money = table.columns.index("Total")
    titles = [column.title for column in list_shown(read.month.spend.rows)]
    assert table.columns[:money] == [*titles, "Accrued"]
    lines = [*(line.cells for line in table.lines), table.total]
    rows = [[dollars(cell) for cell in cells[: money + 1]] for cells in lines]
    assert all(sum(parts) == whole for *parts, whole in rows)
    assert abs(rows[-1][-1] - read.posted) < Decimal("0.1")


def check_job(read: Faces) -> None:
    told = dict(views._money_lines(read.counted, read.job_spend, is_estimate=False))["posted"]
    posted, _, parts = told.removesuffix(")").partition(" (")
    named = dict(part.split() for part in parts.split(", "))
    assert list(named) == list(COST_NAMES)
    assert sum(map(dollars, named.values()), ZERO) == dollars(posted)
    assert abs(dollars(posted) - read.posted) < Decimal("0.01")
