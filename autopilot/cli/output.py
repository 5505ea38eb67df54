"""Writing to the terminal: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 160
"""Columns where nobody looks: in a pipe lines must not be cut to a terminal's width."""


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
