"""Mithril's market: its auctions, and the customer's moves in them, each at the market's present moment."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from autopilot_lab.sandbox.host_traits import HostPool, HostTraits
from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.metering import GPU
from autopilot_lab.sandbox.mithril.auction import Cleared, Order, clear
from autopilot_lab.sandbox.mithril.bids import (
    BILLED,
    IN_THE_AUCTION,
    Bid,
    BidOrder,
    BidStatus,
    MachineStatus,
)
from autopilot_lab.sandbox.mithril.lifecycle import Lifecycle, Machines, Timings
from autopilot_lab.sandbox.mithril.pools import AuctionPool, AuctionPoolSpec, Rival, Sample

ROUND_S = 120.0
_ROUND = timedelta(seconds=ROUND_S)
LATE_END_S = 900.0
"""From a delete until the bid is gone, where that is broken."""
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 16
LONGEST_SCRIPT = 10_000
SSH_KEY = "sshkey_sandbox"


@dataclass
class MithrilRefused(Exception):
    """``status``: of HTTP. ``field``: that a 422 names."""

    status: int
    detail: str
    field: str = ""


class MithrilMarket:
    def __init__(
        self, pools: Iterable[AuctionPoolSpec], now: datetime, *, seed: int, timings: Timings, machines: Machines
    ) -> None:
        self.agenda = Agenda()
        self.journal = Journal()
        self.now = self._advances_to = now
        self.pools: dict[tuple[str, str], AuctionPool] = {}
        self.bids: dict[str, Bid] = {}
        """Ended ones included."""
        self.broken: set[str] = set()
        """Ids of claims about the market that it breaks."""
        self.told: dict[tuple[str, str], Cleared] = {}
        """The rounds of which the prices tell, where they are not those of the newest."""
        self.ssh_key = SSH_KEY
        """The only one of the project; its owner may replace it."""
        self.ended_by_others: int | None = 0
        """How many bids of colleagues have ended, beside the few strangers; None: the project has no other users."""
        self._by_key: dict[str, str] = {}
        self._rng = random.Random(f"ids:{seed}")  # noqa: S311 - reproducible, no secret
        self._arrivals = 0
        self.lifecycle = Lifecycle(self, timings, machines)
        for spec in pools:
            hosts = HostPool(spec.hosts, f"hosts:{seed}:{spec.region}:{spec.type.id}")
            cleared = clear((), spec.slots, spec.minimum)
            pool = AuctionPool(spec, self._new_id("auc"), spec.minimum, spec.slots, cleared, hosts)
            self.pools[pool.key] = pool
            pool.history.append(Sample(now, pool.cleared.price))
        self.agenda.at(now + _ROUND, self._hold_rounds)

    # -- time

    def advance_to(self, now: datetime) -> None:
        self._advances_to = now
        while (due := self.agenda.pop_due(now)) is not None:
            self.now, action = due
            action()
        self.now = max(self.now, now)

    def later(self, seconds: float, bid: Bid, action: object) -> None:
        """Unless another transition of the bid's machine comes first."""
        epoch = bid.epoch

        def act() -> None:
            if bid.epoch == epoch:
                assert callable(action)
                action()

        self.agenda.at(self.now + timedelta(seconds=seconds), act)

    def draw_host(self, bid: Bid) -> HostTraits:
        return self.pool_of(bid).hosts.draw()

    def record(self, kind: str, **fields: object) -> None:
        self.journal.record(self.now, kind, **fields)

    # -- the auction

    def _hold_rounds(self) -> None:
        asking = any(bid.status in IN_THE_AUCTION for bid in self.bids.values())
        if not asking and all(self._is_deserted(pool) for pool in self.pools.values()):
            self._repeat_rounds()
        else:
            for pool in self.pools.values():
                self.hold_round(pool)
        self.agenda.at(self.now + _ROUND, self._hold_rounds)

    def _is_deserted(self, pool: AuctionPool) -> bool:
        """Nothing was asked there in the last round either."""
        return not (pool.rivals or pool.cleared.winners) and pool.key in self.told

    def hold_round(self, pool: AuctionPool) -> None:
        ours = [bid for bid in self.bids.values() if self._is_in(bid, pool)]
        orders = [Order(bid.id, bid.limit, bid.order.quantity, bid.arrival) for bid in ours]
        orders += [Order(each.id, each.limit, each.quantity, each.arrival) for each in pool.rivals.values()]
        self.told[pool.key] = pool.cleared
        pool.cleared = clear(orders, pool.slots, pool.minimum)
        pool.history.append(Sample(self.now, pool.cleared.price))
        for bid in ours:
            if bid.id in pool.cleared.winners:
                self._win(bid)
            else:
                self._lose(bid)
            self.bill(bid)

    def _repeat_rounds(self) -> None:
        """Rounds without bids, up to where something else is due: a clock may have gone on by days."""
        ends_at = min(self.agenda.next_due() or self._advances_to, self._advances_to)
        rounds = [self.now + _ROUND * number for number in range(max(1, math.ceil((ends_at - self.now) / _ROUND)))]
        for pool in self.pools.values():
            before = pool.cleared
            if (before.price, before.free) != (pool.minimum, pool.slots):
                pool.cleared = clear((), pool.slots, pool.minimum)
            self.told[pool.key] = before if len(rounds) == 1 else pool.cleared
            pool.history.extend([Sample(at, pool.cleared.price) for at in rounds])
        self.now = rounds[-1]

    def _is_in(self, bid: Bid, pool: AuctionPool) -> bool:
        return bid.status in IN_THE_AUCTION and (bid.order.region, bid.order.type_id) == pool.key

    def _win(self, bid: Bid) -> None:
        if bid.status is BidStatus.ALLOCATED or "spot-is-rented" in self.broken:
            return
        was_warned = bid.status is BidStatus.PREEMPTING
        bid.status = BidStatus.ALLOCATED
        self.record("bid.won", bid_id=bid.id, limit=bid.limit, again=was_warned)
        if was_warned:
            self.lifecycle.withdraw_notice(bid)
        else:
            self.lifecycle.start(bid)

    def _lose(self, bid: Bid) -> None:
        if bid.status is not BidStatus.ALLOCATED:
            return
        self.record("bid.lost", bid_id=bid.id, limit=bid.limit)
        if bid.machine is not None and bid.machine.status in BILLED:
            bid.status = BidStatus.PREEMPTING
            self.lifecycle.give_notice(bid, MachineStatus.PREEMPTING)
        else:
            # It had not come up yet: there is nothing to warn.
            self.lifecycle.preempt(bid)

    def bill(self, bid: Bid) -> None:
        """The meter runs at the pool's price while its machine is on."""
        machine = bid.machine
        if machine is None or machine.status not in BILLED:
            bid.meter.halt(GPU, self.now)
            return
        price = min(self.pool_of(bid).cleared.price, bid.limit)
        bid.meter.run(GPU, Fraction(price) * bid.order.quantity, self.now)

    # -- the customer's moves; each may raise ``MithrilRefused``

    def place(self, order: BidOrder, key: str | None) -> Bid:
        if key is not None and key in self._by_key:
            known = self.bids[self._by_key[key]]
            if known.order != order:
                raise MithrilRefused(422, "the idempotency key was used for another request", "Idempotency-Key")
            return known
        pool = self.pools.get((order.region, order.type_id))
        if pool is None:
            raise MithrilRefused(422, f"no instance type {order.type_id} in {order.region}", "instance_type")
        if not set(order.ssh_keys) <= {self.ssh_key}:
            raise MithrilRefused(400, "SSH key not found: no ssh keys of that id")
        if not order.ssh_keys:
            raise MithrilRefused(400, "SSH key required: no ssh keys in the launch specification")
        if len(order.startup_script) > LONGEST_SCRIPT:
            raise MithrilRefused(422, f"at most {LONGEST_SCRIPT} characters", "launch_specification.startup_script")
        self._check_limit(pool, order.limit)
        if any(bid.order.name == order.name and not bid.is_over for bid in self.bids.values()):
            raise MithrilRefused(400, "name already used by another bid")
        self._arrivals += 1
        bid = Bid(self._new_id("bid"), order, order.limit, self.now, self._arrivals)
        self.bids[bid.id] = bid
        if key is not None:
            self._by_key[key] = bid.id
        self.record("bid.placed", bid_id=bid.id, name=order.name, limit=order.limit)
        return bid

    def change_limit(self, bid: Bid, limit: Decimal) -> None:
        """Live: what it means is found in the next round."""
        self._check_limit(self.pool_of(bid), limit)
        bid.limit = limit
        self.record("bid.changed", bid_id=bid.id, limit=limit)
        self.bill(bid)

    def pause(self, bid: Bid) -> None:
        if bid.status is BidStatus.PAUSED:
            return
        bid.status = BidStatus.PAUSED
        self.record("bid.paused", bid_id=bid.id)
        self.lifecycle.stop(bid, MachineStatus.PAUSED)

    def resume(self, bid: Bid) -> None:
        if bid.status is BidStatus.PAUSED and "bid-resumes" not in self.broken:
            bid.status = BidStatus.OPEN
            self.record("bid.resumed", bid_id=bid.id)

    def end(self, bid: Bid) -> None:
        if "delete-ends-it" in self.broken:
            self.agenda.at(self.now + timedelta(seconds=LATE_END_S), lambda: self._end(bid))
        else:
            self._end(bid)

    def _end(self, bid: Bid) -> None:
        if bid.is_over:
            return
        bid.status, bid.deactivated_at = BidStatus.TERMINATED, self.now
        self.lifecycle.terminate(bid)
        self.record("bid.ended", bid_id=bid.id)

    def find(self, bid_id: str) -> Bid:
        """Raises ``MithrilRefused``."""
        bid = self.bids.get(bid_id)
        if bid is None:
            raise MithrilRefused(404, "bid not found")
        return bid

    def _check_limit(self, pool: AuctionPool, limit: Decimal) -> None:
        if limit < pool.minimum:
            raise MithrilRefused(400, f"limit price below minimum of ${pool.minimum}")
        if pool.highest is not None and limit > pool.highest:
            raise MithrilRefused(422, f"must be at most ${pool.highest}", "limit_price")

    # -- everybody else

    def add_rival(self, pool: AuctionPool, limit: Decimal, quantity: int, stay_s: float | None) -> Rival:
        self._arrivals += 1
        rival = Rival(self._new_id("rival"), limit, quantity, self._arrivals)
        pool.rivals[rival.id] = rival
        if stay_s is not None:
            self.agenda.at(self.now + timedelta(seconds=stay_s), lambda: pool.rivals.pop(rival.id, None))
        return rival

    def set_slots(self, pool: AuctionPool, slots: int) -> None:
        """Reservations come and go: known in the next round."""
        pool.slots = slots

    def pool_of(self, bid: Bid) -> AuctionPool:
        return self.pools[bid.order.region, bid.order.type_id]

    def new_machine_id(self) -> str:
        return self._new_id("inst")

    def _new_id(self, kind: str) -> str:
        return f"{kind}_{''.join(self._rng.choices(_ID_LETTERS, k=_ID_LENGTH))}"
