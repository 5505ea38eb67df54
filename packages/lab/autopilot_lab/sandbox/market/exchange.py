"""The state of the market and how it settles: auctions, offer ids, credit, and what listings show.

Everything happens at ``now``, which only ``advance_to`` moves. A bid that lost its GPUs to somebody else waits and
resumes by itself; one that its owner stopped does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from autopilot.certify.job import LARGE_IMAGE, LARGE_IMAGE_GB
from autopilot_lab.sandbox.market.account import PrepaidCredit
from autopilot_lab.sandbox.market.agenda import Agenda
from autopilot_lab.sandbox.market.auction import allocate
from autopilot_lab.sandbox.market.instances import Cause, Contract
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.lifecycle import Containers, Lifecycle, NoContainers, Timings
from autopilot_lab.sandbox.market.machines import Chunk, HostState, Machine, MachineSpec
from autopilot_lab.sandbox.market.metering import DOWN
from autopilot_lab.sandbox.market.quotes import (
    OUTBID_STEP,
    PRICE_UNIT,
    claim_of,
    claims_on,
    clearing_price,
    free_of_on_demand,
)

IMAGE_GB = {LARGE_IMAGE: Fraction(LARGE_IMAGE_GB) + Fraction(4, 10)}
"""Sizes of images whose pull is billed."""


class NoSuchAsk(Exception):
    """The offer is stale or taken."""


class NoSuchInstance(Exception):
    pass


@dataclass(frozen=True)
class Ask:
    """One chunk on offer. Prices are $/h for the whole chunk."""

    offer_id: int
    machine: Machine
    chunk: Chunk
    min_bid: Decimal
    on_demand: Decimal
    rentable: bool
    """Free of on-demand customers: a bid may still lose against other bids."""


class Exchange:
    def __init__(
        self,
        specs: Iterable[MachineSpec],
        start: datetime,
        *,
        seed: int = 1,
        credit: Decimal = Decimal(100),
        timings: Timings | None = None,
        clearing_is_visible: bool = False,
        containers: Containers | None = None,
    ) -> None:
        self.now = start
        self.timings = timings or Timings()
        self.agenda = Agenda()
        self.journal = Journal()
        self.broken: set[str] = set()
        """Claims of ``providers.vastai.claims`` that this market breaks, by their ids."""
        self.lifecycle = Lifecycle(
            self.timings,
            self.agenda,
            self.journal,
            containers or NoContainers(),
            lambda: self.now,
            self.watch_credit,
            lambda instance: self.machines[instance.machine_id].floor_of(instance.gpu_ids),
            self.broken,
            self._bill_pull,
            lambda instance: self.machines[instance.machine_id].spec.traits,
        )
        self.machines = {spec.machine_id: Machine(spec, spec.floor) for spec in specs}
        self.instances: dict[int, Contract] = {}
        self._seed = seed
        self.account = PrepaidCredit(credit, lambda: (instance.meter for instance in self.instances.values()))
        self._clearing_is_visible = clearing_is_visible
        self.echo_lasts_s = 0.0
        self.tops_up = False
        """Whether the account answers that a card pays in by itself. None does."""
        """How long listings go on to show a bid of ours on GPUs that we have given back."""
        self._offer_ids = itertools.count(29_332_107)
        self._instance_ids = itertools.count(47_848_147)
        self._stranger_ids = itertools.count(1)
        self._arrivals = itertools.count(1)
        self._credit_plan = 0
        for machine in self.machines.values():
            self.reissue(machine, machine.spec.gpu_ids)

    # --- time

    def advance_to(self, now: datetime) -> None:
        """Process everything due up to ``now``, each at its own instant. An earlier ``now`` changes nothing."""
        while due := self.agenda.pop_due(now):
            when, action = due
            self.now = max(self.now, when)
            action()
        self.now = max(self.now, now)

    # --- what customers see

    @property
    def credit(self) -> Decimal:
        return self.account.credit(self.now)

    def live(self) -> list[Contract]:
        return [instance for instance in self.instances.values() if instance.destroyed_at is None]

    def get(self, instance_id: int) -> Contract:
        """Raises ``NoSuchInstance`` for one that never was or is destroyed."""
        instance = self.instances.get(instance_id)
        if instance is None or instance.destroyed_at is not None:
            raise NoSuchInstance(instance_id)
        return instance

    def actual_status(self, instance: Contract) -> str | None:
        online = self.machines[instance.machine_id].state is HostState.ONLINE
        return instance.actual if online else "offline"

    def asks(self, fits: Callable[[MachineSpec, int], bool] = lambda spec, count: True) -> Iterator[Ask]:
        """Every chunk of every machine that is online, rentable or not. ``fits``: so many of its GPUs."""
        for machine in self.machines.values():
            if machine.state is HostState.ONLINE:
                for chunk, offer_id in machine.offer_ids.items():
                    if fits(machine.spec, len(chunk)):
                        yield Ask(
                            offer_id,
                            machine,
                            chunk,
                            self._min_bid(machine, chunk),
                            machine.on_demand_of(chunk),
                            free_of_on_demand(machine, self.tenants_of(machine), chunk),
                        )

    def echoed_bid(self, instance: Contract) -> Decimal:
        """The instance's price as the market shows it: three decimals, and late."""
        seen = instance.price_at(self.now - timedelta(seconds=self.timings.bid_echo_lag_s))
        shown = seen if seen is not None else self.machines[instance.machine_id].floor_of(instance.gpu_ids)
        return shown.quantize(OUTBID_STEP, ROUND_HALF_EVEN)

    # --- settling

    def _bill_pull(self, instance: Contract) -> None:
        """The bytes of its image, as traffic. Of images whose size the sandbox does not know nothing is billed."""
        size_gb = IMAGE_GB.get(instance.order.image)
        if size_gb is not None and "pull-is-billed" not in self.broken:
            price = Fraction(self.machines[instance.machine_id].spec.inet_down_cost)
            instance.meter.transfer(DOWN, size_gb, price, self.now)

    def settle(self, machine: Machine) -> None:
        if machine.state is not HostState.ONLINE:
            return
        claims = claims_on(machine, self.tenants_of(machine))
        winners = allocate(claims, self._least_winning(machine))
        for stranger in machine.strangers.values():
            holds = stranger.id in winners
            if holds is not stranger.holding:
                stranger.holding = holds
                self.record("stranger.started" if holds else "stranger.paused", stranger=stranger.id)
                self.reissue(machine, stranger.gpu_ids)
        for instance in self.tenants_of(machine):
            if instance.holding and instance.key not in winners:
                displaced = any(
                    claim.price_per_gpu is None and not claim.gpu_ids.isdisjoint(instance.gpu_ids)
                    for claim in claims
                    if claim.key in winners
                )
                cause = Cause.DISPLACED if displaced else Cause.OUTBID
                self.lifecycle.release(instance, cause, self.price_to_win(machine, instance))
                self.reissue(machine, instance.gpu_ids)
                if "outbid-pauses" in self.broken:
                    self.lifecycle.destroy(instance, "market")
                elif "raise-resumes" in self.broken:
                    instance.wants_gpus = False
        for instance in self.tenants_of(machine):
            if not instance.holding and instance.key in winners:
                self.lifecycle.seize(instance)
                self.reissue(machine, instance.gpu_ids)

    def would_win(self, machine: Machine, instance: Contract) -> bool:
        claims = [*claims_on(machine, self.tenants_of(machine)), claim_of(instance)]
        return not instance.order.must_lose and instance.key in allocate(claims, self._least_winning(machine))

    def _least_winning(self, machine: Machine) -> Fraction:
        """$/h per GPU: the floor itself, or two tenths of a cent more where that claim is broken."""
        more = Fraction(2 * OUTBID_STEP) if "floor-bid-wins" in self.broken else Fraction(0)
        return Fraction(machine.floor) + more

    def _min_bid(self, machine: Machine, chunk: Chunk) -> Decimal:
        """What the listing shows: our own bid on a chunk that we hold, else the floor (or what wins, if visible)."""
        echoes = () if "floor-echoes-own-bid" in self.broken else self._echoing(machine)
        ours = [i for i in echoes if not set(chunk).isdisjoint(i.gpu_ids)]
        if ours:
            return max(self.echoed_bid(i) * len(chunk) / len(i.gpu_ids) for i in ours).quantize(OUTBID_STEP)
        if self._clearing_is_visible:
            return clearing_price(machine, self.tenants_of(machine), chunk)
        return machine.floor_of(chunk).quantize(PRICE_UNIT)

    def _echoing(self, machine: Machine) -> list[Contract]:
        """Bids of ours that listings show: those that hold their GPUs, and for a while those that held them last."""
        since = self.now - timedelta(seconds=self.echo_lasts_s)
        bids = (i for i in self.instances.values() if i.machine_id == machine.spec.machine_id and i.is_bid)
        return [i for i in bids if i.holding or (i.boots > 0 and i.destroyed_at is not None and i.destroyed_at > since)]

    def price_to_win(self, machine: Machine, instance: Contract) -> Decimal:
        others = [other for other in self.tenants_of(machine) if other is not instance]
        return clearing_price(machine, others, instance.gpu_ids)

    def _stop_all(self, plan: int) -> None:
        """The credit is gone: everything stops, nothing is destroyed."""
        if plan != self._credit_plan:
            return
        self.record("credit.exhausted", credit=self.credit)
        for instance in self.live():
            if instance.wants_gpus:
                instance.wants_gpus = False
                if instance.holding:
                    self.lifecycle.release(instance, Cause.OUT_OF_CREDIT)
                else:
                    self.lifecycle.park(instance, Cause.OUT_OF_CREDIT)
        for machine in self.machines.values():
            self.settle(machine)

    def watch_credit(self) -> None:
        """Plan the stop for the very moment the credit is gone; an earlier plan is void."""
        self._credit_plan += 1
        plan = self._credit_plan
        if any(instance.wants_gpus for instance in self.live()):
            empty_at = self.account.empty_at(self.now)
            if empty_at is not None:
                self.agenda.at(empty_at, lambda: self._stop_all(plan))

    def tenants_of(self, machine: Machine) -> list[Contract]:
        return [instance for instance in self.live() if instance.machine_id == machine.spec.machine_id]

    def find_offer(self, offer_id: int) -> tuple[Machine, Chunk]:
        for machine in self.machines.values():
            if machine.state is HostState.ONLINE:
                for chunk, known_id in machine.offer_ids.items():
                    if known_id == offer_id:
                        return machine, chunk
        raise NoSuchAsk(offer_id)

    def reissue(self, machine: Machine, gpu_ids: Chunk) -> None:
        """Offer ids change whenever a chunk that touches these GPUs is rented or given back."""
        for chunk in machine.spec.chunks():
            if not set(chunk).isdisjoint(gpu_ids):
                machine.offer_ids[chunk] = next(self._offer_ids)

    def record(self, kind: str, **fields: object) -> None:
        self.journal.record(self.now, kind, **fields)
