"""Nebius's market: its prices, and the customer's moves in it, each at the market's present moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from autopilot_lab.sandbox.host_traits import HostPool
from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.metering import DISK, GPU
from autopilot_lab.sandbox.nebius import refusals
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS
from autopilot_lab.sandbox.nebius.lifecycle import Lifecycle, Machines, Timings
from autopilot_lab.sandbox.nebius.pools import NebiusPool, PoolSpec, PriceStep
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import BILLED, CapPolicy, MarketOperation, PolicyState, Vm, VmOrder, VmState

STEP_S = 900
"""Prices move on the quarter of an hour."""
DISK_PER_GB_H = Decimal("0.0001")
LONGEST_USER_DATA = 32_768
LEAST_CAP = Decimal("0.001")
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 14


class NebiusMarket:
    def __init__(
        self, pools: Iterable[PoolSpec], now: datetime, *, seed: int, timings: Timings, machines: Machines
    ) -> None:
        self.agenda = Agenda()
        self.journal = Journal()
        self.now = now
        self.pools: dict[tuple[str, str], NebiusPool] = {}
        self.vms: dict[str, Vm] = {}
        """Deleted ones included."""
        self.policies: dict[str, CapPolicy] = {}
        """Those that exist."""
        self.operations: dict[str, MarketOperation] = {}
        self.broken: set[str] = set()
        """Ids of claims about the market that it breaks."""
        self.most_vms, self.most_policies = 50, 50
        self.has_strangers = True
        self.timings = timings
        self._by_key: dict[str, MarketOperation] = {}
        self._rng = random.Random(f"nebius-ids:{seed}")  # noqa: S311 - reproducible, no secret
        self._arrivals = 0
        self.lifecycle = Lifecycle(self, timings, machines)
        for spec in pools:
            hosts = HostPool(spec.hosts, f"nebius-hosts:{seed}:{spec.region}:{spec.platform.name}")
            pool = NebiusPool(spec, self.new_id("sku"), spec.price, spec.price, spec.gpus, hosts)
            self.pools[pool.key] = pool
            pool.quotes.append(PriceStep(now, pool.price))
        self._plan_step()

    # -- time

    def advance_to(self, now: datetime) -> None:
        while (due := self.agenda.pop_due(now)) is not None:
            self.now, action = due
            action()
        self.now = max(self.now, now)

    def later(self, seconds: float, vm: Vm, action: Callable[[], None]) -> None:
        """Unless another transition of the machine comes first."""
        epoch = vm.epoch

        def act() -> None:
            if vm.epoch == epoch:
                action()

        self.agenda.at(self.now + timedelta(seconds=seconds), act)

    def record(self, kind: str, **fields: object) -> None:
        self.journal.record(self.now, kind, **fields)

    # -- prices

    def _plan_step(self) -> None:
        past_s = int(self.now.timestamp()) // STEP_S * STEP_S
        self.agenda.at(datetime.fromtimestamp(past_s + STEP_S, UTC), self._step)

    def _step(self) -> None:
        for pool in self.pools.values():
            self.set_price(pool, pool.next_price)
        self._plan_step()

    def set_price(self, pool: NebiusPool, price: Decimal) -> None:
        """At once, as at a step: machines whose cap is below it are preempted."""
        if price != pool.price:
            self.record("price.moved", region=pool.spec.region, platform=pool.spec.platform.name, price=price)
        pool.price = pool.next_price = price
        pool.quotes.append(PriceStep(self.now, price))
        for vm in self.alive(pool):
            self.bill(vm)
            policy = self.policies.get(vm.policy_id)
            if policy is not None and policy.max_price < price:
                self.lifecycle.preempt(vm, "price")

    def set_gpus(self, pool: NebiusPool, gpus: int) -> None:
        """Hardware comes and goes: the lowest caps lose it first. Who is on his way out has lost it already."""
        pool.gpus = gpus
        while self.lifecycle.count_kept(pool) > gpus and (lowest := self.lifecycle.lowest(pool)) is not None:
            self.lifecycle.preempt(lowest, "hardware")

    def alive(self, pool: NebiusPool) -> list[Vm]:
        return [vm for vm in self.vms.values() if not vm.is_gone and self.pool_of(vm) is pool]

    def pool_of(self, vm: Vm) -> NebiusPool:
        return self.pool_at(vm.order.project, vm.order.platform)

    def pool_at(self, project: str, platform: str) -> NebiusPool:
        """Raises ``NebiusRefused``."""
        region = next((region for region, each in PROJECTS.items() if each == project), "")
        pool = self.pools.get((region, platform))
        if pool is None:
            raise refusals.bad_request("spec.resources.platform", "is not sold here")
        return pool

    def is_blocked(self, policy: CapPolicy) -> bool:
        if "losing-bid-refused" in self.broken:
            return False
        return policy.max_price < self.pool_at(policy.project, policy.platform).price

    def bill(self, vm: Vm) -> None:
        """GPUs while it is on, at the price of the moment; the disk for as long as it exists."""
        if vm.state in BILLED and not vm.is_gone:
            vm.meter.run(GPU, Fraction(self.pool_of(vm).price) * vm.num_gpus, self.now)
        else:
            vm.meter.halt(GPU, self.now)
        if vm.is_gone and not vm.has_left_disk:
            vm.meter.halt(DISK, self.now)
        else:
            vm.meter.run(DISK, Fraction(DISK_PER_GB_H) * vm.order.disk_gb, self.now)

    # -- operations

    def begin(self, key: str, resource_id: str, description: str) -> MarketOperation:
        made = MarketOperation(self.new_id("operation"), resource_id, self.now, description)
        self.operations[made.id] = made
        if key:
            self._by_key[key] = made
        return made

    def find_replay(self, key: str) -> MarketOperation | None:
        """What an earlier call under that key has begun."""
        return self._by_key.get(key)

    def finish(self, operation: MarketOperation | None, refusal: NebiusRefused | None = None) -> None:
        if operation is None or operation.code is not None:
            return
        operation.finished_at = self.now
        operation.code = 0 if refusal is None else refusal.code
        if refusal is not None:
            operation.message, operation.error = refusal.message, refusal.packed

    # -- the customer's moves; each may raise ``NebiusRefused``

    def make_policy(self, key: str, project: str, name: str, platform: str, max_price: Decimal) -> MarketOperation:
        pool = self.pool_at(project, platform)
        if (taken := self.policy_named(project, name)) is not None:
            raise refusals.name_taken(taken.id)
        if len(self.policies) >= self.most_policies:
            raise refusals.over_quota("billing.pricing-policy.count", self.most_policies, len(self.policies) + 1)
        if not LEAST_CAP <= max_price <= pool.highest_cap:
            bound = pool.highest_cap if max_price > pool.highest_cap else LEAST_CAP
            raise refusals.out_of_range(f"{max_price}", f"{bound}")
        policy = CapPolicy(self.new_id("pricingpolicy"), project, name, platform, max_price, self.now)
        self.policies[policy.id] = policy
        operation = self.begin(key, policy.id, "create pricing policy")
        self.record("policy.made", policy_id=policy.id, name=name, max_price=max_price)

        def activate() -> None:
            policy.state = PolicyState.ACTIVE
            self.finish(operation)

        self.agenda.at(self.now + timedelta(seconds=self.timings.policy_s), activate)
        return operation

    def delete_policy(self, key: str, policy_id: str) -> MarketOperation:
        policy = self.policy(policy_id)
        if self.running_under(policy):
            raise refusals.bad_state(policy_id, "instances run under the policy, or are being preempted")
        del self.policies[policy_id]
        self.record("policy.deleted", policy_id=policy_id, name=policy.name)
        operation = self.begin(key, policy_id, "delete pricing policy")
        self.finish(operation)
        return operation

    def running_under(self, policy: CapPolicy) -> list[Vm]:
        return [
            vm
            for vm in self.vms.values()
            if vm.policy_id == policy.id and not vm.is_gone and (vm.state is not VmState.STOPPED or vm.is_settling)
        ]

    def policy(self, policy_id: str) -> CapPolicy:
        found = self.policies.get(policy_id)
        if found is None:
            raise refusals.no_such(policy_id)
        return found

    def policy_named(self, project: str, name: str) -> CapPolicy | None:
        return next((each for each in self.policies.values() if (each.project, each.name) == (project, name)), None)

    def make_vm(self, key: str, order: VmOrder, policy_id: str) -> MarketOperation:
        pool = self.pool_at(order.project, order.platform)
        preset = pool.preset(order.preset)
        if preset is None:
            raise refusals.bad_request("spec.resources.preset", "is no preset of the platform")
        if self.policy(policy_id).platform != order.platform:
            raise refusals.bad_request("spec.spot_pricing_policy", "is of another platform")
        if len(order.user_data) > LONGEST_USER_DATA:
            raise refusals.bad_request("spec.cloud_init_user_data", f"at most {LONGEST_USER_DATA} characters")
        if (taken := self.vm_named(order.project, order.name)) is not None:
            raise refusals.name_taken(taken.id)
        self._arrivals += 1
        vm = Vm(self.new_id("computeinstance"), order, policy_id, preset.gpus, self.now, self._arrivals)
        self.vms[vm.id] = vm
        vm.pending = operation = self.begin(key, vm.id, "create instance")
        self.record("vm.made", vm_id=vm.id, name=order.name)
        self.bill(vm)
        if len([each for each in self.vms.values() if not each.is_gone]) > self.most_vms:
            # It is made all the same, and stays stopped.
            self.lifecycle.settle(vm)
            self.finish(operation, refusals.over_quota("compute.instance.count", self.most_vms, self.most_vms + 1))
        else:
            self.lifecycle.start(vm)
        return operation

    def start_vm(self, key: str, vm: Vm) -> MarketOperation:
        if vm.state is not VmState.STOPPED or vm.is_settling:
            raise refusals.bad_state(vm.id, f"the instance is {vm.state}")
        policy = self.policies.get(vm.policy_id)
        if policy is None or self.is_blocked(policy):
            raise refusals.bad_state(vm.id, "the pricing policy does not allow scheduling")
        vm.pending = operation = self.begin(key, vm.id, "start instance")
        vm.is_asked_to_stop = False
        if "bid-resumes" in self.broken:
            self.finish(operation)
        else:
            self.lifecycle.start(vm)
        return operation

    def stop_vm(self, key: str, vm: Vm) -> MarketOperation:
        operation = self.begin(key, vm.id, "stop instance")
        vm.is_asked_to_stop = True
        self.finish(vm.pending, refusals.abort())
        vm.pending = operation
        if vm.state is VmState.STOPPED and not vm.is_settling:
            self.finish(operation)
        else:
            self.lifecycle.stop(vm)
        return operation

    def swap_policy(self, key: str, vm: Vm, policy_id: str) -> MarketOperation:
        if vm.state is not VmState.STOPPED or vm.is_settling:
            raise refusals.bad_state(vm.id, "spec fields [pricing_model] update could be done with stopped instance")
        self.policy(policy_id)
        operation = self.begin(key, vm.id, "update instance")
        vm.policy_id, vm.version = policy_id, vm.version + 1
        self.record("vm.policy_changed", vm_id=vm.id, policy_id=policy_id)
        self.finish(operation)
        return operation

    def update_for(self, vm: Vm, seconds: float) -> None:
        """Something of it is changed in a console: it is what it was all the while, and shows otherwise."""
        vm.is_updating = True

        def ready() -> None:
            vm.is_updating = False

        self.agenda.at(self.now + timedelta(seconds=seconds), ready)

    def delete_vm(self, key: str, vm: Vm, *, leaves_disk: bool = False) -> MarketOperation:
        if vm.state is VmState.DELETING and vm.pending is not None:
            return vm.pending
        self.finish(vm.pending, refusals.abort())
        vm.pending = operation = self.begin(key, vm.id, "delete instance")
        vm.has_left_disk = leaves_disk
        self.lifecycle.delete(vm)
        return operation

    def delete_disk(self, key: str, disk_id: str) -> MarketOperation:
        vm = self.disk_of(disk_id)
        if not vm.is_gone:
            raise refusals.bad_state(disk_id, "the disk is attached")
        vm.has_left_disk = False
        self.bill(vm)
        operation = self.begin(key, disk_id, "delete disk")
        self.finish(operation)
        return operation

    def disk_of(self, disk_id: str) -> Vm:
        """The machine that a disk belongs, or belonged, to."""
        for vm in self.vms.values():
            if disk_name(vm) == disk_id and (not vm.is_gone or vm.has_left_disk):
                return vm
        raise refusals.no_such(disk_id)

    def vm(self, vm_id: str) -> Vm:
        found = self.vms.get(vm_id)
        if found is None or found.is_gone:
            raise refusals.no_such(vm_id)
        return found

    def vm_named(self, project: str, name: str) -> Vm | None:
        alive = (each for each in self.vms.values() if not each.is_gone)
        return next((each for each in alive if (each.order.project, each.order.name) == (project, name)), None)

    def new_id(self, kind: str) -> str:
        return f"{kind}-e00{''.join(self._rng.choices(_ID_LETTERS, k=_ID_LENGTH))}"


def disk_name(vm: Vm) -> str:
    """The id of its disk."""
    return "computedisk" + vm.id.removeprefix("computeinstance")
