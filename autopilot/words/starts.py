"""Machines on which a job's command never ran: what is wrong, who must act, and what the market said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.answers.jobs import FailedStart
from autopilot.domain.start_faults import fault_of
from autopilot.words import text


def tell(start: FailedStart) -> str:
    """In one line."""
    return tell_fault(start.remedy, start.message)


def tell_event(fields: Mapping[str, Any]) -> str:
    """The same of the fields of an event."""
    return tell_fault(fault_of(str(fields.get("fault") or "")).remedy, fields.get("message"))


def tell_fault(remedy: str, message: Any) -> str:
    return f"{text.plain(remedy)}{_quote(message)}"


def _quote(message: Any) -> str:
    return f" (it said: {text.plain(message)})" if message else ""
