"""What the daemon knows of its markets."""

from __future__ import annotations

from datetime import datetime

from autopilot import render
from autopilot.api.certify import certificate
from autopilot.api.key_hint import replace_keys
from autopilot.engine.engine import Engine
from autopilot.planning.market_notes import tell_unwatched


def render_markets(engine: Engine, now: datetime, *, sees_all: bool) -> list[render.Json]:
    """The credit is the account's: only callers who may see all of it get it."""
    return [
        {
            "name": name,
            "known": watch.last.known,
            "credit": render.plain(watch.last.credit) if sees_all else None,
            "read_at": render.plain(watch.known_at),
            "reason": watch.last.reason,
            "hint": replace_keys([name]) if watch.no_rights else "",
            "spot": watch.provider.capabilities.spot,
            "on_demand": watch.provider.capabilities.on_demand,
            "spot_note": watch.provider.capabilities.spot_note,
            "unwatched": tell_unwatched(watch.provider.capabilities),
            "certificate": certificate(engine, name, now),
        }
        for name, watch in engine.watches.items()
    ]
