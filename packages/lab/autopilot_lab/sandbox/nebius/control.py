"""Nebius's control API: everything that a test or a demo may do to that market, under ``/_emu/nebius/``.

| call | body | answer |
|---|---|---|
| GET address | | address: where its gRPC services listen |
| GET pools | | pools: price, the next price, GPUs, those that are taken |
| POST price | vm_id (or region, platform), price ($/h of a GPU), now (default: false: from the next step on) | |
| POST gpus | vm_id (or region, platform), gpus: those that preemptible machines may have | |
| POST reclaim | vm_id: its hardware is taken back | |
| POST quota | vms, policies: how many there may be | |
| POST stop | vm_id: its user stops it in the console | |
| POST power_off | vm_id: from inside | |
| POST update | vm_id, duration_s: its owner changes something of it in a console, and it shows as `UPDATING` | |
| POST hosts | vm_id (or region, platform), boots (or share of those that never boot): from the next launch on | |
| POST claim | id, holds (default: false): whether what is assumed of the market holds | broken |
| POST fault | on, kind, times (null: for ever; default 1), probability, lag_s, hang_s | |
| DELETE faults | | |
| GET events | ?since=SEQ | events: seq, at, kind and what belongs to it |
| GET vms | | vms: the truth, deleted ones included |
| GET policies | | policies: those that exist |
| GET books | | books: exact cost of each machine, and whether it has ended, disk and all |
| GET requests | | calls by kind |

A mistake is answered with 400 and ``error``. The clock is the sandbox's own. Faults: see ``injected_faults.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.host_wishes import parse_hosts
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.nebius import injected_faults
from autopilot_lab.sandbox.nebius.market import NebiusMarket
from autopilot_lab.sandbox.nebius.pools import NebiusPool
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import Vm
from autopilot_lab.sandbox.operations import BadRequest, Json, Operation, add_operations, amount
from autopilot_lab.sandbox.shared_control import shared_operations
from autopilot_lab.sandbox.units import NANO
from autopilot_lab.sandbox.wire import Host


class NebiusControl:
    def __init__(
        self,
        market: NebiusMarket,
        host: Host,
        faults: Faults,
        requests: Counter[str],
        address: Callable[[], str],
    ) -> None:
        self._market = market
        self._host = host
        self._faults = faults
        self._requests = requests
        self._address = address

    def add_routes(self, app: web.Application) -> None:
        market = self._market
        operations: dict[tuple[str, str], Operation] = {
            **shared_operations("nebius", self._market, self._faults, _parse_fault, self._requests),
            ("GET", "address"): lambda wish: {"address": self._address()},
            ("GET", "pools"): lambda wish: {"pools": [self._row(pool) for pool in market.pools.values()]},
            ("POST", "price"): self._set_price,
            ("POST", "gpus"): self._set_gpus,
            ("POST", "reclaim"): self._reclaim,
            ("POST", "quota"): self._set_quota,
            ("POST", "stop"): self._stop,
            ("POST", "power_off"): self._power_off,
            ("POST", "update"): self._update,
            ("POST", "hosts"): self._set_hosts,
            ("GET", "vms"): lambda wish: {"vms": [self._truth(vm) for vm in market.vms.values()]},
            ("GET", "policies"): self._policies,
            ("GET", "books"): lambda wish: {"books": [self._book(vm) for vm in market.vms.values()]},
        }
        add_operations(app, "/_emu/nebius/", operations, self._host)

    def _set_hosts(self, wish: Json) -> Json:
        pool = self._pool(wish)
        pool.hosts.replace_all(parse_hosts(wish, " ".join(pool.key)))
        return {}

    def _row(self, pool: NebiusPool) -> Json:
        return {
            "region": pool.spec.region,
            "platform": pool.spec.platform.name,
            "price": str(pool.price),
            "next_price": str(pool.next_price),
            "on_demand": str(pool.spec.platform.on_demand),
            "gpus": pool.gpus,
            "taken": self._market.lifecycle.count_taken(pool),
        }

    def _set_price(self, wish: Json) -> Json:
        pool, price = self._pool(wish), amount(wish, "price")
        if wish.get("now"):
            self._market.set_price(pool, price)
        else:
            pool.next_price = price
        return {}

    def _set_gpus(self, wish: Json) -> Json:
        self._market.set_gpus(self._pool(wish), int(amount(wish, "gpus")))
        return {}

    def _reclaim(self, wish: Json) -> Json:
        self._market.lifecycle.preempt(self._vm(wish), "hardware")
        return {}

    def _set_quota(self, wish: Json) -> Json:
        if "vms" in wish:
            self._market.most_vms = int(amount(wish, "vms"))
        if "policies" in wish:
            self._market.most_policies = int(amount(wish, "policies"))
        return {}

    def _stop(self, wish: Json) -> Json:
        vm = self._vm(wish)
        self._market.stop_vm(f"console {vm.id} {vm.boots}", vm)
        return {}

    def _power_off(self, wish: Json) -> Json:
        self._market.lifecycle.switched_off(self._vm(wish))
        return {}

    def _update(self, wish: Json) -> Json:
        self._market.update_for(self._vm(wish), float(amount(wish, "duration_s")))
        return {}

    def _policies(self, wish: Json) -> Json:
        rows = self._market.policies.values()
        return {"policies": [{"id": row.id, "name": row.name, "max_price": str(row.max_price)} for row in rows]}

    def _truth(self, vm: Vm) -> Json:
        return {
            "id": vm.id,
            "name": vm.order.name,
            "project": vm.order.project,
            "platform": vm.order.platform,
            "preset": vm.order.preset,
            "policy_id": vm.policy_id,
            "state": str(vm.state),
            "settling": vm.is_settling,
            "gone": vm.is_gone,
            "left_disk": vm.has_left_disk,
            "boots": vm.boots,
            "user_data": vm.order.user_data,
            "created_at": vm.created_at.isoformat(),
        }

    def _book(self, vm: Vm) -> Json:
        return {
            "vm_id": vm.id,
            "name": vm.order.name,
            "ended": vm.is_gone and not vm.has_left_disk,
            "total": f"{to_decimal(vm.meter.total(self._market.now), NANO):f}",
        }

    def _vm(self, wish: Json) -> Vm:
        try:
            return self._market.vm(str(wish.get("vm_id")))
        except NebiusRefused as refused:
            raise BadRequest(refused.message) from None

    def _pool(self, wish: Json) -> NebiusPool:
        if "vm_id" in wish:
            return self._market.pool_of(self._vm(wish))
        pool = self._market.pools.get((str(wish.get("region")), str(wish.get("platform"))))
        if pool is None:
            raise BadRequest("no such pool: name region and platform, or vm_id")
        return pool


def _parse_fault(wish: Json) -> InjectedFault:
    return InjectedFault.parse(wish, injected_faults.FAMILIES, injected_faults.KINDS)
