"""Arrays: one job of many tasks. What its job file says of them, how a task is written, and where all stand together.

A task is a job of its own with the array as its parent; the array itself never has a machine.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from autopilot.domain.errors import UserError

MOST_TASKS = 10_000
MOST_TABLE_BYTES = 1_000_000
"""Limit for the table that a job file names in ``from``."""
LONGEST_VALUE = 4096
"""Characters of one value of a task."""
PARALLEL = 10
"""Tasks at once, where the job file does not say."""
TASK_VARIABLE = "AUTOPILOT_TASK"
TASKS_VARIABLE = "AUTOPILOT_TASKS"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """``[array]`` of a job file."""

    count: int
    """Tasks, numbered from 0; 0 until the table that ``source`` names has come with the job file."""
    axes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(variable, its values): a task for each combination, the last axis turning fastest."""
    source: str = ""
    """The table with a row for each task, as the user named its file; its text lies beside the job."""
    parallel: int = PARALLEL
    """Tasks at once, at the most."""
    succeed_at: Decimal = Decimal(1)
    """The share of tasks that suffices."""
    max_failures: int | None = None
    """So many failed tasks end the whole; None: the first ten do if none has succeeded, else the others go on."""

    @property
    def needed(self) -> int:
        """Tasks that have to succeed."""
        return max(1, int((self.succeed_at * self.count).to_integral_value(ROUND_CEILING)))


class TaskCounts(NamedTuple):
    """Tasks of one array by where they stand, as the ledger has them. Those that have not begun are in none."""

    open: int = 0
    """Those that are not over; of them the next four."""
    waiting: int = 0
    running: int = 0
    parked: int = 0
    ending: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    work: timedelta = timedelta(0)
    """That those did together which have succeeded."""
    excused: int = 0
    """Those that a machine failed, and that have not failed themselves."""

    @property
    def begun(self) -> int:
        return self.open + self.succeeded + self.failed + self.cancelled

    @property
    def active(self) -> int:
        """Those that hold a place: neither over nor parked."""
        return self.open - self.parked

    @classmethod
    def of(cls, statuses: Mapping[str, int], work: timedelta = timedelta(0), excused: int = 0) -> TaskCounts:
        """``statuses``: how many tasks have each status of a job."""
        over = {name: statuses.get(name, 0) for name in ("succeeded", "failed", "cancelled")}
        running = statuses.get("running", 0) + statuses.get("migrating", 0)
        parked = statuses.get("parked", 0)
        ending = statuses.get("stopping", 0) + statuses.get("cancelling", 0)
        is_open = sum(statuses.values()) - sum(over.values())
        waiting = is_open - running - parked - ending
        return cls(is_open, waiting, running, parked, ending, **over, work=work, excused=excused)


def split_task(reference: str) -> tuple[str, str]:
    """Split ``JOB/17`` and ``JOB/3-9`` into the job's reference and the part after the slash, empty for a job."""
    job, _, tasks = reference.partition("/")
    return job, tasks


def read_tasks(text: str) -> range | None:
    """The tasks of ``17`` or ``3-9``; None for anything else."""
    first, dash, last = text.partition("-")
    if not (_is_number(first) and (_is_number(last) or not dash)):
        return None
    found = range(int(first), int(last or first) + 1)
    return found or None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MOST_TASKS))


def task_name(job: str, task: int) -> str:
    """As a task is written: the name of its job, or its id, and its number."""
    return f"{job}/{task}"


Row = tuple[tuple[str, str], ...]
"""(variable, value) of one task."""


def read_table(text: str) -> tuple[Row, ...]:
    """A table of comma-separated values, its first line the names of variables. Raises ``UserError``."""
    if len(text.encode()) > MOST_TABLE_BYTES:
        raise UserError(f"the table has more than {MOST_TABLE_BYTES:,} bytes", hint="keep large values in [inputs]")
    if "\0" in text:
        raise UserError("the table contains a zero byte")
    try:
        lines = [line for line in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True) if line]
    except csv.Error as problem:
        raise UserError(f"the table is no comma-separated text: {problem}") from None
    if len(lines) < 2:
        raise UserError("the table has no rows", hint="the first line has the variables, each following line is a task")
    names = [name.strip() for name in lines[0]]
    for name in names:
        check_variable(name)
    if len(set(names)) < len(names):
        raise UserError("the table names a variable twice")
    if len(lines) - 1 > MOST_TASKS:
        raise UserError(f"the table has {len(lines) - 1:,} rows", hint=f"an array has at most {MOST_TASKS:,} tasks")
    for number, line in enumerate(lines[1:]):
        _check_row(number, line, len(names))
    return tuple(tuple(zip(names, line, strict=True)) for line in lines[1:])


def _check_row(number: int, line: list[str], width: int) -> None:
    if len(line) != width:
        raise UserError(f"row {number} of the table has {len(line)} values for {width} variables")
    if max(map(len, line)) > LONGEST_VALUE:
        raise UserError(f"row {number} of the table has a value of more than {LONGEST_VALUE:,} characters")


def check_variable(name: str) -> None:
    """Raises ``UserError`` for what cannot be a variable of a task."""
    if not _VARIABLE.fullmatch(name) or name.upper().startswith("AUTOPILOT_"):
        hint = "letters, digits and _ only, and not AUTOPILOT_, which is autopilot's own"
        raise UserError(f"{name[:60]!r} is not a valid name for a variable", hint=hint)


def combine(axes: Iterable[tuple[str, tuple[str, ...]]], task: int) -> Row:
    """The combination of values that a task has: the last axis turns fastest."""
    found: list[tuple[str, str]] = []
    for name, values in reversed(tuple(axes)):
        task, at = divmod(task, len(values))
        found.append((name, values[at]))
    return tuple(reversed(found))
