"""*Money*: one month by day and market, against its limit; where it went; our figures beside the markets' bills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.money import AccountMoney, ReconciliationOfDearest, Spend, SpendOfMonth, SpendRow
from autopilot.domain.cost_columns import list_shown
from autopilot.domain.errors import UserError
from autopilot.domain.money import ZERO
from autopilot.domain.time import month_bounds
from autopilot.web import curves, words
from autopilot.web.hero import Panel
from autopilot.web.shapes import Figure, budget_meter, saved_figure, spent_of, tell_limit
from autopilot.web.source import PageSource
from autopilot.words import text

GROUPS = {"job": "Job", "gpu": "GPU", "label": "Label", "provider": "Market"}


class TableLine(NamedTuple):
    name: str
    job_id: str | None
    cells: tuple[str, ...]


class Table(NamedTuple):
    columns: list[str]
    lines: list[TableLine]
    total: tuple[str, ...]


@dataclass(frozen=True)
class MoneyPage:
    now: datetime
    newest_at: datetime | None
    month: str
    """``November 2026``."""
    month_key: str
    earlier: str
    later: str | None
    figures: list[Figure]
    days: Panel
    day_numbers: Markup
    few_numbers: Markup
    against: Panel
    markets: list[str]
    day_table: Table
    by: str
    groups: Mapping[str, str]
    table: Table
    bills: Table
    not_billed: int


async def build(source: PageSource, query: Mapping[str, str]) -> MoneyPage:
    """Raises ``UserError`` for a month or a key that makes no sense."""
    now = source.now
    key = query.get("month") or f"{now:%Y-%m}"
    by = query.get("by", "job")
    if by not in GROUPS:
        raise UserError(f"cannot group spend by {by!r}", hint=f"one of: {', '.join(GROUPS)}")
    first, after = month_bounds(key)
    body = await source.read_money(by, key)
    spend, account, bills, spent = body.spend, body.account, body.bills, body.days
    whole = {
        day: sum((each.get(day, ZERO) for each in spent.values()), ZERO) for days in spent.values() for day in days
    }
    is_now = key == f"{now:%Y-%m}"
    limit = account.month.limit if is_now else None
    return MoneyPage(
        now,
        source.newest_at,
        f"{first:%B %Y}",
        key,
        f"{date.fromordinal(first.toordinal() - 1):%Y-%m}",
        f"{after:%Y-%m}" if not is_now and after <= now.date() else None,
        _list_figures(spend, bills, account if is_now else None),
        curves.draw_days(spent, first, after, now.date()),
        curves.draw_day_numbers(first, after),
        curves.draw_day_numbers(first, after, every=5),
        curves.draw_month(whole, first, after, now, limit),
        list(spent),
        _tabulate_days(spent),
        by,
        GROUPS,
        _tabulate(spend),
        _tabulate_bills(bills),
        bills.not_invoiced,
    )


def _list_figures(spend: Spend, bills: ReconciliationOfDearest, account: AccountMoney | None) -> list[Figure]:
    """``account``: of the present month; None: the month is another."""
    spent = words.money(spent_of(spend.total_row))
    if account is None:
        figures = [Figure("Spent", spent, "posted and accrued")]
    else:
        month, reached = account.month, ", capped by the limit" if account.forecast_reaches_limit else ""
        figures = [
            Figure("Spent", spent, tell_limit(month, month.limit), budget_meter(month, month.limit)),
            Figure(
                "Projected",
                words.money(account.forecast_month),
                f"at the current {words.per_hour(account.burn)}{reached}",
            ),
        ]
    machines = len(bills.rows) + bills.others_count
    billed = machines - bills.not_invoiced
    return [
        *figures,
        saved_figure(spend),
        Figure("Billed", f"{billed} of {machines}", "machines have a market bill in the ledger"),
        Figure("Not billed yet", words.money(bills.total.not_billed), "posted, not on a bill yet"),
    ]


def _tabulate_days(spent: Mapping[str, Mapping[date, Decimal]]) -> Table:
    """Newest first, a column for each market and one for all."""
    days = sorted({day for each in spent.values() for day in each}, reverse=True)
    amounts = text.Amounts([{market: spent[market].get(day) for market in spent} for day in days], list(spent), least=2)
    return _in_lines(
        [*(words.market(market) for market in spent), "All"],
        [(f"{day:%d %b}", None) for day in days],
        amounts.sum_columns(list(spent)),
    )


def _tabulate(spend: SpendOfMonth) -> Table:
    """Dearest first, and at the end the sum of those that are too many to be shown."""
    rows, others = spend.rows, spend.others
    facts = rows if others is None else [*rows, others]
    shown = list_shown(facts)
    parts = [*(column.name for column in shown), "accrued"]
    amounts = text.Amounts(facts, parts, least=2).sum_columns(parts)
    columns = [*(column.title for column in shown), "Accrued", "Total"]
    names = [(_name(row, spend.by), (row.key or None) if spend.by == "job" else None) for row in rows]
    table = _in_lines(columns, [*names, *_name_others(spend)], amounts)
    more = [(words.duration(row.running_s), words.money(row.saved)) for row in [*facts, spend.total_row]]
    lines = [line._replace(cells=(*line.cells, *extra)) for line, extra in zip(table.lines, more[:-1], strict=True)]
    return Table([*columns, "Ran", "Saved"], lines, (*table.total, *more[-1]))


def _name_others(body: SpendOfMonth | ReconciliationOfDearest) -> list[tuple[str, None]]:
    return [] if body.others is None else [(f"{body.others_count:,} others", None)]


def _name(row: SpendRow, by: str) -> str:
    if by == "provider":
        return words.market(row.key)
    return words.plain(row.name or row.key or "no job")


def _tabulate_bills(bills: ReconciliationOfDearest) -> Table:
    """What is posted of each machine, what the market has billed of it, and the rest; dearest first."""
    rows, others = bills.rows, bills.others
    amounts = text.Amounts(rows if others is None else [*rows, others], ("invoiced", "not_billed"))
    invoiced, rest, posted = amounts.sum_columns(["invoiced", "not_billed"])
    for number, row in enumerate(rows):
        if row.invoiced is None:
            invoiced[number] = "no bill yet"
    names = [(f"{words.market(row.provider)} {words.plain(row.instance_id)}", row.job_id) for row in rows]
    return _in_lines(["Posted", "Billed", "Not billed"], [*names, *_name_others(bills)], [posted, invoiced, rest])


def _in_lines(columns: list[str], names: Sequence[tuple[str, str | None]], cells: Sequence[Sequence[str]]) -> Table:
    """``cells``: by column, each with its total at its end."""
    *rows, total = zip(*cells, strict=True) if cells else [()]
    lines = [TableLine(name, job_id, tuple(row)) for (name, job_id), row in zip(names, rows, strict=False)]
    return Table(columns, lines, tuple(total))
