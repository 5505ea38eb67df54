"""The picture of one job as a file: what its page shows, drawn to a width, with its style within."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from autopilot.answers.pages import DrawnLife
from autopilot.answers.prices import Prices
from autopilot.web import svg, words
from autopilot.web.hero import DECISIONS_HEIGHT, PRICE_HEIGHT, PROGRESS_HEIGHT, Hero, draw_hero
from autopilot.web.job_page import STEPS, axis_of, drop_doubles, list_prices, read_prices
from autopilot.web.machines import THIN, read_machines
from autopilot.web.shapes import deadline_of, spent_of, status_of
from autopilot.web.source import PageSource

WIDTH, GUTTER, EDGE, GAP = 960, 72, 16, 8
"""Pixels: of the whole, of the labels at the left, around all, and between rows."""
HEAD, RULER, LEGEND = 64, 22, 44
_STYLE = Path(__file__).parent / "static" / "style.css"
_BARS = (
    ("spot", "working on spot"),
    ("demand", "working on demand"),
    ("setup", "setting up"),
    ("paused", "paused"),
    ("loading", "loading"),
)
_LINES = (("floor", "cheapest floor"), ("bid", "our bid"), ("paid", "paid on demand"), ("ask", "on-demand price"))


def list_price_queries(life: DrawnLife, now: datetime) -> list[dict[str, str | int]]:
    """What to ask ``GET /v1/prices`` for beside the life of the job: its answers are the ``prices`` of ``draw_job``."""
    axis = axis_of(life.job, now, None)
    until = axis.end.isoformat()
    return [
        {"gpu": gpu, "since": since.isoformat(), "until": until, "steps": STEPS}
        for gpu, since in list_prices(life, axis)
    ]


async def draw_from(source: PageSource, job_id: str) -> str:
    """The same of what a source tells. Raises ``JobNotFound``."""
    life, now = await source.read_job(job_id), source.now
    prices = await read_prices(source, life, axis_of(life.job, now, None))
    return await asyncio.to_thread(draw_job, life, prices, now)


def draw_job(life: DrawnLife, prices: Sequence[Prices], now: datetime) -> str:
    """A whole SVG file."""
    axis = axis_of(life.job, now, None)
    hero = draw_hero(
        life,
        read_machines(life.leases, life.spans, life.events, now),
        drop_doubles(prices),
        axis,
        None,
        is_linked=False,
    )
    rows, y = [], float(EDGE + HEAD)
    for label, picture, height in _list_rows(hero):
        if isinstance(label, Markup):
            rows.append(_place(label, EDGE, y, GUTTER - GAP, height))
        else:
            middle = y + height / 2 + 4
            rows.append(svg.element("text", label, x=EDGE + GUTTER - GAP, y=f"{middle:g}", class_="tick end"))
        rows.append(_place(picture, EDGE + GUTTER, y, WIDTH - GUTTER - 2 * EDGE, height))
        y += height + GAP
    height = y + LEGEND + EDGE
    parts = [
        svg.element("style", Markup(_read_style())),  # noqa: S704 - our own file
        svg.element("rect", class_="card", width=WIDTH, height=f"{height:g}", rx=10),
        *_draw_head(life, now),
        *rows,
        *_draw_legend(y + 12),
    ]
    whole = svg.element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=f"{height:g}",
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_label=f"{words.plain(life.job.name)}: prices, machines, decisions and progress on one axis of time",
        class_="file",
    )
    return f"{whole}\n"


def _list_rows(hero: Hero) -> list[tuple[str | Markup, Markup, float]]:
    """Each with its label and its height, from the top."""
    rows: list[tuple[str | Markup, Markup, float]] = [(hero.price.gutter, hero.price.picture, PRICE_HEIGHT)]
    rows += [(words.market(lane.market), lane.picture, lane.height) for lane in hero.lanes]
    rows.append(("decisions", hero.decisions, DECISIONS_HEIGHT))
    if hero.progress:
        rows.append(("progress", hero.progress, PROGRESS_HEIGHT))
    rows.append(("", hero.ruler, RULER))
    return rows


def _place(picture: Markup, x: float, y: float, width: float, height: float) -> Markup:
    """Per cent within it are of its own width."""
    return svg.element("svg", picture, x=f"{x:g}", y=f"{y:g}", width=f"{width:g}", height=f"{height:g}")


def _draw_head(life: DrawnLife, now: datetime) -> list[Markup]:
    job, on_demand = life.job, life.spend.on_demand_equivalent
    spent = spent_of(job)
    of = "" if job.budget is None else f" of {words.money(job.budget)}"
    told = [f"{words.money(spent)}{of} spent"]
    if on_demand is not None and spent < on_demand:
        told.append(f"{words.percent(1 - spent / on_demand)} below the same hours on demand")
    if job.progress is not None:
        told.append(f"{words.percent(job.progress)} done")
    due = deadline_of(job, now)
    if due is not None:
        told.append(due.word)
    title = f"{words.plain(job.name)}: {status_of(job).word}"
    return [
        svg.element("text", title, x=EDGE, y=EDGE + 18, class_="head"),
        svg.element("text", ", ".join(told), x=EDGE, y=EDGE + 40, class_="told"),
    ]


def _draw_legend(y: float) -> list[Markup]:
    x, made = float(EDGE + GUTTER), []
    for state, name in _BARS:
        top, tall = (y - 5, 4) if state in THIN else (y - 8, 10)
        made.append(svg.element("rect", class_=f"bar {state}", x=f"{x:g}", y=f"{top:g}", width=18, height=tall))
        made.append(svg.element("text", name, x=f"{x + 24:g}", y=f"{y:g}", class_="tick"))
        x += 42 + 6.2 * len(name)
    x, y = float(EDGE + GUTTER), y + 18
    for kind, name in _LINES:
        made.append(svg.element("path", class_=kind, d=f"M{x:g} {y - 4:g}h18"))
        made.append(svg.element("text", name, x=f"{x + 24:g}", y=f"{y:g}", class_="tick"))
        x += 42 + 6.2 * len(name)
    return made


def _read_style() -> str:
    """The colours and what is said of pictures; the page's own rules stay there."""
    style = _STYLE.read_text()
    tokens = style[style.index(":root") : style.index("/* Text and frame */")]
    pictures = style[style.index("/* Pictures */") : style.index("@media (max-width")]
    frame = (
        ".file { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }"
        ".card { fill: var(--card); stroke: var(--line); }"
        ".head { font-size: 18px; font-weight: 650; fill: var(--ink); }"
        ".told { font-size: 13px; fill: var(--mute); }"
    )
    return tokens + pictures + frame
