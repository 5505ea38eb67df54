"""``[schedule]`` of a job file, and what cannot be in one that has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from autopilot.config.toml_document import KeyPath, TomlDocument
from autopilot.domain.cadence import Cadence, list_due
from autopilot.domain.errors import UserError
from autopilot.domain.zones import midnight

SECTION = "schedule"


def read_schedule(document: TomlDocument, read: Mapping[KeyPath, Any], now: datetime) -> Cadence | None:
    """None if the file has none. Raises ``UserError``."""
    over_all = read.get(("budget", "all"))
    if (SECTION, "cron") not in read:
        if SECTION in document.values:
            place = document.place((SECTION,))
            raise UserError(f"{place}: [schedule] needs a time", hint='add cron = "0 2 * * *" for each day at 2:00')
        if over_all is not None:
            place = document.place(("budget", "all"))
            raise UserError(f"{place}: budget.all is for the firings of a [schedule]", hint="total limits one job")
        return None
    _refuse_contradictions(document, read)
    fields = {
        key: read[SECTION, key] for key in ("cron", "zone", "overlap", "catch_up", "count") if (SECTION, key) in read
    }
    cadence = Cadence(**fields)
    until = _until(read.get((SECTION, "until")), cadence.zone)
    budget, is_monthly = over_all if over_all is not None else (None, False)
    cadence = Cadence(**fields, until=until, budget=budget, is_monthly=is_monthly)
    if not list_due(cadence, now, 1):
        key, hint = ("until", "set a later one") if until is not None else ("cron", "no day is like this one")
        raise UserError(f"{document.place((SECTION, key))}: schedule.{key}: this time never comes", hint=hint)
    return cadence


def _until(raw: date | datetime | None, zone: str) -> datetime | None:
    if raw is None or isinstance(raw, datetime):
        return raw
    return midnight(raw, ZoneInfo(zone)).astimezone(UTC)


def _refuse_contradictions(document: TomlDocument, read: Mapping[KeyPath, Any]) -> None:
    if ("deadline", "at") in read:
        raise UserError(
            f"{document.place(('deadline', 'at'))}: deadline.at is one instant, and each firing needs its own",
            hint='within = "6h" counts from when the firing is due',
        )
    if ("after",) in read:
        raise UserError(
            f"{document.place(('after',))}: the firings of a schedule cannot wait for another job",
            hint='overlap = "queue" in [schedule] makes a firing wait for the previous one',
        )
    if (SECTION, "until") in read and (SECTION, "count") in read:
        raise UserError(f"{document.place((SECTION, 'until'))}: both until and count are set", hint="keep one of them")
    total, over_all = read.get(("budget", "total")), read.get(("budget", "all"))
    if total is not None and over_all is not None and over_all[0] < total:
        raise UserError(
            f"{document.place(('budget', 'all'))}: budget.all is less than budget.total",
            hint="all is for every firing together, total for each",
        )
