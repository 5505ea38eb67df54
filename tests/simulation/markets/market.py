"""A market of the simulated world: hosts with moving floors, machines that load, run, are outbid and come back.

What it is told over the wire is read by ``vastai`` and ``runpod``; here are its rules and its rng.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.lease import LeaseState
from autopilot_lab.sandbox.host_traits import StartStage, find_failure
from tests.simulation.ground.books import hourly_storage
from tests.simulation.ground.faults import between
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import REUSED_LABEL, VIRTUAL, Box, Echo, Host, Kept, Place, State
from tests.simulation.virtual.clock import at

MILLI = Decimal("0.001")
REUSED_AFTER_S = 90.0
THE_USERS_LABEL = "my-own-machine"
TAKEN_FOR_DESTROYED = frozenset({LeaseState.DESTROY_SENT, LeaseState.GONE})
RESTART_S = (20.0, 90.0)
LOADING_S = (60.0, 400.0)
FLOOR_MOVES_EVERY_S = 1800.0
FAILS_S = {StartStage.PULL: (2.0, 6.0), StartStage.CREATE: (40.0, 240.0)}
"""From the beginning of a start to its failure: before the image is there, and once it is."""
SLOWNESS = (2.0, 90.0)
ECHO_S = (16.0, 900.0)
"""For so long after we have left a list may show our bid."""
ECHO_KNOWN_S = 300.0
"""An echo is played of a bid that the daemon has seen in force so lately: it cannot know others for its own."""
TAKEN_AT_ONCE_S = (20.0, 90.0)
LIES = ("J4", "J5", "J6", "J7")
DAEMON_TAIL_S = 120.0
"""What a machine may need to end itself once its permit has run out."""


class SimulatedMarket:
    def __init__(
        self, ground: Ground, provider: str, hosts: list[Host], rng: random.Random, boot_agent: Callable[[Box], None]
    ) -> None:
        """``boot_agent``: called when a machine is up."""
        self.ground = ground
        self.provider = provider
        self.hosts = {host.machine_id: host for host in hosts}
        self.boxes: dict[str, Box] = {}
        """What exists now."""
        self.past: dict[str, Box] = {}
        self.kept: dict[str, Kept] = {}
        """What else the market has of the account's, by id: all of it is to go with its machine."""
        self.rented_last: Box | None = None
        self.is_dry = False
        """The account has no credit left."""
        self.rng = rng
        self._boot_agent = boot_agent
        self._place_rng = ground.rng(f"{provider}'s places")
        self._given = 0
        for host in hosts:
            host.mean_floor = host.floor
            ground.loop.after(rng.expovariate(1 / FLOOR_MOVES_EVERY_S), self._move_floor, host)

    # --- hosts

    def new_id(self) -> str:
        self._given += 1
        if self.provider == "vastai":
            return str(47_000_000 + self._given)
        return f"pod{self._given:06d}x"

    def has_room(self, host: Host) -> bool:
        held = sum(1 for box in self.boxes.values() if box.host is host and box.state is not State.STOPPED)
        return held < host.room

    def free_gpus(self, host: Host) -> list[int]:
        """Those that no machine of the account holds."""
        held = [box for box in self.boxes.values() if box.host is host and box.state is not State.STOPPED]
        taken = {box.gpu for box in held}
        return [gpu for gpu in range(host.room) if gpu not in taken][: max(host.room - len(held), 0)]

    def _move_floor(self, host: Host) -> None:
        if not (host.is_dear or self.ground.scenario.is_alone):
            pull = host.mean_floor * (Decimal(self.rng.randint(70, 135)) / 100)
            self.set_floor(host, ((host.floor + pull) / 2).quantize(MILLI))
        self.ground.loop.after(self.rng.expovariate(1 / FLOOR_MOVES_EVERY_S), self._move_floor, host)

    def least(self, host: Host) -> Decimal:
        """$/h: what a machine costs there without other bidders."""
        return host.floor

    def pays(self, box: Box) -> Decimal:
        """$/h of its GPUs, while they run."""
        return box.rate

    def set_floor(self, host: Host, floor: Decimal) -> None:
        """Those who bid less are stopped, those who bid more come back."""
        host.floor = max(floor, MILLI)
        for box in list(self.boxes.values()):
            if box.host is host:
                self.consider(box)

    def consider(self, box: Box) -> None:
        """Whether it may run at its bid and as it is meant to."""
        if box.state is State.OFFLINE or box.is_gone:
            return
        wins = not box.is_spot or box.rate >= box.host.to_win
        may_run = wins and box.wanted and not self.is_dry
        runs = box.state is not State.STOPPED
        if runs and not may_run:
            if not wins:
                box.host.beaten_bids.append((self.ground.now_s, box.rate))
            self.change(box, State.STOPPED)
        elif not runs and may_run and not box.stays_paused:
            self.boot(box, RESTART_S)

    def set_rival(self, host: Host, bid: Decimal | None, *, is_told: bool = True) -> None:
        """Somebody whom no list shows bids so much, $/h, for each machine of the host; None: he leaves."""
        host.rival, host.is_rival_told = bid, is_told
        for box in list(self.boxes.values()):
            if box.host is host:
                self.consider(box)

    def run_dry(self) -> None:
        """All machines of the account stop, and stay so until somebody starts them."""
        self.is_dry = True
        for box in list(self.boxes.values()):
            if box.state is not State.OFFLINE:
                self.consider(box)
                box.wanted = box.wanted and box.job_id is None

    def pay_in(self) -> None:
        self.is_dry = False
        for box in list(self.boxes.values()):
            self.consider(box)

    # --- machines

    def rent(
        self,
        host: Host,
        *,
        label: str,
        is_spot: bool,
        rate: Decimal,
        disk_gb: int,
        onstart: str,
        starts: bool = True,
        id_: str | None = None,
        gpu: int | None = None,
    ) -> Box:
        """``gpu``: which of the host's; None: any that is free."""
        box = self._make_box(host, label, is_spot, rate, disk_gb, onstart, starts, id_, gpu)
        self.ground.trace("rented", box.key, label, str(rate))
        if starts:
            self.boot(box, LOADING_S)
        else:
            self.change(box, State.STOPPED)
        if is_spot and rate < host.to_win:
            self.ground.loop.after(self.rng.uniform(*TAKEN_AT_ONCE_S), self.consider, box)
        return box

    def _make_box(
        self,
        host: Host,
        label: str,
        is_spot: bool,
        rate: Decimal,
        disk_gb: int,
        onstart: str,
        starts: bool,
        id_: str | None,
        gpu: int | None,
    ) -> Box:
        """With the parameters of ``rent``, and what its host has in store for it."""
        ground = self.ground
        if gpu is None:
            gpu = self._any_gpu(host)
        now_s = ground.now_s
        lease_id, job_id = ground.owner_of(label)
        meter_key = f"{self.provider}/{id_ or 'new'} again"
        if id_ is None:
            id_ = self.new_id()
            meter_key = f"{self.provider}/{id_}"
        box = Box(
            id=id_,
            provider=self.provider,
            label=label,
            host=host,
            is_spot=is_spot,
            rate=rate,
            highest_rate=rate,
            disk_gb=disk_gb,
            storage_rate=hourly_storage(host.storage_price, disk_gb),
            onstart=onstart,
            created_s=now_s,
            meter=ground.books.open(meter_key, job_id, now_s),
            job_id=job_id,
            lease_id=lease_id,
            wanted=starts,
            gpu=gpu,
            rated_s=now_s,
        )
        self.boxes[box.id] = self.rented_last = box
        box.permit_until_s = now_s + ground.permit_ttl_s
        box.is_late = ground.is_landing_late
        if ground.faults.hits("B2"):
            box.visible_from_s = now_s + self.rng.uniform(0, 60)
        box.stays_paused = ground.faults.hits("E4")
        if ground.faults.hits("E7"):
            box.is_broken = self.rng.choice(("fails", "hangs", "crawls", "never ready"))
        if ground.faults.hits("K2"):
            box.slowness = between(ground.faults.rng("K2"), *SLOWNESS)
        box.hostile = frozenset(row for row in LIES if ground.faults.hits(row))
        box.is_echoed = is_spot and self.provider == "vastai" and ground.faults.hits("E12")
        if host.places:
            self._settle_place(box, host.places[gpu])
        return box

    def _any_gpu(self, host: Host) -> int:
        """Any that is free. Where hosts differ, the market chooses one at each launch."""
        free = self.free_gpus(host) if host.room > 1 else [0]
        return self.draw_among(free or [0]) if host.places else next(iter(free), 0)

    def draw_among(self, gpus: list[int]) -> int:
        return self._place_rng.choice(gpus)

    def _settle_place(self, box: Box, place: Place) -> None:
        box.place, box.slowness = place, max(box.slowness, place.traits.slowness)
        if box.job_id is not None:
            box.failure = find_failure(place.traits, self.ground.spec_of(box.job_id).image)
        self.ground.trace("on", box.key, place.id, box.failure.stage if box.failure else place.traits.truth.boots)

    def boot(self, box: Box, takes_s: tuple[float, float]) -> None:
        self.change(box, State.LOADING)
        box.started_s = self.ground.now_s
        if self.ground.faults.hits("E2"):
            box.up_at_s = None
            return
        box.up_at_s = self.ground.now_s + self.rng.uniform(*takes_s)
        if self._never_comes_up(box):
            box.up_at_s = None
            return
        self.ground.loop.after(box.up_at_s - self.ground.now_s, self._up, box, box.started_s)

    def _never_comes_up(self, box: Box) -> bool:
        """What fails inside a virtual machine is no matter of its market, which has it running."""
        failure = box.failure
        if failure is None or (failure.stage is not StartStage.LOADING and self.provider in VIRTUAL):
            return False
        if failure.stage is not StartStage.LOADING:
            in_s = self.rng.uniform(*FAILS_S[failure.stage])
            self.ground.loop.after(in_s, self._fail_start, box, box.started_s)
        return True

    def _fail_start(self, box: Box, started_s: float) -> None:
        if box.state is not State.LOADING or box.started_s != started_s or box.is_gone or box.failure is None:
            return
        box.words = box.failure.words
        self.ground.trace("start failed", box.key, box.failure.stage)
        self.end_failed_start(box)

    def end_failed_start(self, box: Box) -> None:
        """What the market does with a machine whose container cannot be had. Most leave it as it is."""

    def _up(self, box: Box, started_s: float) -> None:
        if box.state is State.LOADING and box.started_s == started_s and not box.is_gone:
            self.change(box, State.RUNNING)

    def change(self, box: Box, state: State) -> None:
        """To another state, with what follows for its agent and its bill."""
        box.state = state
        if state is State.RUNNING:
            self._boot_agent(box)
        elif box.agent is not None and state is not State.OFFLINE:
            box.agent.power_off()
            box.agent = None
        self.rebill(box)
        self.ground.trace("state", box.key, state.value)

    def destroy(self, box: Box) -> None:
        box.is_gone, box.gone_s = True, self.ground.now_s
        self._leave_echo(box)
        if box.agent is not None:
            box.agent.power_off()
            box.agent = None
        self.rebill(box)
        del self.boxes[box.id]
        self.past[box.id] = box
        self.ground.trace("destroyed", box.key)

    def _leave_echo(self, box: Box) -> None:
        """The list goes on showing the bid of a machine that we have just left."""
        lease = self.ground.committed.get("leases", {}).get(box.lease_id)
        if not box.is_echoed or lease is None or lease.instance_id != box.id or box.is_not_as_asked:
            return
        now_s, seen_at = self.ground.now_s, lease.observed.seen_at
        is_known = lease.was_listed and seen_at is not None and at(now_s) - seen_at < timedelta(seconds=ECHO_KNOWN_S)
        if is_known and now_s - box.rated_s >= ECHO_KNOWN_S:
            box.host.echo = Echo(box.rate, box.gpu, now_s, now_s + self.rng.uniform(*ECHO_S))

    def reuse(self, gone: Box) -> None:
        """Somebody else's machine gets the id, once the daemon takes ours for destroyed."""
        lease = self.ground.committed.get("leases", {}).get(gone.lease_id)
        if lease is None or lease.instance_id != gone.id or lease.state not in TAKEN_FOR_DESTROYED:
            return
        del self.past[gone.id]
        self.past[f"{gone.id} before"] = gone
        self.rent_to_others(gone.host, REUSED_LABEL, id_=gone.id)

    def rent_to_others(self, host: Host, label: str, *, id_: str | None = None) -> Box:
        """On demand, on our account, and none of ours."""
        return self.rent(host, label=label, is_spot=False, rate=host.on_demand, disk_gb=20, onstart="", id_=id_)

    def bring_to_life(self, box: Box) -> None:
        """What was destroyed is there again, and runs."""
        if self.ground.faults.is_quiet or self.past.get(box.id) is not box:
            return
        del self.past[box.id]
        self.boxes[box.id] = box
        box.is_gone, box.wanted, box.back_s = False, True, self.ground.now_s
        self.ground.trace("undone", box.key)
        self.boot(box, RESTART_S)

    def billed(self) -> Iterator[Box]:
        """All that is on the account's bill; what got an id again is on somebody else's."""
        known = (*self.past.values(), *self.boxes.values())
        return (box for box in known if box.label != REUSED_LABEL)

    def relabel(self, box: Box) -> None:
        """The user makes it his own, and all that is kept for it: from now on it is none of the daemon's, and what it
        costs is no job's."""
        box.label, box.relabelled_s = THE_USERS_LABEL, self.ground.now_s
        for id_, kept in self.kept.items():
            if kept.box_id == box.id:
                self.kept[id_] = replace(kept, label=THE_USERS_LABEL)
        self.ground.trace("relabelled", box.key)
        self.rebill(box)

    def set_bid(self, box: Box, bid: Decimal) -> None:
        if bid != box.rate:
            box.rated_s = self.ground.now_s
        box.rate = bid
        box.highest_rate = max(box.highest_rate, bid)
        self.rebill(box)
        self.consider(box)

    def stop(self, box: Box) -> None:
        box.wanted = False
        self.consider(box)

    def start(self, box: Box) -> None:
        box.wanted = True
        self.consider(box)

    def needs(self, box: Box, kept_id: str) -> bool:
        """Whether the machine cannot do without that which the market keeps."""
        return False

    def power_off(self, box: Box) -> None:
        """What runs on the machine has switched it off. Its market does not mind, and bills it."""

    def vanish(self, box: Box, for_s: float) -> None:
        """Its host is cut off; the run on it goes on, and nothing bills until it is back."""
        if box.state is not State.RUNNING:
            return
        self.change(box, State.OFFLINE)
        box.troubled_s = self.ground.now_s + for_s
        self.ground.loop.after(for_s, self.bring_back, box)

    def vanish_with_host(self, box: Box, for_s: float) -> None:
        """And with it all others on the same one."""
        for other in list(self.boxes.values()):
            if other is box or (other.host is box.host and self.provider == "vastai"):
                self.vanish(other, for_s)

    def bring_back(self, box: Box) -> None:
        if not box.is_gone and box.state is State.OFFLINE:
            box.state = State.RUNNING
            self.rebill(box)
            self.ground.trace("returned", box.key)
            self.consider(box)

    # --- bills

    def rebill(self, box: Box) -> None:
        compute = box.rate if box.computes or self.bills_loading(box) else Decimal(0)
        disk = Decimal(0) if box.is_gone or box.state is State.OFFLINE else box.storage_rate
        self.ground.books.change(box.meter, self.ground.now_s, compute, disk, self.excuse_for(box))

    def bills_loading(self, box: Box) -> bool:
        """Whether its GPU is billed before anything runs on it."""
        return False

    def excuse_for(self, box: Box) -> str:
        if box.destroy_sent_s is not None:
            return "destroy_not_carried_out"
        if box.relabelled_s is not None:
            return "relabelled"
        if box.is_late:
            return "landed_late"
        if self.ground.is_daemon_out and self.ground.now_s > self.alone_until_s(box):
            return "none_could_act"
        return ""

    def alone_until_s(self, box: Box) -> float:
        """Until when an unwatched machine may bill, because it can then end its bill itself."""
        return box.permit_until_s + DAEMON_TAIL_S

    def visible(self) -> Iterator[Box]:
        """What an honest list shows now."""
        now_s = self.ground.now_s
        return (box for box in self.boxes.values() if box.visible_from_s <= now_s)
