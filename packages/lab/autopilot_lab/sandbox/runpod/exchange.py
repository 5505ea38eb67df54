"""The state of RunPod's market: machines and who is on them, pods, money, and what happens by itself.

Everything happens at ``now``, which only ``advance_to`` moves. There is no order book: the host sets a floor, a bid
holds its GPUs until somebody pays strictly more per GPU or rents them on demand, and nothing resumes by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.market.metering import DISK, Meter, to_decimal
from autopilot_lab.sandbox.runpod.balance import Balance
from autopilot_lab.sandbox.runpod.lifecycle import Lifecycle, NoPodContainers, PodContainers, Timings
from autopilot_lab.sandbox.runpod.machines import Machine, MachineSpec, Stranger
from autopilot_lab.sandbox.runpod.placement import Tenant, evictions, free_gpus, price_to_win
from autopilot_lab.sandbox.runpod.pods import Cause, NetworkVolume, Pod, Status
from autopilot_lab.sandbox.runpod.refusals import (
    SPOT_NO_CAPACITY,
    PodRefused,
    RefusalReason,
    insufficient_balance,
    over_spend_limit,
)
from autopilot_lab.sandbox.units import NANO


class Mode(StrEnum):
    """How far RunPod's withdrawal of spot has come."""

    NORMAL = "normal"
    NO_SUPPLY = "no_supply"
    MUTATION_REMOVED = "mutation_removed"
    GRAPHQL_GONE = "graphql_gone"


class SpotPrice(StrEnum):
    """What a spot pod is billed: its bid, or the host's floor when it started."""

    BID = "bid"
    FLOOR = "floor"


@dataclass(frozen=True)
class ExchangeConfig:
    """What RunPod does not document, or does differently for different accounts."""

    spend_limit: Decimal = Decimal(80)
    """$/h, of the whole account."""
    spot_price: SpotPrice = SpotPrice.BID
    low_bid_text: str = SPOT_NO_CAPACITY
    """The answer to a bid below the floor; the real text is unknown."""
    bid_resume_of_running_fails: bool = True
    """``podBidResume`` of a running pod: an error, or nothing happens. It never changes the bid."""
    vanish_probability: float = 0.0
    """That an outbid pod is taken away altogether, its volume with it."""
    places_anywhere: bool = False
    """A pod gets any of the machines that would do, drawn from the seed. Otherwise it gets the cheapest one."""


