"""Measure the prose: ``python -m tools.prose``.

- how long the sentences of the documentation are, a line for each folder;
- how often pages and docstrings use idioms that a native engineer of this field would not write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 35
"""Words. A sentence with more of them is long."""
IDIOMS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        **{word: rf"\b{word}\b" for word in ("nobody", "stands", "whatever", "whoever", "anew")},
        "reckon": r"\breckon",
        "is told": r"\b(?:is|are) told\b",
        "goes on": r"\bgo(?:es)? on\b",
    }.items()
}
PER_LINES = 10_000

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
        """Words a sentence; 0 if there is no sentence."""
        return self.words / self.sentences if self.sentences else 0.0

    @property
    def share_long(self) -> float:
        return self.long / self.sentences if self.sentences else 0.0


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of the prose. Code, headings, tables and comments are no prose; a list item starts a sentence."""
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


def count_idioms(texts: Iterable[str]) -> dict[str, int]:
    """How often each idiom occurs, over line ends too."""
    found = dict.fromkeys(IDIOMS, 0)
    for text in texts:
        joined = " ".join(text.split())
        for name, pattern in IDIOMS.items():
            found[name] += len(pattern.findall(joined))
    return found


def docstrings(source: str) -> Iterator[str]:
    """Each string that is a statement by itself: the docstrings of modules, classes, functions and fields."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


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
    _print_idioms()
    return 0


def _print_idioms() -> None:
    """Counts, and in all per ``PER_LINES`` lines: of the pages, and of the code whose docstrings are counted."""
    pages = [page.read_text() for group in folders(ROOT).values() for page in group]
    code = [
        file.read_text()
        for room in ("autopilot", "packages", "tests", "tools")
        for file in sorted((ROOT / room).rglob("*.py"))
    ]
    print(f"\n{'idiom':<20}" + "".join(f"{name:>10}" for name in IDIOMS) + f"{'all':>7}{'per 10,000 lines':>18}")
    for kind, texts, lines in (
        ("pages", pages, _count_lines(pages)),
        ("docstrings", [each for source in code for each in docstrings(source)], _count_lines(code)),
    ):
        found = count_idioms(texts)
        whole = sum(found.values())
        cells = "".join(f"{count:>10}" for count in found.values())
        print(f"{kind:<20}{cells}{whole:>7}{whole * PER_LINES / lines:>18.1f}")


def _count_lines(texts: Iterable[str]) -> int:
    return sum(len(text.splitlines()) for text in texts)


if __name__ == "__main__":
    sys.exit(main())
