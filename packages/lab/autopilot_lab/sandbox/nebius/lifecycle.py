"""What befalls a machine: it looks for hardware, starts, runs, is told to go, stops, and is deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from autopilot_lab.sandbox.host_traits import Boot
from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.nebius import refusals
from autopilot_lab.sandbox.nebius.pools import NebiusPool
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import HOLDS_HARDWARE, CapPolicy, MarketOperation, Vm, VmState


@dataclass(frozen=True)
class Timings:
    """Market seconds."""

    policy_s: float = 2.0
    """From making a policy until machines can be made under it."""
    start_s: float = 40.0
    """From finding hardware until the machine runs."""
    placement_s: float = 45.0
    """How long hardware is looked for."""
    grace_s: float = 60.0
    """From the word to go until the power is cut."""


class Machines(Protocol):
    """The processes of machines. ``NoMachines``: there are none."""

    def start(self, vm: Vm) -> None: ...

    def terminate(self, vm: Vm) -> None:
        """Shut down; ``kill`` follows."""
        ...

    def kill(self, vm: Vm) -> None: ...

    def wipe(self, vm: Vm) -> None:
        """Kill, and remove the disk."""
        ...


class NoMachines:
    def start(self, vm: Vm) -> None: ...

    def terminate(self, vm: Vm) -> None: ...

    def kill(self, vm: Vm) -> None: ...

    def wipe(self, vm: Vm) -> None: ...


class MarketView(Protocol):
    """What the market gives to it."""

    agenda: Agenda
    now: datetime
    broken: set[str]
    policies: dict[str, CapPolicy]

    def later(self, seconds: float, vm: Vm, action: Callable[[], None]) -> None: ...

    def record(self, kind: str, **fields: object) -> None: ...

    def bill(self, vm: Vm) -> None: ...

    def alive(self, pool: NebiusPool) -> list[Vm]: ...

    def pool_of(self, vm: Vm) -> NebiusPool: ...

    def is_blocked(self, policy: CapPolicy) -> bool: ...

    def finish(self, operation: MarketOperation | None, refusal: NebiusRefused | None = None) -> None: ...


class Lifecycle:
    def __init__(self, market: MarketView, timings: Timings, machines: Machines) -> None:
        self._market = market
        self._timings = timings
        self._machines = machines

    # -- hardware

    def count_taken(self, pool: NebiusPool) -> int:
        return sum(vm.num_gpus for vm in self._market.alive(pool) if vm.state in HOLDS_HARDWARE)

    def count_kept(self, pool: NebiusPool) -> int:
        """Without those that shut down."""
        alive = self._market.alive(pool)
        return sum(vm.num_gpus for vm in alive if vm.state in (VmState.STARTING, VmState.RUNNING))

    def lowest(self, pool: NebiusPool) -> Vm | None:
        """Who loses hardware first: the lowest cap, and of equals the youngest."""
        able = [vm for vm in self._market.alive(pool) if vm.state in (VmState.STARTING, VmState.RUNNING)]
        return min(able, key=lambda vm: (self._rank(vm), -vm.arrival), default=None)

    def _rank(self, vm: Vm) -> float:
        policy = self._market.policies.get(vm.policy_id)
        return 0.0 if policy is None else float(policy.max_price)

    def _finds_hardware(self, vm: Vm) -> bool:
        """Whether there is room for it. Lower caps are told to make some: it is free once they are off."""
        pool = self._market.pool_of(vm)
        policy = self._market.policies.get(vm.policy_id)
        if vm.finds_no_hardware or policy is None or self._market.is_blocked(policy):
            return False
        if self.count_taken(pool) + vm.num_gpus <= pool.gpus:
            return True
        lowest = self.lowest(pool)
        if lowest is not None and self._rank(lowest) < self._rank(vm) and vm.num_gpus <= pool.gpus:
            self.preempt(lowest, "higher cap")
        return False

    # -- transitions

    def start(self, vm: Vm) -> None:
        """It shows as stopped, and settling, for as long as hardware is looked for."""
        vm.is_settling = True
        if "spot-is-rented" in self._market.broken or not self._finds_hardware(vm):
            self._set(vm, VmState.STOPPED)
            self._market.later(self._timings.placement_s, vm, lambda: self._give_up(vm))
            return
        vm.host = self._market.pool_of(vm).hosts.draw()
        self._set(vm, VmState.STARTING)
        self._market.later(self._timings.start_s, vm, lambda: self._run(vm))

    def _give_up(self, vm: Vm) -> None:
        """Lower caps may have gone meanwhile."""
        if "spot-is-rented" not in self._market.broken and self._finds_hardware(vm):
            self.start(vm)
            return
        self.settle(vm)
        self._market.record("vm.not_placed", vm_id=vm.id)
        self._market.finish(vm.pending, refusals.no_hardware())

    def settle(self, vm: Vm) -> None:
        vm.is_settling = False
        self._set(vm, VmState.STOPPED)

    def _run(self, vm: Vm) -> None:
        if vm.host.truth.boots is Boot.FOR_EVER:
            return
        vm.boots += 1
        vm.is_settling = False
        self._set(vm, VmState.RUNNING)
        self._market.finish(vm.pending)
        if vm.boots > 1 and "volume-kept" in self._market.broken:
            self._machines.wipe(vm)
            self._market.record("disk.lost", vm_id=vm.id)
        if vm.host.has_network:
            self._machines.start(vm)

    def preempt(self, vm: Vm, cause: str) -> None:
        if vm.state in (VmState.STARTING, VmState.RUNNING):
            self._market.record("vm.preempted", vm_id=vm.id, cause=cause)
            self._market.finish(vm.pending, refusals.no_hardware())
            vm.pending = None
            self.stop(vm)

    def stop(self, vm: Vm) -> None:
        """The guest shuts down within its time; then it is off, and stays so until somebody starts it."""
        was_on = vm.state is VmState.RUNNING
        if vm.state is VmState.STOPPING:
            return
        vm.is_settling = True
        self._set(vm, VmState.STOPPING)
        if was_on:
            self._machines.terminate(vm)
        self._market.later(self._timings.grace_s if was_on else 1.0, vm, lambda: self._off(vm))

    def _off(self, vm: Vm) -> None:
        self._machines.kill(vm)
        self.settle(vm)
        self._market.finish(vm.pending)
        vm.pending = None

    def switched_off(self, vm: Vm) -> None:
        """By itself, from inside, or by the word to go."""
        if vm.state is VmState.STOPPING:
            self._off(vm)
        elif vm.state is VmState.DELETING:
            self._end(vm)
        elif vm.state is VmState.RUNNING:
            self._market.record("vm.switched_off", vm_id=vm.id)
            if vm.order.fails_for_good:
                self.settle(vm)
            else:
                self._set(vm, VmState.STARTING)
                self._market.later(self._timings.start_s, vm, lambda: self._run(vm))

    def delete(self, vm: Vm) -> None:
        was_on = vm.state in (VmState.RUNNING, VmState.STOPPING)
        if was_on:
            self._machines.terminate(vm)
        self._set(vm, VmState.DELETING)
        late_s = 900.0 if "delete-ends-it" in self._market.broken else 0.0
        self._market.later(late_s + (5.0 if was_on else 1.0), vm, lambda: self._end(vm))

    def _end(self, vm: Vm) -> None:
        vm.is_gone = True
        self._set(vm, VmState.DELETING)
        self._machines.wipe(vm)
        self._market.record("vm.deleted", vm_id=vm.id)
        self._market.finish(vm.pending)

    def _set(self, vm: Vm, state: VmState) -> None:
        vm.epoch += 1
        vm.version += 1
        if vm.state is not state:
            vm.state = state
            self._market.record(f"vm.{state.lower()}", vm_id=vm.id)
        self._market.bill(vm)
