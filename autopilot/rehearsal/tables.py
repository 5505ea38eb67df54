"""Tables that a program writes: whether a run has taken the rows of the one before, or written them once more. Pure."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from itertools import pairwise

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")
"""Not those of logs: they are read by a person, and may well say twice what was done twice."""
ARRAY_SUFFIX = ".json"
"""A table where it is an array of objects."""
COUNTING = re.compile(
    r"^(?:(?:trainer/)?global[_ ]?)?(?:epoch|step|iter(?:ation)?|update|batch|it|i|idx|index)s?$", re.I
)
EVEN_SHARE = 0.6
Key = tuple[float, ...]


def read_array(text: str) -> str:
    """One line of JSON for each object of an array; empty: it is none."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    rows = body if isinstance(body, list) else []
    return "".join(json.dumps(row) + "\n" for row in rows if isinstance(row, dict))


def list_keys(text: str) -> list[Key]:
    """Of each row: what counts in it. By the names of its columns or members, or else its first number."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        return [key for line in lines if (key := read_object(line))]
    columns = find_columns(lines[0]) if lines else []
    if columns:
        return [key for line in lines[1:] if (key := read_row(line, columns))]
    return [(float(found[0]),) for line in lines if (found := re.search(r"\d+", line))]


def read_object(line: str) -> Key:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return () if not isinstance(body, dict) else tuple(
        float(value) for name, value in sorted(body.items()) if COUNTING.match(str(name)) and is_number(value)
    )  # fmt: skip


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def separator_of(line: str) -> str:
    return "\t" if "\t" in line else ","


def find_columns(header: str) -> list[int]:
    names = next(csv.reader([header], delimiter=separator_of(header)), [])
    return [n for n, name in enumerate(names) if COUNTING.match(name.strip())]


def read_row(line: str, columns: list[int]) -> Key:
    cells = next(csv.reader([line], delimiter=separator_of(line)), [])
    try:
        return tuple(float(cells[n]) for n in columns)
    except (ValueError, IndexError):
        return ()


def is_table(text: str) -> bool:
    """Whether its rows count: evenly, but for where they begin again."""
    keys = list(dict.fromkeys(list_keys(text)))
    apart = [tuple(b - a for a, b in zip(before, after, strict=False)) for before, after in pairwise(keys)]
    if len(keys) <= 2 or not apart:
        return False
    most, count = Counter(apart).most_common(1)[0]
    return any(step > 0 for step in most) and count >= EVEN_SHARE * len(apart)


def count_most(text: str) -> int:
    """How many rows of one key there are at the most."""
    return max(Counter(list_keys(text)).values(), default=0)


def is_doubled(text: str, most: int) -> bool:
    """``most``: of one key, in a run that nothing interrupted."""
    return is_table(text) and count_most(text) > most


def is_overwritten(before: str, after: str) -> bool:
    """Whether most of what stood there is gone, although something new is written after what is left of it."""
    lines, now = before.splitlines(), after.splitlines()
    same = next(
        (n for n, (old, new) in enumerate(zip(lines, now, strict=False)) if old != new), min(len(lines), len(now))
    )
    return is_table(before) and len(now) > same and same < len(lines) / 2
