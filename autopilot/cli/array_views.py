"""What the plan of an array looks like on a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from autopilot.answers.plans import ArrayPlan
from autopilot.cli.output import facts, table
from autopilot.words import arrays, text

if TYPE_CHECKING:
    from rich.console import RenderableType


def plan(array: ArrayPlan, now: datetime) -> list[RenderableType]:
    on_time = [("all on time", f"{text.percent(array.on_time)} likely")] if array.on_time is not None else []
    payable = [("budget covers", f"{array.payable:,} tasks")] if array.payable is not None else []
    told = facts(
        [
            ("tasks", f"{array.count:,}"),
            ("at once", f"{array.width:,}: {arrays.BOUNDS.get(array.bound, text.words(array.bound))}"),
            ("a task", f"{text.money(array.task_cost)}, {text.span(array.task_s)}"),
            ("all done", text.when(array.end, now) if array.end else text.NONE),
            *on_time,
            *payable,
        ]
    )
    if not array.curve:
        return [told]
    rows = [
        (
            str(each.width),
            text.money(each.expected_cost),
            text.when(each.end, now),
            text.percent(each.on_time) if each.on_time is not None else text.NONE,
        )
        for each in array.curve
    ]
    columns = ("AT ONCE", "EXPECTED COST", "ALL DONE", "ON TIME")
    return [told, "", table(columns, rows, right=(*columns[:2], columns[3]))]
