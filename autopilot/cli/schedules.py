"""``autopilot schedules``: job files that are submitted again and again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal
from urllib.parse import quote
from zoneinfo import ZoneInfo

from cyclopts import Parameter

from autopilot.answers.schedules import Schedule, ScheduleAnswer, Scheduled, Schedules
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output
from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError
from autopilot.words import text

PATH = "/v1/schedules"
_DONE = {"pause": "paused", "resume": "resumed", "end": "ended"}


def schedules(
    action: Literal["ls", "pause", "resume", "end"] = "ls",
    /,
    *names: str,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative="")] = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """List, pause, resume or end schedules: job files that are submitted repeatedly.

    `autopilot submit` with a job file that has [schedule] creates one. Its jobs are independent of it: `autopilot
    cancel` ends those.

    Parameters
    ----------
    action
        ls lists them (the default); pause stops new jobs; resume continues; end is for good.
    names
        With pause, resume and end: ids or names.
    all
        With ls: include ended ones.
    """
    client = JsonClient()
    if action == "ls":
        if names:
            raise UserError(f"ls takes no names, not {names[0]!r}", hint="autopilot schedules lists all of yours")
        return _list(client, all, output)
    if not names:
        raise UserError(f"which schedule? (autopilot schedules {action} NAME)")
    bodies = (client.post(f"{PATH}/{quote(name, safe='')}/{action}", {}) for name in names)
    moved = [read(ScheduleAnswer, body).schedule for body in bodies]
    if not output.is_for_people:
        output.print(Schedules(schedules=moved), "schedules")
        return Exit.OK
    for each in moved:
        print(f"{_DONE[action]} {text.plain(each.name)}{_tell_next(each.next, each.zone)}{_tell_open(each)}")
    return Exit.OK


def tell(scheduled: Scheduled) -> list[str]:
    """What a submit of such a file has made, or would."""
    coming, made = _tell_next(scheduled.next, scheduled.zone), scheduled.schedule
    if made is None:
        return [f"nothing was submitted (dry run){coming}"]
    name = text.plain(made.name)
    return [f"scheduled {name} ({text.plain(made.id)}){coming}", f"autopilot schedules end {name} ends it"]


def _tell_next(coming: Sequence[datetime], zone: str) -> str:
    """In local time and in UTC."""
    return f"; due {', '.join(_moment(each, zone) for each in coming)}" if coming else ""


def _moment(at: datetime, zone: str) -> str:
    in_utc = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return in_utc if zone == "UTC" else f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone} ({in_utc})"


def _tell_open(each: Schedule) -> str:
    last = each.last
    if last is None or last.status in (None, "succeeded", "failed", "cancelled"):
        return ""
    return f"; its last job ({text.plain(last.job)}) is {last.status} and continues"


def _list(client: JsonClient, all: bool, output: Output) -> int:
    body = client.get(PATH, all=1 if all else None)
    if not output.is_for_people:
        output.print(body, "schedules")
        return Exit.OK
    listed = read(Schedules, body).schedules
    if not listed:
        print("no schedules (autopilot submit of a job file with [schedule] makes one)")
        return Exit.OK
    for each in listed:
        print("\n".join(_lines(each)))
    return Exit.OK


def _lines(each: Schedule) -> list[str]:
    zone = "" if each.zone == "UTC" else f" {text.plain(each.zone)}"
    status = each.status if each.status == "active" else f"{each.status} ({text.words(each.reason)})"
    lines = [f"{text.plain(each.name)} ({text.plain(each.id)}): {status}, {text.plain(each.cron)}{zone}"]
    if each.next:
        lines.append(f"  next: {_moment(each.next[0], each.zone)}")
    of_count = "" if each.count is None else f" of {each.count}"
    fired = f"{each.fired}{of_count} fired"
    why = f" ({text.words(each.left_out_reason)})" if each.left_out_reason else ""
    left_out = f", {each.left_out} skipped{why}" if each.left_out else ""
    over_all = f" of {text.money(each.budget)}{'/month' if each.is_monthly else ''}" if each.budget is not None else ""
    lines.append(f"  {fired}{left_out}; {text.money(each.posted)}{over_all} spent")
    if each.last is not None:
        lines.append(f"  last: {text.plain(each.last.job)} {each.last.status or ''}".rstrip())
    return lines
