"""Planted bugs of virtual machines won in auctions: what is stopped, withdrawn, or left behind."""

from __future__ import annotations

from typing import Any

from autopilot.agent.shipped.machine import Machine
from autopilot.engine import engine
from autopilot.host.shipped.notices import Signal
from autopilot.policy import paused
from autopilot.providers.mithril import mapping
from autopilot.providers.mithril.adapter import MithrilProvider
from autopilot.providers.mithril.own_bids import Own, OwnBids
from tests.simulation.runs.bug import Patches, bug

is_over = mapping.is_over


@bug("a virtual machine that is stopped is believed gone")
def _stopped_vm_is_gone() -> Patches:
    def without_machine(bid: Any, machine: Any) -> bool:
        return is_over(bid, machine) or (machine is not None and not mapping.is_on(machine))

    return [(mapping, "is_over", without_machine)]


@bug("a notice that was withdrawn is obeyed a second time when it would have ended")
def _withdrawn_notice_obeyed() -> Patches:
    read = Signal.read

    def deaf(self: Signal, text: str | None, now: float) -> bool:
        return text is not None and read(self, text, now)

    return [(Signal, "read", deaf)]


@bug("the agent does nothing when its machine is about to be taken away")
def _notice_unheard() -> Patches:
    return [(Machine, "take_notice", lambda self, now: None)]


@bug("the disk of a virtual machine is left behind: it is stopped for good, and not deleted")
def _disk_left_behind() -> Patches:
    def paused_for_good(bid: Any, machine: Any) -> bool:
        return bid.status == "Paused" or is_over(bid, machine)

    return [(MithrilProvider, "destroy", MithrilProvider.stop), (mapping, "is_over", paused_for_good)]


@bug("our own bids in a pool are taken for competition")
def _own_bids_compete() -> Patches:
    """None is counted: neither in floors nor in what wins, and a bid is made although no machine is left for it."""
    return [
        (OwnBids, "of", lambda self, region, type_id: Own()),
        (OwnBids, "beside", lambda self, bid: Own()),
        (engine, "leave_room", lambda offers, leases: tuple(offers)),
        (engine, "ours_in_pools", lambda leases, job_id, providers: {}),
        (paused, "sets_our_price", lambda lease, market: False),
    ]
