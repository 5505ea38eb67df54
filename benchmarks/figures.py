"""A measured figure, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    what: str
    samples: Sequence[float]
    unit: str
    target: float | None = None
    """The median must be below it."""

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def misses(self) -> bool:
        return self.target is not None and self.median >= self.target


def table(figures: Sequence[Figure]) -> str:
    """As Markdown, so that it can stand in the docs as it is."""
    lines = ["| Figure | Median | Least to most | Repeats | Target |", "|---|---|---|---|---|"]
    for figure in figures:
        target = "" if figure.target is None else f"< {_number(figure.target)} {figure.unit}"
        spread = f"{_number(min(figure.samples))} to {_number(max(figure.samples))}"
        shown = f"{_number(figure.median)} {figure.unit}" + (" (missed)" if figure.misses else "")
        lines.append(f"| {figure.what} | {shown} | {spread} | {len(figure.samples)} | {target} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
