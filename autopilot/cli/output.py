"""Writing to the terminal: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from autopilot.answers.codec import to_json
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

WIDE = 160
"""Columns without a terminal: in a pipe lines must not be cut to a terminal's width."""
GAP = 1
"""Between the columns of a table."""
LONGEST_WORD = 26
"""An id has as many characters; a longer word, such as a path, is broken where its column is narrower."""


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
        """``body``: an answer, as a value or as it came.

        ``rows``: the key of the list whose items are the lines of jsonl; else the answer is one line.
        """
        if self.output == "jsonl":
            made = to_json(body)
            for row in made[rows] if rows else [made]:
                print(json.dumps(row))
        else:
            print_json(body)


FOR_PEOPLE = Output()


def print_json(body: Any) -> None:
    print(json.dumps(to_json(body), indent=2))


def console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> FittedTable:
    """A table without lines. Columns named in ``right`` are aligned there, and like those in ``whole`` never wrapped.

    The others wrap between words. Where the terminal is too narrow even for that, those in ``drop`` are left out, the
    first of them first, and a line below names them.
    """
    return FittedTable(tuple(columns), [tuple(row) for row in rows], right, (*right, *whole), drop)


@dataclass(frozen=True)
class FittedTable:
    """Cells are text, never markup. It is laid out once the width is known."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: Sequence[str]
    whole: Sequence[str]
    drop: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        measured = [self._measure(number) for number in range(len(self.columns))]
        shown, dropped = self._choose(measured, options.max_width)
        widths = _share_width([measured[number] for number in shown], options.max_width - GAP * len(shown))
        made = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False)
        for number, width in zip(shown, widths, strict=True):
            name = self.columns[number]
            made.add_column(
                name,
                justify="right" if name in self.right else "left",
                no_wrap=name in self.whole,
                overflow="fold",
                width=width,
            )
        for row in self.rows:
            made.add_row(*(Text(row[number]) for number in shown))
        yield made
        if dropped:
            yield Text(f"(too narrow for {', '.join(dropped)}; -o json has all)")

    def _measure(self, number: int) -> tuple[int, int]:
        """The widths of a column's longest word, which stays in one piece, and of its longest cell."""
        from rich.cells import cell_len

        name = self.columns[number]
        cells = {name, *(row[number] for row in self.rows)}
        most = max(map(cell_len, cells))
        if name in self.whole:
            return most, most
        return min(max((cell_len(word) for cell in cells for word in cell.split()), default=0), LONGEST_WORD), most

    def _choose(self, measured: Sequence[tuple[int, int]], width: int) -> tuple[list[int], list[str]]:
        """The numbers of the columns that fit, and the names of those that do not."""
        shown, dropped = list(range(len(self.columns))), []
        for name in self.drop:
            if sum(measured[number][0] + GAP for number in shown) <= width:
                break
            if name in self.columns:
                shown.remove(self.columns.index(name))
                dropped.append(name)
        return shown, dropped


def _share_width(measured: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Each column has at least its longest word; of what is left the narrow ones are made whole first."""
    widths = [least for least, _ in measured]
    spare = max(width - sum(widths), 0)
    by_want = sorted(range(len(widths)), key=lambda number: measured[number][1] - measured[number][0])
    for place, number in enumerate(by_want):
        least, most = measured[number]
        given = min(most - least, spare // (len(by_want) - place))
        widths[number] += given
        spare -= given
    while sum(widths) > width and max(widths, default=0) > 1:  # not even the words have room
        widths[widths.index(max(widths))] -= 1
    return widths


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
