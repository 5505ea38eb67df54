"""A market of virtual machines in a blind auction: every two minutes the highest limits win, and all pay one price.

Told of over the wire by ``mithril``. A bid outlives its machines: it is outbid, wins again, is paused, or moved.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal

from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, Host, Kept, State
from tests.simulation.markets.market import LOADING_S, RESTART_S, SimulatedMarket
from tests.simulation.virtual.clock import at

ROUND_S = 120.0
WINDOW_S = 300.0
"""From a notice to the stop."""
CENT = Decimal("0.01")
UNWATCHED_S = 3600.0
"""For so long a machine that cannot end its bill is paid for out of what was held back for that."""
IS_FREE = 0.2
"""Share of the pools without other bidders."""
LISTED_LATE_S = 60.0


@dataclass(slots=True)
class Pool:
    """A kind of machine in a region. ``$/h`` of one machine."""

    minimum: Decimal
    price: Decimal
    """What all that run there pay since the last round."""
    lowest: Decimal | None = None
    """The lowest limit that has a machine."""
    is_free: bool = False
    """There are no other bidders."""


@dataclass(slots=True)
class VmBid:
    """An order that is open until it is deleted."""

    box: Box
    arrival: int
    has_won: bool = False
    machines: list[tuple[str, float]] = field(default_factory=list)
    """(id, since when), oldest first; all but the last were replaced."""
    billed: list[tuple[str, int, float, float | None]] = field(default_factory=list)
    """(machine, cents an hour, since when, until when), oldest first; None: it goes on."""
    listed_from_s: float = 0.0
    """Its newest machine is in the list from then on."""
    notice: str = ""
    """PREEMPTING, RELOCATING or none."""
    ends_s: float = 0.0
    """When a machine under notice stops."""

    def bill(self, cents: int, now_s: float) -> None:
        """From now on an hour costs so much; 0: nothing."""
        machine = self.machines[-1][0] if self.machines else ""
        if self.billed and self.billed[-1][3] is None:
            last = self.billed[-1]
            if last[:2] == (machine, cents):
                return
            self.billed[-1] = (*last[:3], now_s)
        if cents:
            self.billed.append((machine, cents, now_s, None))


class AuctionMarket(SimulatedMarket):
    def __init__(
        self, ground: Ground, provider: str, hosts: list[Host], rng: random.Random, boot_agent: Callable[[Box], None]
    ) -> None:
        self.bids: dict[str, VmBid] = {}
        """By the id of the box, also those that are over."""
        self.pools: dict[str, Pool] = {}
        for host in hosts:
            minimum = (host.floor / 2).quantize(CENT, ROUND_CEILING)
            self.pools[host.machine_id] = Pool(minimum, minimum, is_free=rng.random() < IS_FREE)
        super().__init__(ground, provider, hosts, rng, boot_agent)
        self._hold_rounds()

    def new_id(self) -> str:
        self._given += 1
        return f"bid_{self._given:06d}"

    # --- the auction

    def _hold_rounds(self) -> None:
        for host in self.hosts.values():
            self.hold_round(host)
        self.ground.loop.after(ROUND_S, self._hold_rounds)

    def hold_round(self, host: Host) -> None:
        """Others hold every machine that a bid of ours does not beat; of equal limits the older wins, and is theirs."""
        pool = self.pools[host.machine_id]
        ours = [bid for bid in self.bids.values() if bid.box.host is host and self._takes_part(bid)]
        ranked = sorted(ours, key=lambda bid: (-bid.box.rate, bid.arrival))
        level = pool.minimum - CENT if self._is_free(host) else host.to_win
        winners = [bid for bid in ranked if bid.box.rate > level][: host.room]
        beaten = [bid.box.rate for bid in ranked if bid not in winners]
        if not self._is_free(host):
            beaten.append(level if winners else level - CENT)
        price = max((pool.minimum, *beaten))
        limits = [bid.box.rate for bid in winners]
        if len(winners) < host.room and not self._is_free(host):
            limits.append(level)
        pool.lowest = min(limits, default=None)
        pool.price = price
        for bid in ranked:
            if bid in winners:
                self._win(bid)
            else:
                self._lose(bid)
            self.rebill(bid.box)

    def _takes_part(self, bid: VmBid) -> bool:
        box = bid.box
        is_stuck = box.stays_paused and bool(bid.machines) and box.state is State.STOPPED
        return box.wanted and not box.is_gone and not is_stuck

    def _is_free(self, host: Host) -> bool:
        is_free = self.ground.scenario.is_alone or self.pools[host.machine_id].is_free
        return is_free and host.rival is None

    def least(self, host: Host) -> Decimal:
        return self.pools[host.machine_id].minimum

    def pays(self, box: Box) -> Decimal:
        return min(self.pools[box.host.machine_id].price, box.rate)

    def free_in(self, host: Host) -> int:
        """Machines that are free."""
        if not self._is_free(host):
            return 0
        held = sum(1 for bid in self.bids.values() if bid.box.host is host and bid.has_won and not bid.box.is_gone)
        return max(host.room - held, 0)

    def _win(self, bid: VmBid) -> None:
        if bid.has_won:
            return
        bid.has_won = True
        if bid.notice == "PREEMPTING":
            self._withdraw(bid)
        elif bid.box.state is State.STOPPED:
            self._start_machine(bid, RESTART_S if bid.machines else LOADING_S)

    def _lose(self, bid: VmBid) -> None:
        if not bid.has_won:
            return
        bid.has_won = False
        bid.box.host.beaten_bids.append((self.ground.now_s, bid.box.rate))
        if bid.box.state is State.LOADING:
            self.change(bid.box, State.STOPPED)
        elif bid.box.state is not State.STOPPED:
            self._give_notice(bid, "PREEMPTING")

    # --- notices

    def relocate(self, box: Box) -> bool:
        """Move it to another host; False if there is nothing to move, or it is under notice already."""
        bid = self.bids[box.id]
        if box.state is not State.RUNNING or bid.notice or not bid.has_won:
            return False
        self._give_notice(bid, "RELOCATING")
        return True

    def _give_notice(self, bid: VmBid, kind: str) -> None:
        box = bid.box
        if not bid.notice:
            bid.ends_s = self.ground.now_s + WINDOW_S
            self.ground.loop.after(WINDOW_S, self._obey_notice, bid, bid.ends_s)
        bid.notice = kind
        words = "Preempting" if kind == "PREEMPTING" else "Relocating"
        ends_at = f"{at(bid.ends_s):%Y-%m-%dT%H:%M:%SZ}"
        box.signal = f"instance_status: STATUS_{kind}\nbid_status: {words}\nend_time: {ends_at}\n"
        self.ground.trace("notice", box.key, kind)
        self.ground.check.give_notice(box)

    def _withdraw(self, bid: VmBid) -> None:
        self._forget_notice(bid)
        self.ground.trace("notice withdrawn", bid.box.key)

    def _forget_notice(self, bid: VmBid) -> None:
        bid.notice, bid.box.signal = "", None
        self.ground.check.end_notice(bid.box)

    def _obey_notice(self, bid: VmBid, ends_s: float) -> None:
        if bid.box.is_gone or not bid.notice or bid.ends_s != ends_s:
            return
        kind = bid.notice
        self.ground.check.take_away(bid.box)
        self._forget_notice(bid)
        self.change(bid.box, State.STOPPED)
        if kind == "RELOCATING":
            self._start_machine(bid, RESTART_S, is_new=True)

    # --- machines

    def rent_to_others(self, host: Host, label: str, *, id_: str | None = None) -> Box:
        rate = (host.to_win * 2).quantize(CENT, ROUND_CEILING)
        return self.rent(host, label=label, is_spot=True, rate=rate, disk_gb=20, onstart="", id_=id_)

    def rent(
        self,
        host: Host,
        *,
        label: str,
        is_spot: bool,
        rate: Decimal,
        disk_gb: int,
        onstart: str,
        starts: bool = True,
        id_: str | None = None,
        gpu: int | None = None,
    ) -> Box:
        """The bid alone: what it wins is found in the next round."""
        box = self._make_box(host, label, is_spot, rate, disk_gb, onstart, starts, id_, gpu)
        box.storage_rate = Decimal(0)
        box.state = State.STOPPED
        self.bids[box.id] = VmBid(box, self._given)
        self.ground.trace("bid", box.key, label, str(rate))
        return box

    def _start_machine(self, bid: VmBid, takes_s: tuple[float, float], *, is_new: bool = False) -> None:
        now_s = self.ground.now_s
        if is_new or not bid.machines:
            bid.machines.append((f"inst_{bid.box.id[4:]}_{len(bid.machines)}", now_s))
            late = self.ground.faults.hits("B2")
            bid.listed_from_s = now_s + (self.rng.uniform(0, LISTED_LATE_S) if late else 0.0)
        self.kept.setdefault(f"disk of {bid.box.id}", Kept(bid.box.id, bid.box.label, "boot disk"))
        self.boot(bid.box, takes_s)

    def change(self, box: Box, state: State) -> None:
        if state is State.STOPPED and self.bids[box.id].notice:
            self._forget_notice(self.bids[box.id])
        super().change(box, state)

    def consider(self, box: Box) -> None:
        """What a changed floor, limit or credit means is found in the next round; a pause holds at once."""
        if not box.is_gone and not box.wanted and box.state is not State.STOPPED:
            self.bids[box.id].has_won = False
            self.change(box, State.STOPPED)

    def run_dry(self) -> None:
        """There is no credit to run out of: the card is declined, and nothing new is rented."""
        self.is_dry = True

    def destroy(self, box: Box) -> None:
        bid = self.bids[box.id]
        if bid.notice:
            self._forget_notice(bid)
        bid.has_won = False
        self.kept.pop(f"disk of {box.id}", None)
        super().destroy(box)

    def set_floor(self, host: Host, floor: Decimal) -> None:
        super().set_floor(host, max(floor.quantize(CENT, ROUND_CEILING), self.pools[host.machine_id].minimum))

    def bring_to_life(self, box: Box) -> None:
        raise AssertionError("an order that was deleted does not come back")

    def vanish_with_host(self, box: Box, for_s: float) -> None:
        self.vanish(box, for_s)

    # --- bills

    def rebill(self, box: Box) -> None:
        """The market goes on billing a machine whose host is cut off."""
        computes = not box.is_gone and box.state in (State.RUNNING, State.OFFLINE)
        price = self.pays(box) if computes else Decimal(0)
        self.ground.books.change(box.meter, self.ground.now_s, price, Decimal(0), self.excuse_for(box))
        self.bids[box.id].bill(int(price * 100), self.ground.now_s)

    def alone_until_s(self, box: Box) -> float:
        """Nothing on it can end its bill: an hour is held back for that."""
        out_since_s = self.ground.out_since_s
        return (self.ground.now_s if out_since_s is None else out_since_s) + UNWATCHED_S
