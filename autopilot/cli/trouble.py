"""What keeps the daemon from its work now: what a list of jobs does not show by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.answers.status import Market, Status
from autopilot.domain.time import show_duration
from autopilot.words import text

LATE_AFTER_REAL = timedelta(minutes=5)
"""A tick waits for a market for two minutes at the most."""


def tell(status: Status) -> list[str]:
    """A sentence for each; none if all is well. ``status``: the daemon's."""
    now = status.now
    behind = [_tell_behind(text.plain(name)) for name in status.behind_store]
    return [
        *_tell_ticks(status, now),
        *_tell_clock(status),
        *behind,
        *(_tell_market(each, now) for each in status.providers if _is_unread(each)),
    ]


def _tell_behind(name: str) -> str:
    return (
        f"The store has machines of {name} that the ledger does not know: it was put back from an older copy."
        f" autopilot resume {name} --from-store --dry-run says what it holds. A job that works on is stopped first."
    )


def _tell_ticks(status: Status, now: datetime) -> list[str]:
    since, last = status.failing_since, status.last_tick_at
    rest = "No decisions are made meanwhile. Machines keep running until their permits expire."
    if since is not None:
        why = f": {text.plain(status.failure)}" if status.failure else ""
        return [f"No tick has ended well since {text.when(since, now)}{why}. {rest}"]
    if last is not None and now - last > LATE_AFTER_REAL * status.speed:
        return [f"The last tick ended {text.when(status.last_tick_at, now)}, and the next has not. {rest}"]
    return []


def _tell_clock(status: Status) -> list[str]:
    behind_s = status.clock_behind_s
    if behind_s is None:
        return []
    wrong = f"{show_duration(timedelta(seconds=abs(behind_s)))} {'slow' if behind_s > 0 else 'fast'}"
    return [
        f"The daemon's clock is {wrong}, as the markets say. Nothing is rented until it is right: set it, then restart"
        " the daemon."
    ]


def _is_unread(market: Market) -> bool:
    return not market.known and (market.read_at is not None or bool(market.hint))


def _tell_market(market: Market, now: datetime) -> str:
    read = f", last read {text.when(market.read_at, now)}" if market.read_at else ""
    hint = f". {text.plain(market.hint).capitalize()}" if market.hint else ""
    refused = "refuses its key" if market.hint else "cannot be read"
    return f"{text.plain(market.name)} {refused}{read}: {text.plain(market.reason)}{hint}"
