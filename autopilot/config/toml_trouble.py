"""What to do about a text that is no TOML: one hint for each of the ways in which people arrive there."""

from __future__ import annotations

import re

QUOTE = 'text needs quotes on both sides: "..."'
_TOML = "job files are TOML: autopilot new writes one"

_OF_OTHER_FORMATS = (
    (re.compile(r"\s*(\{|\[)\s*([\"{]|$)"), f"this looks like JSON; {_TOML}"),
    (
        re.compile(r"\s*(---|[\w-]+\s*:(\s|$)|-\s)"),
        f"this looks like YAML; {_TOML}",
    ),
)
"""By the first line that is neither empty nor a comment."""

_OF_LINES = (
    (re.compile("[\u201c\u201d\u2018\u2019\u201e]"), 'replace the curly quotes by straight ones: "..."'),
    (re.compile(r"\s*[\w-]+\s*:\s"), "write key = value, not key: value"),
    (re.compile(r"(?i)=\s*(true|false|yes|no|on|off)\b"), "write true or false in lower case, without quotes"),
    (re.compile(r"(?i)=\s*(null|none|nil)\b"), "TOML has no null: leave the key out"),
)
"""By the line at which reading stopped."""

_OF_PROBLEMS = (
    ("cannot overwrite a value", "a key is set once: keep one of its lines"),
    ("duplicate inline table key", "a key is set once: keep one of the two"),
    ("cannot declare", "a [section] is opened once: put all its keys below the first one"),
    ("unescaped '\\'", r"write \\ for a backslash in double quotes, or put the text in single quotes"),
    ("unterminated string", "the closing quote is missing"),
    ("illegal character '\\n'", "close the text on its line, or write several lines in '''...'''"),
    ("illegal character", "remove the control character, or write it as an escape such as \\t"),
    ("unclosed array", "the closing ] is missing"),
    ("unclosed inline table", "the closing } is missing"),
    ("at the end of a table declaration", "a section is written [name], alone on its line"),
    ("expected '='", 'write key = "value"'),
    ("after a statement", "each key has a line of its own; put a text that has quotes in the other kind of quotes"),
    ("invalid statement", "a line is key = value, or [section]"),
    ("initial character for a key", "a key begins with a letter, a digit, - or _; anything else is put in quotes"),
    ("invalid date", "write it as 2026-12-31T23:00:00Z"),
)
"""By what the parser says, in lower case."""


def find_hint(text: str, line: int, problem: str) -> str:
    """``line``: the number, from 1, at which the parser stopped. ``problem``: what it says, which may be cut short."""
    lines = text.splitlines()
    first = next((each for each in lines if each.strip() and not each.lstrip().startswith("#")), "")
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    said = problem.lower()
    found = next((hint for form, hint in _OF_OTHER_FORMATS if form.match(first)), None)
    found = found or next((hint for form, hint in _OF_LINES if form.search(here)), None)
    if found is None and not here and "invalid value" in said:
        found = "the closing ] is missing"  # the text ended within a list
    return found or next((hint for words, hint in _OF_PROBLEMS if words in said), QUOTE)


def decode(raw: bytes) -> str:
    """Text as editors write it, Windows' included: UTF-8 or UTF-16, with or without a byte order mark.

    Raises ``ValueError`` for anything else.
    """
    is_utf16 = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    return raw.decode("utf-16" if is_utf16 else "utf-8-sig")
