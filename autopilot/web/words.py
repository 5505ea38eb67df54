"""Values as the page writes them: the command line's words, with no-break spaces so that a figure stays whole."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.answers.jobs import Decided
from autopilot.domain.time import show_duration
from autopilot.markets.installed import facts_of
from autopilot.web import zone
from autopilot.words import reasons, text

NO_BREAK = "\u00a0"


def whole(shown: str) -> str:
    return shown.replace(" ", NO_BREAK)


def money(value: str | Decimal | None, places: int = 2) -> str:
    return text.money(None if value is None else str(value), places)


def per_hour(value: str | Decimal | None) -> str:
    return text.per_hour(value)


def duration(span: timedelta | float | None) -> str:
    """Words for seconds, or a timedelta."""
    if span is None:
        return text.NONE
    return whole(show_duration(span if isinstance(span, timedelta) else timedelta(seconds=span)))


def moment(value: datetime | None) -> str:
    """``24 Nov 01:44:01``, in the page's time zone."""
    if value is None:
        return text.NONE
    return whole(f"{zone.local(value):%d %b %H:%M:%S}")


def minute(value: datetime) -> str:
    """``24 Nov 01:44``, for what is known no better."""
    return whole(f"{zone.local(value):%d %b %H:%M}")


def moment_in_zone(value: datetime | None) -> str:
    """``24 Nov 01:44:01 UTC``, for a sentence by itself."""
    return text.NONE if value is None else f"{moment(value)} {zone.name()}"


def percent(value: str | Decimal | None) -> str:
    return text.NONE if value is None else whole(f"{Decimal(value) * 100:.0f} %")


def share(value: float) -> str:
    """Percent of a share of 0..1, as a machine reports it."""
    return whole(f"{value * 100:.0f} %")


def market(name: str) -> str:
    facts = facts_of(name)
    return text.plain(name) if facts is None else facts.display_name


def capacity(kind: str | None) -> str:
    return text.words(kind)


def plain(value: object) -> str:
    return text.plain(value)


def words(code: object) -> str:
    return text.words(code)


def tell_decision(decision: Decided) -> str:
    """What was decided, in one line."""
    done = [reasons.tell(action) for action in decision.actions]
    refused = [f"refused by the guard: {reasons.tell_veto(veto)}" for veto in decision.vetoes]
    if done or refused:
        return "; ".join(done + refused)
    chosen = (note.numbers for note in decision.notes if note.topic == "option" and note.numbers.get("chosen"))
    option = next(chosen, None)
    width = next((note.numbers for note in decision.notes if note.topic == "width"), None)
    if width is not None:
        return f"{width['tasks']} of its tasks at once"
    return "nothing to do" if option is None else f"the best option: {words(option['option'])}"