class Exchange:
    def __init__(
        self,
        specs: Iterable[MachineSpec],
        start: datetime,
        *,
        seed: int = 1,
        balance: Decimal = Decimal(100),
        mode: Mode = Mode.NORMAL,
        config: ExchangeConfig | None = None,
        timings: Timings | None = None,
        network_volumes: Sequence[NetworkVolume] = (),
        containers: PodContainers | None = None,
    ) -> None:
        self.now = start
        self.mode = mode
        self.config = config or ExchangeConfig()
        self.agenda = Agenda()
        self.journal = Journal()
        self.broken: set[str] = set()
        """Claims of ``providers.runpod.claims`` that this market breaks, by their ids."""
        self.lifecycle = Lifecycle(
            timings or Timings(),
            self.agenda,
            self.journal,
            containers or NoPodContainers(),
            seed,
            lambda: self.now,
            self.watch_balance,
            self.broken,
            lambda pod: self.machines[pod.machine_id].spec.traits,
        )
        self.machines = {spec.machine_id: Machine(spec, spec.floor) for spec in specs}
        self.pods: dict[str, Pod] = {}
        self.network_volumes = {volume.id: replace(volume, meter=Meter()) for volume in network_volumes}
        self.balance = Balance(balance, self._meters)
        self._seed = seed
        self._rng = random.Random(f"outbid:{seed}")  # noqa: S311 - reproducible, no secret
        self._places_rng = random.Random(f"places:{seed}")  # noqa: S311 - reproducible, no secret
        self._arrivals = itertools.count(1)
        self._stranger_ids = itertools.count(1)
        self._balance_plan = 0
        for volume in self.network_volumes.values():
            volume.meter.run(DISK, volume.per_hour, start)

    def advance_to(self, now: datetime) -> None:
        """Process everything due up to ``now``, each at its own instant. An earlier ``now`` changes nothing."""
        while due := self.agenda.pop_due(now):
            when, action = due
            self.now = max(self.now, when)
            action()
        self.now = max(self.now, now)

    def record(self, kind: str, **fields: object) -> None:
        self.journal.record(self.now, kind, **fields)

    # --- who is where

    def live(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.status is not Status.TERMINATED]

    def tenants(self, machine: Machine) -> list[Tenant]:
        """Everyone who holds GPUs of the machine, strangers and our pods."""
        strangers = [Tenant(each.id, each.gpu_count, each.bid, each.arrival) for each in machine.strangers.values()]
        ours = [
            Tenant(pod.key, pod.gpu_count, pod.bid, pod.arrival)
            for pod in self.live()
            if pod.machine_id == machine.spec.machine_id and pod.holds_gpus
        ]
        return strangers + ours

    def free_gpus(self, machine: Machine) -> int:
        return free_gpus(machine, self.tenants(machine))

    def lowest_bid_to_resume(self, pod: Pod) -> Decimal | None:
        """$/h per GPU on the pod's own machine; ``None`` when no bid would get its GPUs."""
        machine = self.machines[pod.machine_id]
        if machine.state is not HostState.ONLINE:
            return None
        return price_to_win(machine, self.tenants(machine), pod.order.gpu_count)

    def make_room(self, machine: Machine, gpu_count: int, bid: Decimal | None) -> bool:
        """Preempt the pods that have to go; whether the GPUs are free now."""
        evicted = evictions(machine, self.tenants(machine), gpu_count, bid)
        if evicted is None:
            return False
        for tenant in evicted:
            self._evict(machine, tenant, Cause.DISPLACED if bid is None else Cause.OUTBID)
        return True

    def _evict(self, machine: Machine, tenant: Tenant, cause: Cause) -> None:
        if machine.strangers.pop(tenant.key, None) is not None:
            self.record("stranger.outbid", stranger=tenant.key, machine_id=machine.spec.machine_id)
            return
        pod = next(pod for pod in self.live() if pod.key == tenant.key)
        if self._rng.random() < self.config.vanish_probability:
            self.lifecycle.vanish(pod, cause)
        else:
            self.lifecycle.stop(pod, cause)

    # --- money

    def check_funds(self, wish: str, cost_per_hr: Decimal, pod: Pod) -> None:
        """An hour's credit, and room beneath the spend limit, for a pod that is to start. Raises ``PodRefused``."""
        per_hour = cost_per_hr + to_decimal(pod.running_disk_rate, NANO)
        if self.balance.burn() - to_decimal(pod.meter.burn(), NANO) + per_hour > self.config.spend_limit:
            raise over_spend_limit(self.config.spend_limit)
        settled = self.balance.show(self.now)
        if settled < per_hour or settled <= 0:
            raise insufficient_balance(wish, per_hour, settled)

    def watch_balance(self) -> None:
        """Plan for the settlement that finds nothing left; an earlier plan is void."""
        self._balance_plan += 1
        plan = self._balance_plan
        if any(self._suffers_at_zero(pod) for pod in self.live()):
            exhausted_at = self.balance.exhausted_at(self.now)
            if exhausted_at is not None:
                self.agenda.at(exhausted_at, lambda: self._stop_all(plan))

    def set_balance(self, amount: Decimal) -> None:
        self.balance.set(amount, self.now)
        self.record("balance.set", amount=amount)
        self.watch_balance()

    def _stop_all(self, plan: int) -> None:
        """Nothing is left: pods without a network volume are terminated, their data gone; the others stop."""
        if plan != self._balance_plan:
            return
        self.record("balance.exhausted", balance=self.balance.show(self.now))
        for pod in self.live():
            if pod.order.network_volume_id is None:
                self.lifecycle.terminate(pod, Cause.OUT_OF_BALANCE)
            elif pod.status is Status.RUNNING:
                self.lifecycle.stop(pod, Cause.OUT_OF_BALANCE)

    def _suffers_at_zero(self, pod: Pod) -> bool:
        return pod.status is Status.RUNNING or pod.order.network_volume_id is None

    def _meters(self) -> Iterator[Meter]:
        yield from (pod.meter for pod in self.pods.values())
        yield from (volume.meter for volume in self.network_volumes.values())

    # --- strangers

    def add_stranger(self, kind: str, machine: Machine, gpu_count: int, bid: Decimal | None) -> Stranger | None:
        """``None`` when there is no room for another customer at that price."""
        below_floor = bid is not None and (machine.floor is None or bid < machine.floor)
        if machine.state is not HostState.ONLINE or below_floor or not self.make_room(machine, gpu_count, bid):
            self.record(f"{kind}.turned_away", machine_id=machine.spec.machine_id, bid=bid)
            return None
        stranger = Stranger(f"{kind}-{next(self._stranger_ids)}", gpu_count, bid, next(self._arrivals))
        machine.strangers[stranger.id] = stranger
        self.record(f"{kind}.arrived", stranger=stranger.id, machine_id=machine.spec.machine_id, bid=bid)
        return stranger

    def remove_stranger(self, stranger_id: str) -> bool:
        for machine in self.machines.values():
            if machine.strangers.pop(stranger_id, None) is not None:
                self.record("stranger.left", stranger=stranger_id, machine_id=machine.spec.machine_id)
                return True
        return False

    def set_floor(self, machine_id: str, price: Decimal | None) -> None:
        """``price`` is $/h per GPU; ``None``: no spot any more. Running pods stay."""
        self.machines[machine_id].floor = price
        self.record("floor.moved", machine_id=machine_id, price=price)

    def set_host(self, machine_id: str, state: HostState) -> None:
        """Raises ``PodRefused``: a vanished host never returns."""
        machine = self.machines[machine_id]
        if machine.state is HostState.VANISHED and state is not HostState.VANISHED:
            raise PodRefused(RefusalReason.INVALID, "a vanished host does not return")
        was_online, machine.state = machine.state is HostState.ONLINE, state
        self.record("host.changed", machine_id=machine_id, state=str(state))
        for pod in [pod for pod in self.live() if pod.machine_id == machine_id]:
            if was_online and state is not HostState.ONLINE:
                self.lifecycle.host_lost(pod)
            elif not was_online and state is HostState.ONLINE:
                self.lifecycle.host_returned(pod)
