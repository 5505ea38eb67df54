"""Pictures as SVG without a viewBox: x in per cent, y in pixels. They stretch with the page while their text keeps its
size. They need no script and no style attribute, so they hold under a strict Content-Security-Policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache

from markupsafe import Markup, escape

from autopilot.web import zone

Point = tuple[float, float]
"""x in thousandths of the width, y in pixels."""

NOTHING = Markup("")
_HOUR_S = 3600
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of a wall clock
_STEPS_S = (300, 900, 1800, *(hours * _HOUR_S for hours in (1, 2, 3, 6, 12, 24, 48, 168, 720, 8760)))
_DOLLARS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.25,
    0.5,
    1,
    2,
    2.5,
    5,
    10,
    20,
    25,
    50,
    100,
    250,
    500,
    1000,
    2500,
    5000,
    10_000,
)


@dataclass(frozen=True, slots=True)
class Axis:
    """Time from left to right."""

    start: datetime
    end: datetime
    zone: tzinfo = field(default_factory=zone.here)
    """Zone of its labels."""

    def share(self, instant: datetime) -> float:
        """0 at the left edge, 1 at the right; values outside are clamped to the edge."""
        whole = max((self.end - self.start).total_seconds(), 1)
        return min(max((instant - self.start).total_seconds() / whole, 0), 1)

    def percent(self, instant: datetime) -> str:
        return f"{100 * self.share(instant):.2f}%"

    def x(self, instant: datetime) -> float:
        """In thousandths of the width, for paths."""
        return 1000 * self.share(instant)

    def ticks(self, most: int = 8) -> Iterator[tuple[datetime, str]]:
        """Round instants with their labels."""
        span_s = (self.end - self.start).total_seconds()
        step_s = next((step for step in _STEPS_S if span_s / step <= most), max(int(span_s), 1))
        step = timedelta(seconds=step_s)
        # By the wall clock: days start at midnight there, regardless of the offset.
        wall = self.start.astimezone(self.zone).replace(tzinfo=None)
        wall += step - (wall - _EPOCH) % step
        while (at := wall.replace(tzinfo=self.zone).astimezone(UTC)) < self.end:
            is_day = step_s >= 24 * _HOUR_S or wall.hour == wall.minute == 0
            yield at, f"{wall:%d %b}" if is_day else f"{wall:%H:%M}"
            wall += step


def element(name: str, *inside: str | Markup, **attributes: object) -> Markup:
    """Text inside is escaped, and so is each attribute; ``class_`` is ``class``, an underscore a hyphen."""
    shown = "".join(f' {_spell(key)}="{escape(value)}"' for key, value in attributes.items() if value is not None)
    body = "".join(escape(part) for part in inside)
    # Names of elements and attributes are this program's own.
    return Markup(f"<{name}{shown}>{body}</{name}>" if body else f"<{name}{shown}/>")  # noqa: S704


@cache
def _spell(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def picture(height: float, *parts: Markup, label: str = "", name: str = "", has_links: bool = False) -> Markup:
    """``label``: what it shows, for who cannot see it; a picture without one is decoration."""
    role = "group" if has_links else "img"
    said = {"role": role, "aria_label": label} if label else {"aria_hidden": "true"}
    size = {"width": "100%", "height": f"{height:g}"}
    return element("svg", *parts, class_=f"chart {name}".rstrip(), **size, **said)


def stretch(height: float, *paths: Markup) -> Markup:
    """Paths know no per cent: theirs is a box of 1000 by ``height`` that stretches in width alone."""
    box = {"viewBox": f"0 0 1000 {height:g}", "preserveAspectRatio": "none"}
    return element("svg", *paths, width="100%", height=f"{height:g}", **box)


def line(points: Sequence[Point], name: str) -> Markup:
    return element("path", d=_path(points), class_=name) if len(points) > 1 else NOTHING


def area(top: Sequence[Point], bottom: Sequence[Point], name: str) -> Markup:
    """What lies between two lines, both from left to right."""
    if len(top) < 2:
        return NOTHING
    return element("path", d=_path([*top, *reversed(bottom)]) + "Z", class_=name)


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


@lru_cache(maxsize=64)
def grid(axis: Axis, height: float, most: int = 8) -> Markup:
    """A vertical line at each round instant. Kept: many pictures of a page have one axis."""
    places = [axis.percent(at) for at, _ in axis.ticks(most)]
    return NOTHING.join(element("line", class_="grid", x1=x, x2=x, y1=0, y2=f"{height:g}") for x in places)


def ruler(axis: Axis, most: int = 8) -> Markup:
    """The instants below a picture. Every second one is left out on a narrow page, by its class."""
    labels = []
    for number, (at, label) in enumerate(axis.ticks(most)):
        if 0.03 < axis.share(at) < 0.975:
            name = "tick mid odd" if number % 2 and most > 4 else "tick mid"
            labels.append(element("text", label, x=axis.percent(at), y=13, class_=name))
    return picture(18, *labels)


@dataclass(frozen=True, slots=True)
class Scale:
    """Dollars from the bottom up."""

    top: float
    height: float

    def y(self, value: float) -> float:
        return self.height - (self.height - 6) * value / self.top

    def steps(self) -> list[float]:
        """Round amounts from nothing to the top."""
        step = next((each for each in _DOLLARS if each >= self.top / 4), self.top / 4)
        return [step * number for number in range(int(self.top / step) + 1)]

    def rules(self) -> Markup:
        """A horizontal line at each round amount."""
        heights = [f"{self.y(value):.1f}" for value in self.steps()]
        return NOTHING.join(element("line", class_="grid", x1=0, x2="100%", y1=y, y2=y) for y in heights)

    def gutter(self, show: Callable[[float], str]) -> Markup:
        """The amounts for the left margin of the picture."""
        made = []
        for value in self.steps()[1:]:
            y = min(max(self.y(value) + 4, 10), self.height - 1)
            made.append(element("text", show(value), x="100%", y=f"{y:.1f}", class_="tick end"))
        return picture(self.height, *made)


def show_dollars(value: float) -> str:
    """A round amount beside an axis. Never for a figure that was computed."""
    return f"${value:,.0f}" if value >= 10 and value == int(value) else f"${value:,.2f}"
