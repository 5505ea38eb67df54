"""What befalls the machine of a bid: it starts, runs, is warned, stops, comes back, moves to another host, ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from autopilot_lab.sandbox.host_traits import Boot, HostTraits
from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.mithril.bids import BILLED, Bid, BidStatus, Machine, MachineStatus


@dataclass(frozen=True)
class Timings:
    """Market seconds."""

    start_s: float = 60.0
    """From winning until a new machine runs."""
    restart_s: float = 40.0
    """From winning again until a stopped machine runs, and of a move to another host."""
    notice_s: float = 300.0
    """From the notice until the machine is stopped."""
    grace_s: float = 60.0
    """From the power-off until the power is cut."""


class Machines(Protocol):
    """The processes of machines. ``NoMachines``: there are none."""

    def start(self, bid: Bid) -> None: ...

    def warn(self, bid: Bid, status: MachineStatus, bid_status: str, in_s: float) -> None:
        """Write the file on the machine that says what befalls it in so many market seconds."""
        ...

    def withdraw(self, bid: Bid) -> None:
        """Remove that file, if there is one."""
        ...

    def terminate(self, bid: Bid) -> None:
        """Shut down; ``kill`` follows."""
        ...

    def kill(self, bid: Bid) -> None: ...

    def wipe(self, bid: Bid) -> None:
        """Kill, and remove the disk."""
        ...


class NoMachines:
    def start(self, bid: Bid) -> None: ...

    def warn(self, bid: Bid, status: MachineStatus, bid_status: str, in_s: float) -> None: ...

    def withdraw(self, bid: Bid) -> None: ...

    def terminate(self, bid: Bid) -> None: ...

    def kill(self, bid: Bid) -> None: ...

    def wipe(self, bid: Bid) -> None: ...


class MarketView(Protocol):
    """What the market gives to it."""

    agenda: Agenda
    now: datetime
    broken: set[str]

    def later(self, seconds: float, bid: Bid, action: Callable[[], None]) -> None: ...

    def record(self, kind: str, **fields: object) -> None: ...

    def bill(self, bid: Bid) -> None: ...

    def new_machine_id(self) -> str: ...

    def draw_host(self, bid: Bid) -> HostTraits: ...


class Lifecycle:
    def __init__(self, market: MarketView, timings: Timings, machines: Machines) -> None:
        self._market = market
        self.timings = timings
        self._machines = machines

    def start(self, bid: Bid) -> None:
        """A new machine, or the one that was stopped, with its disk."""
        machine, market = bid.machine, self._market
        if machine is not None and "volume-kept" in market.broken:
            self._machines.wipe(bid)
            market.record("disk.lost", bid_id=bid.id)
        is_new = machine is None
        if machine is None:
            machine = self._add_machine(bid)
        if bid.is_defective:
            self._set(bid, MachineStatus.ERROR)
            return
        self._set(bid, MachineStatus.STARTING)
        market.later(self.timings.start_s if is_new else self.timings.restart_s, bid, lambda: self._run(bid))

    def _run(self, bid: Bid) -> None:
        machine = bid.machine
        assert machine is not None, "there is a machine to run"
        if machine.host.truth.boots is Boot.FOR_EVER:
            return
        bid.boots += 1
        self._set(bid, MachineStatus.RUNNING)
        if machine.host.has_network:
            self._machines.start(bid)

    def give_notice(self, bid: Bid, status: MachineStatus) -> None:
        """``status``: PREEMPTING or RELOCATING."""
        ends_at = self._market.now + timedelta(seconds=self.timings.notice_s)
        self._set(bid, status, ends_at)
        said = "Relocating" if status is MachineStatus.RELOCATING else str(bid.status)
        self._machines.warn(bid, status, said, self.timings.notice_s)
        end = self.preempt if status is MachineStatus.PREEMPTING else self._move
        self._market.later(self.timings.notice_s, bid, lambda: end(bid))

    def withdraw_notice(self, bid: Bid) -> None:
        self._set(bid, MachineStatus.RUNNING)
        self._machines.withdraw(bid)
        self._market.record("notice.withdrawn", bid_id=bid.id)

    def preempt(self, bid: Bid) -> None:
        """The bid stays open: it may win again."""
        bid.status = BidStatus.OPEN
        self.stop(bid, MachineStatus.PREEMPTED)

    def stop(self, bid: Bid, status: MachineStatus) -> None:
        machine = bid.machine
        if machine is None:
            return
        was_on = machine.status in BILLED
        self._set(bid, status)
        self._machines.withdraw(bid)
        if was_on:
            self._power_off(bid)

    def switched_off(self, bid: Bid) -> None:
        """By itself, from inside: the market takes no note of it, and goes on billing."""
        self._machines.terminate(bid)
        self._market.record("machine.switched_off", bid_id=bid.id)

    def relocate(self, bid: Bid) -> None:
        """Its host is needed, or ails: it is not outbid."""
        if bid.machine is not None and bid.machine.status is MachineStatus.RUNNING:
            self.give_notice(bid, MachineStatus.RELOCATING)

    def _move(self, bid: Bid) -> None:
        old = bid.machine
        assert old is not None, "only a machine that runs is moved"
        self._machines.withdraw(bid)
        self._power_off(bid)
        old.status, old.end_time = MachineStatus.REPLACED, None
        self._add_machine(bid)
        self._set(bid, MachineStatus.STARTING)
        self._market.record("machine.moved", bid_id=bid.id, machine_id=old.id)
        self._market.later(self.timings.grace_s + self.timings.restart_s, bid, lambda: self._run(bid))

    def terminate(self, bid: Bid) -> None:
        if bid.machine is not None:
            self._set(bid, MachineStatus.TERMINATED)
        self._machines.wipe(bid)

    def _power_off(self, bid: Bid) -> None:
        self._machines.terminate(bid)
        boots = bid.boots

        def cut() -> None:
            if bid.boots == boots:
                self._machines.kill(bid)

        self._market.agenda.at(self._market.now + timedelta(seconds=self.timings.grace_s), cut)

    def _add_machine(self, bid: Bid) -> Machine:
        made = Machine(self._market.new_machine_id(), MachineStatus.STARTING, self._market.now)
        made.host = self._market.draw_host(bid)
        bid.machines.append(made)
        return made

    def _set(self, bid: Bid, status: MachineStatus, end_time: datetime | None = None) -> None:
        machine = bid.machine
        assert machine is not None, "there is a machine to change"
        bid.epoch += 1
        machine.status, machine.end_time = status, end_time
        self._market.record(f"machine.{status.lower()}", bid_id=bid.id, machine_id=machine.id)
        self._market.bill(bid)
