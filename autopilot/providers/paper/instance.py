"""A simulated instance: pure values that change at an instant, with the spans of time that they bill for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

from autopilot.domain.instance import Charge, CostKind, Instance, InstanceStatus
from autopilot.domain.lease import Span
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.domain.time import split_by_day
from autopilot.providers.paper.agent import AgentMemory
from autopilot.providers.paper.meter import cost_of


@dataclass(frozen=True, slots=True)
class PaperInstance:
    """``bid`` and ``storage_rate`` are $/h; ``floor`` is the last one seen for its machine, None on demand."""

    instance_id: str
    label: str
    machine_id: str
    host_id: str
    gpu: str
    num_gpus: int
    ends_at: datetime | None
    query: OfferQuery
    """The search that shows its machine."""
    capacity_type: CapacityType
    bid: Decimal
    storage_rate: Decimal
    floor: Decimal | None
    ready_at: datetime
    """When what loads now will run."""
    agent: AgentMemory
    status: InstanceStatus = InstanceStatus.PROVISIONING
    boots: int = 0
    booted_at: datetime | None = None
    is_halted: bool = False
    """Stopped by us: no price brings it back."""
    start_queued: bool = False
    """A start was asked for while the price forbade it."""
    destroyed_at: datetime | None = None
    spans: tuple[Span, ...] = ()

    @property
    def is_alive(self) -> bool:
        return self.destroyed_at is None

    @property
    def is_outbid(self) -> bool:
        return self.floor is not None and self.bid < self.floor

    def as_created(self, at: datetime) -> PaperInstance:
        return replace(self, spans=(self._span(at),))

    def grow(self, now: datetime) -> PaperInstance:
        """What loads begins to run at its very instant, however late anybody looks."""
        if not self.is_alive or self.status is not InstanceStatus.PROVISIONING or now < self.ready_at:
            return self
        booted = replace(self, boots=self.boots + 1, booted_at=self.ready_at)
        return booted._become(InstanceStatus.RUNNING, self.ready_at)

    def reprice(self, now: datetime, load: timedelta, *, bid: Decimal, floor: Decimal | None) -> PaperInstance:
        """With this bid, against this floor. ``load``: from regaining its GPUs until it runs."""
        changed = replace(self.grow(now), bid=bid, floor=floor)
        if bid != self.bid and changed.status is InstanceStatus.RUNNING:
            changed = changed._become(InstanceStatus.RUNNING, now)
        return changed._judge(now, load)

    def halt(self, now: datetime, load: timedelta) -> PaperInstance:
        return replace(self.grow(now), is_halted=True, start_queued=False)._judge(now, load)

    def restart(self, now: datetime, load: timedelta) -> PaperInstance:
        """Loads, or waits for its price with ``start_queued``."""
        wanted = replace(self.grow(now), is_halted=False)
        return replace(wanted, start_queued=wanted.is_outbid)._judge(now, load)

    def destroy(self, at: datetime) -> PaperInstance:
        gone = self.grow(at)
        return replace(gone, destroyed_at=at, spans=gone._close(at))

    def show(self, provider: str) -> Instance:
        """As a market lists it."""
        is_stopped = self.status is InstanceStatus.STOPPED
        return Instance(
            provider=provider,
            instance_id=self.instance_id,
            label=self.label,
            machine_id=self.machine_id,
            host_id=self.host_id,
            capacity_type=self.capacity_type,
            status=self.status,
            intended_running=self.start_queued or not is_stopped,
            bid=self.bid,
            storage_rate=self.storage_rate,
            gpu=self.gpu,
            num_gpus=self.num_gpus,
            ends_at=self.ends_at,
            message=f"outbid: the floor is {self.floor}" if is_stopped and self.is_outbid else "",
            price_to_win=self.floor if is_stopped and self.is_outbid else None,
        )

    def charges(self, now: datetime) -> Iterator[Charge]:
        """What it has cost, by kind and UTC day."""
        totals: dict[tuple[date, CostKind], Decimal] = {}
        for span in self.spans:
            for day, start, end in split_by_day(span.started_at, span.ended_at or now):
                for kind, per_hour in (
                    (CostKind.COMPUTE, span.billed_rate),
                    (CostKind.STORAGE_RUNNING, span.storage_rate),
                ):
                    if per_hour:
                        totals[day, kind] = totals.get((day, kind), ZERO) + cost_of(per_hour, start, end)
        return (Charge(self.instance_id, day, kind, amount) for (day, kind), amount in totals.items())

    def _judge(self, now: datetime, load: timedelta) -> PaperInstance:
        """Stopped by its price or by us, or back from there."""
        may_run = not self.is_halted and not self.is_outbid
        if not may_run:
            return self if self.status is InstanceStatus.STOPPED else self._become(InstanceStatus.STOPPED, now)
        if self.status is not InstanceStatus.STOPPED:
            return self
        return replace(self, ready_at=now + load, start_queued=False)._become(InstanceStatus.PROVISIONING, now)

    def _become(self, status: InstanceStatus, at: datetime) -> PaperInstance:
        moved = replace(self, status=status)
        return replace(moved, spans=(*self._close(at), moved._span(at)))

    def _span(self, at: datetime) -> Span:
        is_running = self.status is InstanceStatus.RUNNING
        return Span(self.status, self.bid if is_running else ZERO, self.storage_rate, at)

    def _close(self, at: datetime) -> tuple[Span, ...]:
        return (*self.spans[:-1], replace(self.spans[-1], ended_at=max(at, self.spans[-1].started_at)))
