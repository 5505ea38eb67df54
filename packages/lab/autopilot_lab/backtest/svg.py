"""Small plots as inline SVG: lines, steps and coloured spans over time. Text is escaped, numbers are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 26, 34

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#666666")
"""Told apart by colour-blind eyes (Okabe and Ito)."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series; ``steps`` draws it as a staircase."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    steps: bool = False
    dashed: bool = False
    marked: bool = False
    """A dot at each point."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A coloured stretch behind the lines."""

    start: float
    end: float
    colour: str


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Series]
    spans: Sequence[Stretch] = field(default=())
    y_from_zero: bool = False
    y_most: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of stacked parts: (name, amount, colour)."""

    name: str
    parts: Sequence[tuple[str, float, str]]


def draw(plot: Plot) -> str:
    """The plot as an ``<svg>`` element; empty when there is no point."""
    points = [point for line in plot.lines for point in line.points]
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = (0.0 if plot.y_from_zero else min(ys)), max(ys)
    if plot.y_most is not None:
        high = min(high, plot.y_most)
    x_of = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    margin = 0.04 * (high - low)
    y_of = _Scale(low if plot.y_from_zero else low - margin, high + margin, HEIGHT - BOTTOM, TOP)
    parts = [_open(WIDTH, HEIGHT, plot.title), _text(8, 14, plot.title, "start", bold=True)]
    for span in plot.spans:
        x, end = x_of(span.start), x_of(span.end)
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP}" width="{max(end - x, 0.4):.1f}" height="{HEIGHT - TOP - BOTTOM}" '
            f'fill="{span.colour}" fill-opacity="0.22"/>'
        )
    for tick in _ticks(y_of.low, y_of.high):
        parts.append(_rule(LEFT, y_of(tick), WIDTH - RIGHT, y_of(tick)))
        parts.append(_text(LEFT - 5, y_of(tick) + 4, f"{tick:g}", "end"))
    for tick in _ticks(x_of.low, x_of.high):
        parts.append(_text(x_of(tick), HEIGHT - BOTTOM + 15, f"{tick:g}", "middle"))
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 4, plot.x_label, "middle"))
    parts.append(_text(WIDTH - RIGHT, 14, plot.y_label, "end"))
    for line in plot.lines:
        parts.append(_path(line, x_of, y_of))
    return "".join([*parts, "</svg>"])


def draw_bars(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Stacked horizontal bars on one scale."""
    most = max((sum(amount for _, amount, _ in bar.parts) for bar in bars), default=0.0)
    if not most:
        return ""
    row, left = 26, 190
    height = TOP + row * len(bars) + BOTTOM
    scale = _Scale(0.0, most, left, WIDTH - 70)
    parts = [_open(WIDTH, height, title), _text(8, 14, title, "start", bold=True)]
    for index, bar in enumerate(bars):
        top, total = TOP + row * index, 0.0
        parts.append(_text(left - 6, top + 15, bar.name, "end"))
        for name, amount, colour in bar.parts:
            x, end = scale(total), scale(total + amount)
            parts.append(
                f'<rect x="{x:.1f}" y="{top + 3}" width="{max(end - x, 0):.1f}" height="{row - 8}" fill="{colour}">'
                f"<title>{escape(name)}: {amount:.4f} {escape(unit)}</title></rect>"
            )
            total += amount
        parts.append(_text(scale(total) + 5, top + 15, f"{total:.3f}", "start"))
    parts.append(_text((left + WIDTH) / 2, height - 8, unit, "middle"))
    return "".join([*parts, "</svg>"])


class _Scale:
    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        # A single value still needs a width to stand in.
        self.low, self.high = (low, high) if high > low else (low - 0.5, low + 0.5)
        self._start, self._per = start, (end - start) / (self.high - self.low)

    def __call__(self, value: float) -> float:
        return self._start + (min(max(value, self.low), self.high) - self.low) * self._per


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to nine of them."""
    raw = (high - low) / 6
    size = 10.0 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = -int(-low // step)
    return [round(step * number, 12) for number in range(first, int(high / step + 1e-9) + 1)]


def _path(line: Series, x_of: _Scale, y_of: _Scale) -> str:
    commands: list[str] = []
    for index, (x, y) in enumerate(line.points):
        here = f"{x_of(x):.1f},{y_of(y):.1f}"
        if line.steps and index:
            commands.append(f"H{x_of(x):.1f}V{y_of(y):.1f}")
        else:
            commands.append(("L" if index else "M") + here)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    marks = _marks(line, x_of, y_of) if line.marked else ""
    return (
        f'<path d="{"".join(commands)}" fill="none" stroke="{line.colour}" stroke-width="1.6"{dash}>'
        f"<title>{escape(line.name)}</title></path>{marks}"
    )


def _marks(line: Series, x_of: _Scale, y_of: _Scale) -> str:
    return "".join(
        f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{line.colour}">'
        f"<title>{escape(line.name)}: {y:.4f}</title></circle>"
        for x, y in line.points
    )


def _open(width: float, height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{escape(title)}">'


def _rule(x: float, y: float, end_x: float, end_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end_x:.1f}" y2="{end_y:.1f}" stroke="#8884" stroke-width="0.7"/>'


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(name, colour) pairs as HTML."""
    keys = (f'<span class="key"><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in entries)
    return "".join(keys)
