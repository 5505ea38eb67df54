"""How long the sentences of the documentation are: ``python -m tools.prose``, a line for each folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 35
"""Words. A sentence with more of them is long."""

_CODE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_NOT_PROSE = re.compile(r"^\s*(#|\||!\[|---)")
_ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?:])[\"'”*)_]*\s+(?=[^a-z])")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Measure:
    sentences: int
    words: int
    long: int
    """Sentences of more than ``LONG`` words."""

    @property
    def mean(self) -> float:
        """Words a sentence; 0 where there is no sentence."""
        return self.words / self.sentences if self.sentences else 0.0

    @property
    def share_long(self) -> float:
        return self.long / self.sentences if self.sentences else 0.0


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of the prose. Code, headings, tables and comments are no prose; each list item begins anew."""
    text = _LINK.sub(r"\1", _COMMENT.sub("", _CODE.sub("\n", markdown)))
    for paragraph in _paragraphs(text):
        yield from (part for part in _END.split(paragraph) if _WORD.search(part))


def measure(pages: Iterable[str]) -> Measure:
    lengths = [len([word for word in each.split() if _WORD.search(word)]) for page in pages for each in sentences(page)]
    return Measure(len(lengths), sum(lengths), sum(length > LONG for length in lengths))


def folders(root: Path) -> dict[str, list[Path]]:
    """The pages of each folder: those at the root, and every folder of docs."""
    found = {".": sorted(root.glob("*.md"))}
    for page in sorted((root / "docs").rglob("*.md")):
        found.setdefault(str(page.parent.relative_to(root)), []).append(page)
    return found


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_item = _ITEM.match(line)
        if (not line.strip() or is_item or _NOT_PROSE.match(line)) and lines:
            yield " ".join(lines)
            lines = []
        if line.strip() and not _NOT_PROSE.match(line):
            lines.append(_ITEM.sub("", line).strip())


def main() -> int:
    print(f"{'folder':<20}{'pages':>6}{'sentences':>11}{'mean words':>12}{f'over {LONG}':>9}")
    for folder, pages in folders(ROOT).items():
        found = measure(page.read_text() for page in pages)
        print(f"{folder:<20}{len(pages):>6}{found.sentences:>11}{found.mean:>12.1f}{found.share_long:>9.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
