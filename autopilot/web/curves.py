"""Money over time: one job against its budget, one month by day and against its limit. Bars that fill up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.pages import DrawnLife, Posting
from autopilot.answers.plans import Forecast
from autopilot.domain.money import ZERO
from autopilot.web import svg, words
from autopilot.web.hero import MARGIN, Panel
from autopilot.web.svg import Axis, Scale

BUDGET_HEIGHT, MONTH_HEIGHT = 190, 200
COLOURS = 4
"""Colours of markets; a fifth has the last one's."""


def draw_meter(parts: Sequence[tuple[str, Decimal]], limit: Decimal | None, label: str) -> Markup:
    """Each part of ``limit``, by its class, from the left; nothing if there is no limit."""
    if limit is None or limit <= ZERO:
        return svg.NOTHING
    rail = svg.element("rect", class_="meter rail", width="100%", height=6, rx=3)
    bars, x = [], 0.0
    for name, amount in parts:
        width = min(max(100 * float(amount / limit), 0), 100 - x)
        bars.append(svg.element("rect", class_=f"meter {name}", x=f"{x:.2f}%", width=f"{width:.2f}%", height=6, rx=3))
        x += width
    return svg.picture(6, rail, *bars, label=label)


def draw_budget(life: DrawnLife, now: datetime) -> tuple[Panel, Markup]:
    """What is posted of one job, as it was posted, and what has accrued since; where it will probably end; the budget
    above, the deadline at the right. With its ruler."""
    job, forecast = life.job, life.forecast
    start, end, deadline, budget = job.submitted_at, job.finished_at or now, job.deadline, job.budget
    done = forecast.done_p90 if forecast is not None and forecast.done_p90 else end
    right = max(end, done, deadline or end) if job.finished_at is None else end
    axis = Axis(start, right + (right - start) * 0.04)
    curve = _sum_postings(life.postings, start)
    curve.append((max(end, curve[-1][0]), job.posted + job.accrued))
    fan = None if forecast is None or job.finished_at else _read_fan(forecast)
    top = float(max([curve[-1][1], *([fan.high] if fan else []), *([] if budget is None else [budget])]))
    scale = Scale((top or 1) * MARGIN, BUDGET_HEIGHT)
    points = [(axis.x(at), scale.y(float(amount))) for at, amount in curve]
    marks = []
    if budget is not None:
        y = scale.y(float(budget))
        marks.append(svg.element("line", class_="cap", x1=0, x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}"))
        marks.append(svg.element("text", f"budget {words.money(budget)}", class_="note", x=6, y=f"{y - 5:.1f}"))
    if deadline is not None and deadline <= axis.end:
        x = axis.percent(deadline)
        marks.append(svg.element("line", class_="due", x1=x, x2=x, y1=0, y2=BUDGET_HEIGHT))
        place = f"{100 * axis.share(deadline) - 1.5:.2f}%"
        below = scale.y(float(budget or 0)) + 14 if budget else 14
        marks.append(svg.element("text", "deadline", class_="note end", x=place, y=f"{below:.1f}"))
    marks.append(svg.element("circle", class_="now", cx=f"{points[-1][0] / 10:.2f}%", cy=f"{points[-1][1]:.1f}", r=3.5))
    said = f"{words.money(curve[-1][1])} spent"
    drawn = svg.picture(
        BUDGET_HEIGHT,
        svg.grid(axis, BUDGET_HEIGHT, 4),
        scale.rules(),
        svg.stretch(BUDGET_HEIGHT, *(_draw_fan(fan, axis, scale) if fan else ()), *_draw_spent(points, BUDGET_HEIGHT)),
        *marks,
        label=said if budget is None else f"{said} of {words.money(budget)}",
    )
    return Panel(drawn, scale.gutter(svg.show_dollars), len(curve) > 2), svg.ruler(axis, 4)


class Fan(NamedTuple):
    """Where a job will probably end: dollars in all and instants, of a tenth, a half and nine tenths of the markets."""

    at: datetime
    spent: Decimal
    low: Decimal
    usual: Decimal
    high: Decimal
    soonest: datetime
    middle: datetime
    latest: datetime


def _read_fan(forecast: Forecast) -> Fan | None:
    """None if the job would never be done."""
    soonest, middle, latest = forecast.done_p10, forecast.done_p50, forecast.done_p90
    if soonest is None or middle is None or latest is None:
        return None
    low, usual, high = (forecast.spent + more for more in (forecast.p10, forecast.p50, forecast.p90))
    return Fan(forecast.at, forecast.spent, low, usual, high, soonest, middle, latest)


def _draw_fan(fan: Fan, axis: Axis, scale: Scale) -> tuple[Markup, Markup]:
    def point(at: datetime, amount: Decimal) -> svg.Point:
        return axis.x(at), scale.y(float(amount))

    start = point(fan.at, fan.spent)
    top = [start, point(fan.soonest, fan.high), point(fan.latest, fan.high)]
    bottom = [start, point(fan.latest, fan.low)]
    return svg.area(top, bottom, "fan"), svg.line([start, point(fan.middle, fan.usual)], "fan-middle")


def tell_forecast(forecast: Forecast | None, now: datetime) -> str:
    """Below the curve; empty if nothing could be said."""
    if forecast is None:
        return ""
    low, usual, high = (words.money(forecast.spent + more) for more in (forecast.p10, forecast.p50, forecast.p90))
    said = f"Ends at about {usual}, between {low} and {high} in 8 of 10 markets"
    if forecast.done_p50 is not None and forecast.done_p90 is not None:
        said += f"; done about {words.minute(forecast.done_p50)}, in 9 of 10 by {words.minute(forecast.done_p90)}"
    if forecast.on_time is not None:
        said += f"; {words.percent(str(forecast.on_time))} on time"
    return f"{said}. Estimated {words.duration(now - forecast.at)} ago."


def _sum_postings(postings: Iterable[Posting], start: datetime) -> list[tuple[datetime, Decimal]]:
    """Dollars posted by each instant, from nothing at ``start``."""
    total, curve = ZERO, [(start, ZERO)]
    for posting in sorted(postings, key=lambda each: each.at):
        at, total = posting.at, total + posting.amount
        if curve[-1][0] == at:
            curve.pop()
        curve.append((at, total))
    return curve


def _draw_spent(points: Sequence[svg.Point], height: float) -> tuple[Markup, Markup]:
    return svg.area(points, [(x, height) for x, _ in points], "spent-area"), svg.line(points, "spent")


def draw_days(by_market: Mapping[str, Mapping[date, Decimal]], first: date, after: date, today: date) -> Panel:
    """A bar for each day of a month, a part for each market."""
    days = [first + timedelta(days=number) for number in range((after - first).days)]
    sums = [sum((spent.get(day, ZERO) for spent in by_market.values()), ZERO) for day in days]
    scale = Scale((float(max(sums, default=ZERO)) or 0.5) * MARGIN, MONTH_HEIGHT)
    width = 100 / len(days)
    bars = []
    for number, day in enumerate(days):
        bottom = 0.0
        for colour, (market, spent) in enumerate(by_market.items()):
            amount = spent.get(day, ZERO)
            if amount <= ZERO:
                continue
            y, tall = scale.y(bottom + float(amount)), scale.y(bottom) - scale.y(bottom + float(amount))
            title = svg.element("title", f"{day:%d %b}, {words.market(market)}: {words.money(amount)}")
            size = {"x": f"{(number + 0.14) * width:.2f}%", "width": f"{0.72 * width:.2f}%"}
            size |= {"y": f"{y:.1f}", "height": f"{max(tall - 1, 0.6):.1f}"}
            bars.append(svg.element("rect", title, class_=f"market-{min(colour, COLOURS - 1)}", **size))
            bottom += float(amount)
    past = 100 * min(max((today - first).days + 1, 0), len(days)) / len(days)
    future = svg.element("rect", class_="future", x=f"{past:.2f}%", width=f"{100 - past:.2f}%", height=MONTH_HEIGHT)
    label = f"Spend of each day of {first:%B %Y}; the table of days has the figures."
    drawn = svg.picture(MONTH_HEIGHT, scale.rules(), *bars, future, label=label)
    return Panel(drawn, scale.gutter(svg.show_dollars), any(sums))


def draw_day_numbers(first: date, after: date, every: int = 1) -> Markup:
    """Below the bars, or below a picture with less room, every fifth."""
    count = (after - first).days
    labels = [
        svg.element(
            "text",
            str(day),
            x=f"{(day - 0.5) * 100 / count:.2f}%",
            y=13,
            class_="tick mid" if day == 1 or day % 5 == 0 else "tick mid odd",
        )
        for day in range(every, count + 1, every)
    ]
    return svg.picture(18, *labels)


def draw_month(sums: Mapping[date, Decimal], first: date, after: date, now: datetime, cap: Decimal | None) -> Panel:
    """Dollars from the first of the month on, against its limit."""
    count, today = (after - first).days, now.date()
    total, curve = ZERO, [(0.0, ZERO)]
    for number in range(count):
        day = first + timedelta(days=number)
        if day > today:
            break
        total += sums.get(day, ZERO)
        is_today = day == today
        curve.append((number + ((now.hour + now.minute / 60) / 24 if is_today else 1), total))
    scale = Scale((float(max(cap or ZERO, total)) or 1) * MARGIN, MONTH_HEIGHT)
    points = [(1000 * day / count, scale.y(float(amount))) for day, amount in curve]
    marks = []
    if cap is not None:
        y = scale.y(float(cap))
        marks.append(svg.element("line", class_="cap", x1=0, x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}"))
        marks.append(svg.element("text", f"limit {words.money(cap)}", class_="note", x=6, y=f"{y - 5:.1f}"))
    marks.append(svg.element("circle", class_="now", cx=f"{points[-1][0] / 10:.2f}%", cy=f"{points[-1][1]:.1f}", r=3.5))
    said = f"{words.money(total)} spent in {first:%B %Y}"
    drawn = svg.picture(
        MONTH_HEIGHT,
        scale.rules(),
        svg.stretch(MONTH_HEIGHT, *_draw_spent(points, MONTH_HEIGHT)),
        *marks,
        label=said if cap is None else f"{said}, the limit is {words.money(cap)}",
    )
    return Panel(drawn, scale.gutter(svg.show_dollars), total > ZERO)
