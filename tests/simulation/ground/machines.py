"""Hosts and the machines rented on them, as they really are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol

from autopilot.agent.shipped.machine import Machine
from autopilot_lab.sandbox.host_traits import NO_NETWORK_TRIES_S, HostTraits, StartFailure
from tests.simulation.ground.books import Meter

VIRTUAL = frozenset({"mithril", "nebius"})
"""Markets whose machines are virtual."""
STAYING = frozenset({"mithril"})
"""Those whose machines never switch themselves off, for that would not end their bill."""
UNBILLED = frozenset({"nebius"})
"""Markets that have no bill."""
REUSED_LABEL = "others-again"
"""Of a machine that got an id of ours again."""


class State(Enum):
    LOADING = "loading"
    RUNNING = "running"
    STOPPED = "stopped"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Echo:
    """A bid of ours that the list shows as the floor of a GPU although we have left it."""

    bid: Decimal
    """$/h."""
    gpu: int
    began_s: float
    ends_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """A host behind what a market offers: what it is called there, and what it is like."""

    id: str
    traits: HostTraits


@dataclass(slots=True)
class Host:
    """Where machines can be rented. ``room``: how many at once."""

    machine_id: str
    host_id: str
    gpu: str
    floor: Decimal
    on_demand: Decimal
    storage_price: Decimal
    """$/GB-month."""
    upload_price: Decimal
    """$/GB."""
    room: int = 1
    shown_floor: Decimal | float | None = None
    """What the market says that the floor is, when that is not true; a float for what is no price."""
    mean_floor: Decimal = Decimal(0)
    is_dear: bool = False
    rival: Decimal | None = None
    """$/h: what somebody bids whom no list shows."""
    is_rival_told: bool = True
    """The notice of an outbid says what that is."""
    echo: Echo | None = None
    told_floors: deque[tuple[float, Decimal]] = field(default_factory=lambda: deque(maxlen=20))
    """(when the list last showed it, $/h), oldest first; echoes of ours apart."""
    beaten_bids: deque[tuple[float, Decimal]] = field(default_factory=lambda: deque(maxlen=20))
    """(when, $/h): ours that did not win here."""
    places: tuple[Place, ...] = ()
    """One for each machine that it has room for, where hosts differ; none where all are sound."""

    @property
    def to_win(self) -> Decimal:
        """$/h: the least bid with which a machine runs here."""
        return self.floor if self.rival is None else max(self.floor, self.rival)


class Agent(Protocol):
    """Of the program on a machine, what its market and the checkers see."""

    machine: Machine
    is_on: bool

    @property
    def is_at_work(self) -> bool: ...

    def step(self) -> int: ...

    def power_off(self) -> None: ...

    def shut_down(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What a market keeps or bills for a machine beside the machine itself: a disk, a pricing policy, a key."""

    box_id: str
    label: str
    what: str


@dataclass(slots=True)
class Disk:
    """What outlives a boot: the agent's memory, the job's files, the newest snapshot."""

    memory: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    """Of the files that the job left or that were restored."""
    snapshot: tuple[int, int, int] | None = None
    """(run epoch, number, step) of the newest one here."""
    is_uploaded: bool = False
    sent: tuple[int, int, int] | None = None
    """As ``snapshot``, of the newest that this machine has in the store."""
    owner: str | None = None
    """The job whose files they are; None: there are none."""


@dataclass(slots=True)
class Box:
    """One rented machine. Money is $/h; times are seconds of the run."""

    id: str
    provider: str
    label: str
    host: Host
    is_spot: bool
    rate: Decimal
    """The bid on spot, the price on demand."""
    disk_gb: int
    storage_rate: Decimal
    onstart: str
    created_s: float
    meter: Meter
    job_id: str | None
    lease_id: str | None
    visible_from_s: float = 0.0
    """The list shows it from then on."""
    state: State = State.LOADING
    wanted: bool = True
    """Meant to run."""
    started_s: float = 0.0
    up_at_s: float | None = None
    """When this start is through loading; None: never."""
    stays_paused: bool = False
    shown: str | None = None
    """A state that the market shows instead of the true one."""
    is_gone: bool = False
    gone_s: float = 0.0
    back_s: float = 0.0
    """When its destroy was undone."""
    destroy_sent_s: float | None = None
    """When we first told the market to destroy it."""
    is_reported: bool = False
    """An answer that names it was given."""
    is_not_as_asked: bool = False
    """Dearer, or of another kind."""
    is_late: bool = False
    """It landed when it was no longer expected."""
    relabelled_s: float | None = None
    """When its user made it his own."""
    shown_as_others_s: float | None = None
    """Of a machine that is not ours: since when the daemon has a list that surely says so."""
    is_suspended: bool = False
    is_broken: str = ""
    """How its work goes wrong: fails, hangs, crawls, never ready."""
    slowness: float = 1.0
    """How much longer than usual its transfers take."""
    permit_until_s: float = 0.0
    """Of the newest permit that its agent has taken."""
    gpu: int = 0
    """Which of its host's."""
    is_echoed: bool = False
    """The list shows its bid as the floor of its GPU."""
    highest_rate: Decimal = Decimal(0)
    """$/h: the most that it has had."""
    rated_s: float = 0.0
    """Since when it has its rate."""
    hostile: frozenset[str] = frozenset()
    """Rows of the catalogue by which its host lies."""
    troubled_s: float = 0.0
    """When it was last cut off or suspended."""
    signal: str | None = None
    """What the market's file of notices on it says; None: there is no such file."""
    was_shown_wrongly: bool = False
    """Its market has told another state of it than the true one."""
    shown_otherwise_s: float = 0.0
    """When its market last told such a state."""
    unseen_rise: Decimal = Decimal(0)
    """Dollars by which the price of an auction may have risen before anybody could see it."""
    failures: list[tuple[str | None, float]] = field(default_factory=list)
    """(job, seconds that it took) of the runs in a row that have failed here."""
    disk: Disk = field(default_factory=Disk)
    agent: Agent | None = None
    place: Place | None = None
    failure: StartFailure | None = None
    """What each start of the job's image comes to there."""
    words: str = ""
    """Of the container runtime, since a start has failed."""

    @property
    def key(self) -> str:
        return f"{self.provider}/{self.id}"

    @property
    def is_dud(self) -> bool:
        """No agent of the job's image is ever heard from where it is."""
        return self.failure is not None or (self.place is not None and not self.place.traits.has_network)

    def tries_s(self, now_s: float) -> list[float]:
        """When the start text tried in vain to reach anything, and wrote so into the container's log."""
        if self.failure is not None or not self.is_dud or self.state is not State.RUNNING or self.up_at_s is None:
            return []
        return [self.up_at_s + after_s for after_s in NO_NETWORK_TRIES_S if self.up_at_s + after_s <= now_s]

    @property
    def computes(self) -> bool:
        """Its GPU is billed."""
        return self.state is State.RUNNING and not self.is_gone
