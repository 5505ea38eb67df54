"""What to know of a market before anything is rented there: what bills on should the daemon be lost, whether it shows
bills, whether it warns before it takes a machine away."""

from __future__ import annotations

from datetime import timedelta

from autopilot.domain.offer import Capabilities, DeadMan
from autopilot.domain.time import show_duration
from autopilot.engine.engine import Engine
from autopilot.planning.card import tell_top_up

BILLS_ON = {
    DeadMan.POWERS_OFF: "switches itself off when unmonitored; its disk keeps billing",
    DeadMan.NONE: "keeps billing, GPUs and disk, when unmonitored",
}
NO_BILL = "shows no bill: what is spent there is by our own clock"


def market_notes(engine: Engine) -> list[str]:
    """For a plan: of each market where a machine cannot destroy itself, whose bills cannot be seen, or that warns."""
    notes = []
    hours = engine.config.params.budget.unwatched_h
    for market in sorted(engine.watches):
        able = engine.watches[market].provider.capabilities
        if (words := BILLS_ON.get(able.dead_man)) is not None:
            held = f"; limits hold back {hours:g} h of it" if able.dead_man is DeadMan.NONE else ""
            notes.append(f"a machine on {market} {words}, until you end it{held}")
        if not able.has_bills:
            notes.append(f"{market} {NO_BILL}")
        if card := tell_top_up(market, engine.watches[market].top_up):
            notes.append(card)
        if warns := _tell_warning(able):
            notes.append(f"{market} {warns}: the job saves then")
    return notes


def tell_market(able: Capabilities) -> str:
    """The same of one market, to follow other facts; empty if there is nothing to say."""
    return "; ".join(filter(None, [tell_unwatched(able), _tell_warning(able)]))


def tell_unwatched(able: Capabilities) -> str:
    """What bills on there unseen; empty if nothing does."""
    told = [f"a machine there {BILLS_ON[able.dead_man]}"] if able.dead_man in BILLS_ON else []
    return "; ".join([*told, *([] if able.has_bills else [NO_BILL])])


def _tell_warning(able: Capabilities) -> str:
    if not able.notice_s:
        return ""
    ahead = show_duration(timedelta(seconds=able.notice_s))
    return (
        f"tells a machine {ahead} before it takes it away" + able.notice_may_be_withdrawn * ", and may take that back"
    )
