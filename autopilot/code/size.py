"""Whether a directory is small enough to be sent, and what in it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from autopilot.agent.shipped.tree import ROOT, Entry, parents
from autopilot.code.words import quote, show, show_bytes
from autopilot.domain.errors import UserError

LARGEST_SHOWN = 10


def check_size(root: Path, entries: Sequence[Entry], most_bytes: int) -> None:
    """Raises ``UserError`` with the ten largest files and directories, and what leaves out enough of them."""
    total = sum(entry.size for entry in entries)
    if total <= most_bytes:
        return
    sizes: Counter[str] = Counter()
    for entry in entries:
        if entry.kind == "file":
            sizes[entry.name] += entry.size
            for parent in parents(entry.name):
                sizes[parent + "/"] += entry.size
    del sizes[ROOT + "/"]
    ranked = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = [f"  {show_bytes(size):>9}  {show(_own(name))}" for name, size in ranked[:LARGEST_SHOWN]]
    count = sum(entry.kind == "file" for entry in entries)
    raise UserError(
        f"the code in {root} is {show_bytes(total)} in {count:,} files; the limit is {show_bytes(most_bytes)}. "
        "The largest:\n" + "\n".join(lines),
        hint=f"omit them: exclude = [{', '.join(_enough(sizes, total - most_bytes))}] in [code], or the same in "
        '.autopilotignore; or raise max in [code], to "2GB" at most. For data, use [inputs]',
    )


def _own(name: str) -> str:
    return name.removeprefix(ROOT + "/")


def _enough(sizes: Counter[str], surplus: int) -> list[str]:
    """The fewest at the top of the directory that are larger than the surplus."""
    at_top = [(name, size) for name, size in sizes.items() if _own(name).rstrip("/").count("/") == 0]
    chosen = []
    for name, size in sorted(at_top, key=lambda pair: (-pair[1], pair[0])):
        if surplus <= 0:
            break
        chosen.append(quote("/" + _own(name)))
        surplus -= size
    return chosen
