"""Actions and decisions: what the policy answers. Values only; the engine turns them into intents and calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Slot
from autopilot.domain.money import Number
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class Note:
    """Numbers behind a decision, rendered to words only when somebody reads them."""

    topic: str
    numbers: tuple[tuple[str, Number], ...]


@dataclass(frozen=True, slots=True)
class Acquire:
    """Rent ``offer`` for the slot. ``bid``: the bid on spot, the price on demand ($/h, whole chunk)."""

    slot: Slot
    offer: Offer
    capacity_type: CapacityType
    bid: Decimal
    reason: Reason


@dataclass(frozen=True, slots=True)
class ChangeBid:
    lease_id: str
    bid: Decimal
    reason: Reason


@dataclass(frozen=True, slots=True)
class Start:
    """Start a machine that the market stopped, at the bid that it has."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Stop:
    """Have the market stop a machine that is to start again, its disk kept. Only a certification wants that."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class SaveAndStop:
    """Tell the agent on this lease to save a last checkpoint and stop its run."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Promote:
    """Make the lease in ``next`` the one that runs, under a new run epoch."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Have the lease whose run has ended run the command once more, under a new run epoch."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the lease of a job that is over: for its owner to look into the machine, or (``PROVING``) to see it destroy
    itself at the end of its permit."""

    lease_id: str
    until: datetime
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Destroy the lease's instance, confirmed."""

    lease_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Move the job itself: parked, cancelled, failed."""

    status: JobStatus
    reason: Reason
    numbers: tuple[tuple[str, Number], ...] = field(default=(), compare=False)
    """What its event tells of it."""


Action = Acquire | ChangeBid | Start | Stop | SaveAndStop | Promote | RunAgain | Hold | Release | SetStatus


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do for one job now, and why."""

    actions: tuple[Action, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Veto:
    """An action that the guard refused, and why, in numbers."""

    action: Action
    reason: Reason
    numbers: tuple[tuple[str, Number], ...] = ()
