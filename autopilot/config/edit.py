"""Setting a few values in the commented settings file, line by line, so that its explanations stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping


def set_values(text: str, values: Mapping[tuple[str, str], str | bool]) -> tuple[str, list[str]]:
    """The file with these values set, and the keys of those that it had set already and keeps.

    ``values``: (section, key) → text, or whether. A key that the file does not mention is added to its section.
    """
    lines, kept = text.splitlines(), []
    for (section, key), value in values.items():
        begin, end = _section(lines, section)
        at = next((n for n in range(begin, end) if re.match(rf"#?{re.escape(key)} *=", lines[n])), None)
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        if at is None:
            lines.insert(end, line)
        elif lines[at].startswith("#"):
            lines[at] = line
        elif lines[at] != line:
            kept.append(f"{section}.{key}")
    return "\n".join(lines) + "\n", kept


def _section(lines: list[str], section: str) -> tuple[int, int]:
    """First and last line (not included) of its keys; the section is added at the end where there is none."""
    head = f"[{section}]"
    if head not in lines:
        lines += ["", head]
    begin = lines.index(head) + 1
    end = next((n for n in range(begin, len(lines)) if lines[n].startswith("[")), len(lines))
    while end > begin and not lines[end - 1].strip():
        end -= 1
    return begin, end
