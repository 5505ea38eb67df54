"""What an owner may change of a job while it runs: what it may cost, and when it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from autopilot.config import values
from autopilot.config.job_file import FURTHEST_DEADLINE
from autopilot.config.toml_document import nearest
from autopilot.domain.array import ArraySpec
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec, SpotPolicy

NONE = "none"
"""Takes a limit away."""
AMOUNTS = {"budget": "budget", "max_price": "max_bid", "max_hourly": "max_hourly", "max_rate": "max_rate"}
"""Name of an amount as it is typed, and its field of ``JobSpec``."""
KEYS = (*AMOUNTS, "deadline", "parallel")


def change_spec(spec: JobSpec, wish: Mapping[str, str], now: datetime) -> JobSpec:
    """``spec`` with other values. ``wish``: key → value, written as in a job file.

    ``deadline`` is an instant, a span from ``now`` (``6h``), or ``+6h``: so much later than it is. ``none`` takes a
    limit away. Raises ``UserError``.
    """
    if not wish:
        raise UserError("nothing to change", hint=f"name a key: {', '.join(KEYS)}")
    changes: dict[str, Any] = {}
    for name, text in wish.items():
        if name not in KEYS:
            raise UserError(f"{name!r} cannot be changed after the submit", hint=nearest(name, KEYS))
        try:
            if name == "deadline":
                changes["deadline"], changes["due_within"] = _deadline(spec, text.strip(), now)
            elif name == "parallel":
                changes["array"] = _parallel(spec, text.strip())
            else:
                changes[AMOUNTS[name]] = None if text.strip() == NONE else values.money(text)
        except ValueError as error:
            raise UserError(f"{name}: {error}") from None
    if changes.get("max_bid") is not None and spec.spot_policy is SpotPolicy.ON_DEMAND:
        raise UserError("max_price limits bids, but the policy is on-demand", hint="max_hourly limits every price")
    changed = replace(spec, **changes)
    if changed == spec:
        raise UserError("the job has these values already")
    return changed


def _parallel(spec: JobSpec, text: str) -> ArraySpec:
    if spec.array is None:
        raise UserError("parallel is for arrays, and the job is not an array")
    if not text.isdecimal():
        raise ValueError(f"must be a whole number, not {text!r}")
    return replace(spec.array, parallel=values.task_count(int(text)))


def _deadline(spec: JobSpec, text: str, now: datetime) -> tuple[datetime | None, timedelta | None]:
    """The instant, or the time from when its predecessors will have ended. Raises ``ValueError`` and ``UserError``."""
    if text == NONE:
        return None, None
    if spec.work_estimate is None:
        raise UserError("a deadline needs an estimate of the work, and this job has none")
    if text.startswith("+") and spec.due_within is not None:
        within = spec.due_within + _span(text[1:])
        if within > FURTHEST_DEADLINE:
            raise UserError(f"deadline: {text} is too far away", hint=f"{FURTHEST_DEADLINE.days} days is the limit")
        return None, within
    if text.startswith("+"):
        if spec.deadline is None:
            raise UserError("the job has no deadline to extend", hint=f"write deadline={text[1:]}: from now on")
        due = spec.deadline + _span(text[1:])
    else:
        due = _from_now(text, now) or values.instant(text)
    if due <= now:
        raise UserError(f"deadline: {text} is in the past", hint="set a later one")
    if due - now > FURTHEST_DEADLINE:
        raise UserError(f"deadline: {text} is too far away", hint=f"set one within {FURTHEST_DEADLINE.days} days")
    return due, None


def _span(raw: object) -> timedelta:
    """At most so long that it can be added to any deadline, and is too far away then."""
    return min(values.duration(raw), 2 * FURTHEST_DEADLINE)


def _from_now(text: str, now: datetime) -> datetime | None:
    """None for what is no span."""
    try:
        return now + _span(text)
    except ValueError:
        return None
