"""TOML read so that an error can name its line: ``tomllib`` gives values, a scan of the text gives positions."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from autopilot.config.toml_trouble import find_hint
from autopilot.domain.errors import UserError

KeyPath = tuple[str, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_BYTE_ORDER_MARK = "\ufeff"
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")


@dataclass(frozen=True, slots=True)
class TomlDocument:
    source: str
    """What the text is called in messages: a file's name."""
    values: dict[str, Any]
    lines: dict[KeyPath, int]
    """Key or table → line on which it is first set."""

    def place(self, path: KeyPath = ()) -> str:
        """``job.toml:12`` for a key, or the nearest table above it; only the source where neither has a line."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return f"{self.source}:{self.lines[path[:end]]}"
        return self.source


def read_toml(text: str, source: str) -> TomlDocument:
    """Parse; decimals stay exact. Raises ``UserError`` with the line of a syntax error."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        text.encode()
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT_LINE.search(message)
        line = int(at[1]) if at and at[1] else text.count("\n") + 1
        problem = _AT_LINE.sub("", message).rstrip(".")
        problem = problem[:1].lower() + problem[1:]
        hint = find_hint(text, line, problem)
        raise UserError(f"{source}:{line}: not valid TOML: {problem}", hint=hint) from None
    except (ValueError, ArithmeticError, RecursionError):
        hint = "look for a character that is none, a number of very many digits, or brackets without end"
        raise UserError(f"{source}: cannot be parsed", hint=hint) from None
    return TomlDocument(source, values, _positions(text))


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that is not among ``known``: the closest one, or all of them."""
    choices = list(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else f"known here: {', '.join(sorted(choices))}"


def _positions(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    closing = ""  # the delimiter that ends the multi-line string we are in
    for number, line in enumerate(text.splitlines(), 1):
        if closing:
            if closing in line:
                closing = ""
            continue
        if header := _TABLE.match(line):
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table + _parts(key[1])
            for end in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:end], number)
            value = line[key.end() :].lstrip()
            delimiter = value[:3]
            if delimiter in ('"""', "'''") and delimiter not in value[3:]:
                closing = delimiter
    return lines


def _parts(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in re.findall(_PART, dotted))
