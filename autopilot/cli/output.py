"""Writing to the terminal: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 160
"""Columns without a terminal: in a pipe lines must not be cut to a terminal's width."""


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How a command prints its answer; every command that has rows takes these two."""

    output: Annotated[
        Literal["table", "json", "jsonl"],
        Parameter(name=["--output", "-o"], help="A table for people; one JSON document; or one JSON row per line."),
    ] = "table"
    json: Annotated[bool, Parameter(negative="", help="Short for -o json.")] = False

    @property
    def is_for_people(self) -> bool:
        """Raises ``UserError`` for a contradiction."""
        if self.json and self.output != "table":
            raise UserError(f"--json and -o {self.output} exclude each other")
        return not self.json and self.output == "table"

    def print(self, body: Any, rows: str = "") -> None:
        """``rows``: the key of the list whose items are the lines of jsonl; else the answer is one line."""
        if self.output == "jsonl":
            for row in body[rows] if rows else [body]:
                print(json.dumps(row))
        else:
            print_json(body)


FOR_PEOPLE = Output()


def print_json(body: Any) -> None:
    print(json.dumps(body, indent=2))


def console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), whole: Sequence[str] = ()
) -> Table:
    """A table without lines. Columns named in ``right`` are aligned there, and like those in ``whole`` never broken.

    Cells are text, never markup.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        is_whole = column in right or column in whole
        made.add_column(column, justify="right" if column in right else "left", no_wrap=is_whole, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, Text(value))
    return made
