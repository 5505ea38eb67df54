"""What goes on billing should the daemon be lost, and which markets show no bill: said before anything is rented."""

from __future__ import annotations

from autopilot.domain.offer import Capabilities, DeadMan
from autopilot.engine.engine import Engine

BILLS_ON = {
    DeadMan.POWERS_OFF: "switches itself off when nobody watches it, and its disk bills on",
    DeadMan.NONE: "bills on, GPUs and disk, when nobody watches it",
}
NO_BILL = "shows no bill: what is spent there is by our own clock"


def unwatched_notes(engine: Engine) -> list[str]:
    """For a plan: of each market where a machine cannot destroy itself, or whose bills cannot be seen."""
    notes = []
    hours = engine.config.params.budget.unwatched_h
    for market in sorted(engine.watches):
        able = engine.watches[market].provider.capabilities
        if (words := BILLS_ON.get(able.dead_man)) is not None:
            held = f"; limits hold back {hours:g} h of it" if able.dead_man is DeadMan.NONE else ""
            notes.append(f"a machine on {market} {words}, until you end it{held}")
        if not able.has_bills:
            notes.append(f"{market} {NO_BILL}")
    return notes


def tell_unwatched(able: Capabilities) -> str:
    """The same of one market, to follow other facts; empty where there is nothing to say."""
    told = [f"a machine there {BILLS_ON[able.dead_man]}"] if able.dead_man in BILLS_ON else []
    return "; ".join([*told, *([] if able.has_bills else [NO_BILL])])
