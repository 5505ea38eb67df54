"""What happens to machines while the daemon sleeps or is silent, in words: for plans and ``autopilot doctor``."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.offer import Capabilities, DeadMan
from autopilot.domain.time import show_duration
from autopilot.engine.engine import Engine
from autopilot.policy.budget import SHORT_PERMIT_S

SHORT = timedelta(seconds=SHORT_PERMIT_S)


def asleep_notes(engine: Engine, now: datetime) -> list[str]:
    """For a plan: how long machines work on unheard, where that is not the usual time, and what a closed lid loses."""
    ttl = timedelta(seconds=engine.config.permit_ttl_s)
    notes = []
    if engine.dialling.is_on:
        notes.append(
            "storage goes over SSH: while this computer sleeps nothing is saved here; after "
            f"{show_duration(ttl)} at most machines destroy themselves, and the work since the newest checkpoint "
            "is lost"
        )
    if ttl <= SHORT:
        return notes
    for market in sorted(engine.watches):
        able = engine.watches[market].provider.capabilities
        is_proved = engine.certification.is_proved(market, now)
        notes.append(f"without the daemon a machine on {market} works on for {tell_permit(ttl, able, is_proved)}")
    return notes


def tell_permit(ttl: timedelta, able: Capabilities, is_proved: bool | None) -> str:
    """How long a machine works on unheard, and what holds that down. ``is_proved``: its market has a valid
    certificate, or needs none; None: that was not looked at."""
    if able.dead_man is DeadMan.NONE:
        return "as long as it may live: nothing that it does ends its bill"
    short = show_duration(min(ttl, SHORT))
    if able.dead_man is DeadMan.POWERS_OFF:
        return f"{short}: it can only switch itself off, and its disk keeps billing"
    if ttl <= SHORT:
        return short
    if is_proved is False:
        return f"{short}: the market has no valid certificate"
    paused = "; the disk of one that is outbid then is held back for a day" if able.pauses_when_outbid else ""
    unless = ", 15 min without a valid certificate" if is_proved is None else ""
    return f"up to {show_duration(ttl)}{unless}, as far as limits and budget can hold back for it{paused}"
