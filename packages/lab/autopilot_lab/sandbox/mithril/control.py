"""Mithril's control API: everything that a test or a demo may do to that market, under ``/_emu/mithril/``.

| call | body | answer |
|---|---|---|
| GET auctions | | auctions: minimum, machines, spot price, lowest limit that won, rivals, our bids |
| POST rival | bid_id (or region, instance_type), limit ($/h of one machine), quantity (default: all), duration_s | id |
| DELETE rival | id | |
| POST slots | bid_id (or region, instance_type), slots: machines that are not reserved | |
| POST minimum | bid_id (or region, instance_type), price ($/h of one machine) | |
| POST highest | bid_id (or region, instance_type), price ($/h of one machine; null: none): no limit above is taken | |
| POST pause | bid_id: its user pauses it in the console | |
| POST power_off | bid_id: its machine, from inside; it keeps being billed | |
| POST strangers | ended (bids of colleagues that have ended; null: the project has no other users) | |
| POST ssh_key | id: of the one that takes the place of the project's | |
| POST relocate | bid_id: its machine is moved to another host | |
| POST hosts | bid_id (or region, instance_type), boots (or share of those that never boot): from the next launch on | |
| POST claim | id, holds (default: false): whether what is assumed of the market holds | broken |
| POST fault | on, kind, times (null: for ever; default 1), probability, retry_after, lag_s, hang_s | |
| DELETE faults | | |
| GET events | ?since=SEQ | events: seq, at, kind and what belongs to it |
| GET bids | | bids: the truth, ended ones included |
| GET books | | books: exact cost of each bid |
| GET requests | | calls by kind |

An auction is held every 120 s. A mistake is answered with 400 and ``error``. The clock is the sandbox's own. Faults:
see ``injected_faults.py``.
"""

from __future__ import annotations

from collections import Counter

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.host_wishes import parse_hosts
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.mithril import injected_faults
from autopilot_lab.sandbox.mithril.bids import Bid
from autopilot_lab.sandbox.mithril.market import MithrilMarket, MithrilRefused
from autopilot_lab.sandbox.mithril.pools import AuctionPool
from autopilot_lab.sandbox.operations import BadRequest, Json, Operation, add_operations, amount, duration
from autopilot_lab.sandbox.shared_control import shared_operations
from autopilot_lab.sandbox.units import NANO
from autopilot_lab.sandbox.wire import Host


