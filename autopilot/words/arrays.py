"""An array in words: one line of counts, its details, and what its width was chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.answers.jobs import Tasks
from autopilot.words import text

BOUNDS = {
    "parallel": "limited by parallel",
    "tasks": "no more tasks",
    "price": "the next machine costs much more than the cheapest, and the deadline does not require it",
    "budget": "limited by the budget",
    "no_offer": "no matching offers",
}


def brief(tasks: Tasks) -> str:
    """``12/100 done, 4 running, 2 starting, 1 failed``. Who has no machine yet, or has lost one, is starting."""
    told = [f"{tasks.succeeded}/{tasks.count} done", f"{tasks.running} running"]
    more = ((tasks.waiting, "starting"), (tasks.failed, "failed"))
    return ", ".join([*told, *(f"{count} {word}" for count, word in more if count)])


def tell(tasks: Tasks) -> list[tuple[str, str]]:
    """Lines of the details of an array."""
    counts = {
        "succeeded": tasks.succeeded,
        "running": tasks.running,
        "waiting": tasks.waiting,
        "parked": tasks.parked,
        "ending": tasks.ending,
        "failed": tasks.failed,
        "cancelled": tasks.cancelled,
    }
    counted = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    rest = f"{tasks.unbegun:,} not started" if tasks.unbegun else ""
    suffices = f", {tasks.needed:,} must succeed" if tasks.needed < tasks.count else ""
    most = tasks.max_failures
    ends = f", stops after {most:,} failures" if most is not None else ""
    return [
        ("tasks", ", ".join(part for part in (f"{tasks.count:,}: {counted}" if counted else "", rest) if part)),
        ("at once", f"{tasks.parallel:,} at most{suffices}{ends}"),
    ]


def tell_width(numbers: Mapping[str, Any]) -> str:
    """The note by which an array's width was chosen."""
    asked = f"{numbers['cheap']} about as cheap as the cheapest"
    if numbers.get("for_deadline") is not None:
        asked += f", {numbers['for_deadline']} for the deadline"
    if numbers.get("payable") is not None:
        asked += f", {numbers['payable']} more within the budget"
    bound = BOUNDS.get(str(numbers.get("bound")), text.words(numbers.get("bound")))
    return (
        f"{numbers['tasks']} of its tasks at once: {bound} ({asked}; {numbers['begun']} of {numbers['count']} started)"
    )
