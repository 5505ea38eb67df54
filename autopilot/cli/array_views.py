"""What an array looks like on a terminal: one line of counts, its plan, and what its width was chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from autopilot.cli import text
from autopilot.cli.output import facts, table

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = Mapping[str, Any]

BOUNDS = {
    "parallel": "parallel allows no more",
    "tasks": "there are no more tasks",
    "price": "the next machine is much dearer than the cheapest, and the deadline does not ask for it",
    "budget": "the budget pays for no more",
    "no_offer": "no offer fits now",
}
_TOLD = ("succeeded", "running", "waiting", "parked", "ending", "failed", "cancelled")


def brief(tasks: Row) -> str:
    """``12/100 done, 4 running, 2 starting, 1 failed``. Who has no machine yet, or has lost one, is starting."""
    told = [f"{tasks['succeeded']}/{tasks['count']} done", f"{tasks['running']} running"]
    more = (("waiting", "starting"), ("failed", "failed"))
    return ", ".join([*told, *(f"{tasks[name]} {word}" for name, word in more if tasks[name])])


def tell(tasks: Row) -> list[tuple[str, str]]:
    """Lines of the details of an array."""
    counted = ", ".join(f"{tasks[name]:,} {name}" for name in _TOLD if tasks[name])
    rest = f"{tasks['unbegun']:,} not begun" if tasks["unbegun"] else ""
    suffices = f", {tasks['needed']:,} have to succeed" if tasks["needed"] < tasks["count"] else ""
    most = tasks["max_failures"]
    ends = f", {most:,} failures end it" if most is not None else ""
    return [
        ("tasks", ", ".join(part for part in (f"{tasks['count']:,}: {counted}" if counted else "", rest) if part)),
        ("at once", f"{tasks['parallel']:,} at the most{suffices}{ends}"),
    ]


def plan(array: Row, now: datetime) -> list[RenderableType]:
    on_time = [("all in time", f"{text.percent(array['on_time'])} likely")] if array["on_time"] is not None else []
    payable = [("budget pays", f"{array['payable']:,} tasks")] if array["payable"] is not None else []
    told = facts(
        [
            ("tasks", f"{array['count']:,}"),
            ("at once", f"{array['width']:,}: {BOUNDS.get(array['bound'], text.words(array['bound']))}"),
            ("a task", f"{text.money(array['task_cost'])}, {text.span(array['task_s'])}"),
            ("all done", text.when(array["end"], now) if array["end"] else text.NONE),
            *on_time,
            *payable,
        ]
    )
    if not array["curve"]:
        return [told]
    rows = [
        (
            str(each["width"]),
            text.money(each["expected_cost"]),
            text.when(each["end"], now),
            text.percent(each["on_time"]) if each["on_time"] is not None else text.NONE,
        )
        for each in array["curve"]
    ]
    columns = ("AT ONCE", "EXPECTED COST", "ALL DONE", "IN TIME")
    return [told, "", table(columns, rows, right=(*columns[:2], columns[3]))]


def tell_width(numbers: Row) -> str:
    """The note by which an array's width was chosen."""
    asked = f"{numbers['cheap']} about as cheap as the cheapest"
    if numbers.get("for_deadline") is not None:
        asked += f", {numbers['for_deadline']} for the deadline"
    if numbers.get("payable") is not None:
        asked += f", {numbers['payable']} more that the budget pays"
    bound = BOUNDS.get(str(numbers.get("bound")), text.words(numbers.get("bound")))
    return f"{numbers['tasks']} of its tasks at once: {bound} ({asked}; {numbers['begun']} of {numbers['count']} begun)"