class MithrilControl:
    def __init__(self, market: MithrilMarket, host: Host, faults: Faults, requests: Counter[str]) -> None:
        self._market = market
        self._host = host
        self._faults = faults
        self._requests = requests

    def add_routes(self, app: web.Application) -> None:
        operations: dict[tuple[str, str], Operation] = {
            **shared_operations("mithril", self._market, self._faults, _parse_fault, self._requests),
            ("GET", "auctions"): lambda wish: {"auctions": [self._row(pool) for pool in self._market.pools.values()]},
            ("POST", "rival"): self._add_rival,
            ("DELETE", "rival"): self._remove_rival,
            ("POST", "slots"): self._set_slots,
            ("POST", "minimum"): self._set_minimum,
            ("POST", "highest"): self._set_highest,
            ("POST", "pause"): self._pause,
            ("POST", "power_off"): self._power_off,
            ("POST", "strangers"): self._set_strangers,
            ("POST", "ssh_key"): self._set_ssh_key,
            ("POST", "relocate"): self._relocate,
            ("POST", "hosts"): self._set_hosts,
            ("GET", "bids"): lambda wish: {"bids": [self._truth(bid) for bid in self._market.bids.values()]},
            ("GET", "books"): lambda wish: {"books": [self._book(bid) for bid in self._market.bids.values()]},
        }
        add_operations(app, "/_emu/mithril/", operations, self._host)

    def _set_hosts(self, wish: Json) -> Json:
        pool = self._pool(wish)
        pool.hosts.replace_all(parse_hosts(wish, " ".join(pool.key)))
        return {}

    def _row(self, pool: AuctionPool) -> Json:
        cleared = pool.cleared
        return {
            "region": pool.spec.region,
            "instance_type": pool.spec.type.id,
            "name": pool.spec.type.name,
            "minimum": str(pool.minimum),
            "slots": pool.slots,
            "free": cleared.free,
            "spot": str(cleared.price),
            "lowest": None if cleared.lowest is None else str(cleared.lowest),
            "rivals": [
                {"id": each.id, "limit": str(each.limit), "quantity": each.quantity} for each in pool.rivals.values()
            ],
            "bids": [
                bid.id for bid in self._market.bids.values() if not bid.is_over and self._market.pool_of(bid) is pool
            ],
        }

    def _add_rival(self, wish: Json) -> Json:
        pool = self._pool(wish)
        quantity = int(amount({"quantity": pool.slots, **wish}, "quantity"))
        return {"id": self._market.add_rival(pool, amount(wish, "limit"), quantity, duration(wish)).id}

    def _remove_rival(self, wish: Json) -> Json:
        wanted = str(wish.get("id"))
        if not any(pool.rivals.pop(wanted, None) for pool in self._market.pools.values()):
            raise BadRequest(f"no such rival: {wanted!r}")
        return {}

    def _set_slots(self, wish: Json) -> Json:
        self._market.set_slots(self._pool(wish), int(amount(wish, "slots")))
        return {}

    def _set_minimum(self, wish: Json) -> Json:
        self._pool(wish).minimum = amount(wish, "price")
        return {}

    def _set_highest(self, wish: Json) -> Json:
        self._pool(wish).highest = None if wish.get("price") is None else amount(wish, "price")
        return {}

    def _pause(self, wish: Json) -> Json:
        self._market.pause(self._bid(wish))
        return {}

    def _power_off(self, wish: Json) -> Json:
        self._market.lifecycle.switched_off(self._bid(wish))
        return {}

    def _set_strangers(self, wish: Json) -> Json:
        self._market.ended_by_others = (
            None if wish.get("ended", 0) is None else int(amount({"ended": 0, **wish}, "ended"))
        )
        return {}

    def _set_ssh_key(self, wish: Json) -> Json:
        self._market.ssh_key = str(wish.get("id"))
        return {}

    def _relocate(self, wish: Json) -> Json:
        self._market.lifecycle.relocate(self._bid(wish))
        return {}

    def _truth(self, bid: Bid) -> Json:
        machine = bid.machine
        return {
            "id": bid.id,
            "name": bid.order.name,
            "region": bid.order.region,
            "instance_type": bid.order.type_id,
            "limit": str(bid.limit),
            "status": str(bid.status),
            "machine": None if machine is None else {"id": machine.id, "status": str(machine.status)},
            "machines": len(bid.machines),
            "boots": bid.boots,
            "startup_script": bid.order.startup_script,
            "created_at": bid.created_at.isoformat(),
        }

    def _book(self, bid: Bid) -> Json:
        return {
            "bid_id": bid.id,
            "name": bid.order.name,
            "ended": bid.is_over,
            "total": f"{to_decimal(bid.meter.total(self._market.now), NANO):f}",
        }

    def _bid(self, wish: Json) -> Bid:
        try:
            return self._market.find(str(wish.get("bid_id")))
        except MithrilRefused as refused:
            raise BadRequest(refused.detail) from None

    def _pool(self, wish: Json) -> AuctionPool:
        if "bid_id" in wish:
            return self._market.pool_of(self._bid(wish))
        pool = self._market.pools.get((str(wish.get("region")), str(wish.get("instance_type"))))
        if pool is None:
            raise BadRequest("no such auction: name region and instance_type, or bid_id")
        return pool


def _parse_fault(wish: Json) -> InjectedFault:
    return InjectedFault.parse(wish, injected_faults.FAMILIES, injected_faults.KINDS)
