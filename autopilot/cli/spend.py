"""``autopilot spend``: what was spent, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Annotated, get_type_hints

from cyclopts import Parameter

from autopilot.answers.codec import plain
from autopilot.answers.money import Spend, SpendRow
from autopilot.cli import money_views, periods
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError, install_hint

Flag = Parameter(negative="")
KEYS = ("job", "label", "owner", "provider", "gpu", "kind", "day", "month", "instance")
TAG = "tag:"

COLUMNS = tuple(each.name for each in fields(SpendRow))
"""Columns of a file; the last two are empty if no on-demand price is known."""
NANO_DIGITS = 9


def spend(
    *,
    month: str | None = None,
    since: str | None = None,
    until: str | None = None,
    by: str = "job",
    zone: str = "UTC",
    output: Output = FOR_PEOPLE,
    exact: Annotated[bool, Flag] = False,
    csv: Annotated[bool, Flag] = False,
    parquet: Path | None = None,
) -> int:
    """Show spending to the cent, next to what the same hours would have cost elsewhere.

    Posted is what the ledger has recorded, accrued what was incurred since, and reserved what limits count as well.

    Parameters
    ----------
    month
        A month as YYYY-MM; default: all time.
    since
        First day as YYYY-MM-DD, or how long ago, like 7d.
    until
        Last day, inclusive.
    by
        What each line shows, like owner or instance; label is the job's name, tag:KEY a tag of the job files.
    zone
        Time zone of days and months, like Europe/Berlin; sums per UTC day are divided by each machine's hours.
    exact
        Show amounts in the table to the nano-dollar, not to the cent; JSON, CSV and Parquet are always exact.
    csv
        Print the lines as CSV.
    parquet
        Write the lines to this file; needs the extra "parquet".
    """
    if sum((not output.is_for_people, csv, parquet is not None)) > 1:
        raise UserError("--json or -o, --csv and --parquet exclude each other")
    if exact and (csv or parquet is not None or not output.is_for_people):
        raise UserError("--exact is for the table: everything else is exact")
    if month is not None and (since is not None or until is not None):
        raise UserError("--month and --since or --until exclude each other")
    if by not in KEYS and not by.startswith(TAG):
        raise UserError(f"cannot group spend by {by!r}", hint=f"one of: {', '.join(KEYS)}, or {TAG}KEY")
    write_parquet = None if parquet is None else _parquet_writer()
    client = JsonClient()
    body = client.get(
        "/v1/spend",
        by=by,
        month=periods.month(month),
        since=periods.day(since, client, zone),
        until=periods.day(until, client, zone),
        zone=None if zone == "UTC" else zone,
    )
    if not output.is_for_people:
        output.print(body, "rows")
        return Exit.OK
    answer = read(Spend, body)
    if csv:
        _print_csv(answer.rows)
    elif parquet is not None and write_parquet is not None:
        write_parquet(answer.rows, parquet)
        print(f"{len(answer.rows)} lines written to {parquet}")
    else:
        out = console()
        for part in money_views.spend(answer, by, exact=exact):
            out.print(part)
    return Exit.OK


def _print_csv(rows: list[SpendRow]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(value) for value in vars(row).values()])


def _cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula is kept text."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(tuple("=+@\t\r")) else value
    return plain(value)


def _parquet_writer() -> Callable[[list[SpendRow], Path], None]:
    """Raises ``UserError`` if the library for it is missing, before anything is asked for."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            "Parquet needs a library that is not installed",
            hint=f"use --csv, or {install_hint('parquet')}",
        ) from None
    amount = arrow.decimal128(38, NANO_DIGITS)
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), Decimal: amount, Decimal | None: amount}
    hints = get_type_hints(SpendRow)
    schema = arrow.schema([(name, types.get(hints[name], arrow.string())) for name in COLUMNS])

    def write(rows: list[SpendRow], path: Path) -> None:
        columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
        try:
            parquet.write_table(arrow.table(columns, schema=schema), str(path))
        except OSError as problem:
            raise CommandError(Exit.FAILED, f"cannot write {path}: {problem.strerror or problem}") from None

    return write
