"""Days and months as people type them."""

from __future__ import annotations

import re
from datetime import UTC, date, tzinfo

from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError
from autopilot.domain.time import parse_duration


def month(text: str | None) -> str | None:
    """Raises ``UserError`` unless it is a month as YYYY-MM, or not given."""
    if text is not None and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text):
        raise UserError(f"not a month: {text!r}", hint="write it as 2026-01")
    return text


def day(text: str | None, client: JsonClient, zone: str) -> str | None:
    """A day as YYYY-MM-DD, from a day or from how long ago it was by the daemon's clock. Raises ``UserError``."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    try:
        ago = parse_duration(text)
    except UserError:
        raise UserError(f"not a day: {text!r}", hint="write it as 2026-01-31, or how long ago, like 7d") from None
    now = client.market_now()
    try:
        return (now.astimezone(_zone(zone)) - ago).date().isoformat()
    except OverflowError:
        raise UserError(f"too long ago: {text}") from None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(f"no such time zone: {name!r}", hint="a name like Europe/Berlin") from None
