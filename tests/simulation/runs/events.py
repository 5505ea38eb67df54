"""What befalls the world by itself: kills, hosts that vanish, prices that jump, users who interfere."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.job import JobStatus
from tests.simulation.ground.faults import Burst
from tests.simulation.ground.machines import Box, State
from tests.simulation.ground.scenario import GiveBack, Move
from tests.simulation.markets.auction import AuctionMarket
from tests.simulation.markets.capped import CappedMarket
from tests.simulation.markets.market import MILLI, SimulatedMarket
from tests.simulation.runs.world import World

WRONG_STATES = ("exited", "offline", "unknown", "null", "loading")
FLAPPING_S = 30.0
LOOKS_EVERY_S = 30.0
OTHERS_STAY_S = 600.0, 14_400.0
"""The shortest and the longest."""
ORPHAN = "ap1.simulate.01SIM999999999999999999999"
"""A label of this installation that no lease has."""


class Events:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.event_rng

    def schedule(self, until_s: float) -> None:
        acts = {
            "C6": self._end_unseen,
            "E1": self._show_wrongly,
            "E3": self._lose_a_host,
            "E5": self._outbid_all,
            "E6": self._jump_prices,
            "E8": self._interfere,
            "E9": self._restore,
            "E11": self._bid_unseen,
            "E13": self._run_dry,
            "E16": self._give_back,
            "F1": self._kill,
            "F2": self._pause,
            "H2": self._suspend,
        }
        if any(isinstance(market, AuctionMarket) for market in self.world.markets.values()):
            acts |= {"E17": self._relocate, "E18": self._warn_for_nothing}
        if "nebius" in self.world.markets:
            acts |= {"E19": self._take_hardware}
        for row, act in acts.items():
            for event in self.world.faults.schedule(row, until_s):
                self.world.loop.after(event.begins_s, act, event)
        for moment_s, name in self.world.scenario.acts:
            self.world.loop.after(moment_s, ACTS[name], self.world)

    def _begins(self, event: Burst) -> bool:
        if self.world.faults.is_quiet:
            return False
        self.world.faults.counts[event.row] += 1
        return True

    def _one(self, state: State | None = None) -> Box | None:
        ours = [box for box in self.world.boxes() if box.job_id and state in (None, box.state)]
        return self.rng.choice(ours) if ours else None

    def _show_wrongly(self, event: Burst) -> None:
        box = self._one()
        if box is not None and self._begins(event):
            box.shown = self.rng.choice(WRONG_STATES)
            self.world.loop.after(event.ends_s - event.begins_s, setattr, box, "shown", None)

    def _lose_a_host(self, event: Burst) -> None:
        box = self._one(State.RUNNING)
        if box is not None and self._begins(event):
            self.world.markets[box.provider].vanish_with_host(box, event.ends_s - event.begins_s)

    def _end_unseen(self, event: Burst) -> None:
        """A market's machines cannot be listed, and in that time one of them ends, or is paused and comes back."""
        box = self._one(State.RUNNING)
        if box is None or self.world.is_unlisted(box.provider) or not self._begins(event):
            return
        market, lasts_s = self.world.markets[box.provider], event.ends_s - event.begins_s
        self.world.unlisted_until_s[box.provider] = event.ends_s
        ends_s = lasts_s * self.rng.uniform(0.1, 0.6)
        if self.rng.random() < 0.5:
            self.world.loop.after(ends_s, self._ended_by_market, box)
            return

        def pause() -> None:
            if box.is_spot and box.host.rival is None and not self.world.faults.is_quiet:
                market.set_rival(box.host, box.rate * 2, is_told=False)
                self.world.loop.after(lasts_s * 0.3, market.set_rival, box.host, None)

        self.world.loop.after(ends_s, pause)

    def _ended_by_market(self, box: Box) -> None:
        if not self.world.faults.is_quiet:
            self.world.trace("ended by its market", box.key)
            _ended_by_market(self.world, box)

    def _bid_unseen(self, event: Burst) -> None:
        """A rival, mostly on a machine that we hold by a bid."""
        market = self.world.markets.get("vastai")
        if market is None:
            return
        held = [box.host for box in market.boxes.values() if box.is_spot and box.job_id]
        host = self.rng.choice(held or list(market.hosts.values()))
        if host.rival is not None or not self._begins(event):
            return
        bid = (host.floor * Decimal(self.rng.randint(105, 190)) / 100).quantize(MILLI)
        market.set_rival(host, bid, is_told=self.rng.random() < 0.5)
        self.world.loop.after(event.ends_s - event.begins_s, market.set_rival, host, None)

    def _run_dry(self, event: Burst) -> None:
        market = self.world.markets[self.rng.choice(self.world.scenario.markets)]
        if not market.is_dry and self._begins(event):
            market.run_dry()
            self.world.loop.after(event.ends_s - event.begins_s, market.pay_in)

    def _give_back(self, event: Burst) -> None:
        committed = self.world.committed
        live = (committed["leases"][id_] for id_ in committed.get("live_leases", {}))
        held = sorted(lease.job_id for lease in live if lease.held_until is not None and lease.is_wanted)
        if held and self._begins(event):
            job_id = self.rng.choice(held)
            is_cancel = self.rng.random() < 0.5
            self.world.wish(Move(job_id, JobStatus.CANCELLING) if is_cancel else GiveBack(job_id))

    def _auctioned(self) -> Box | None:
        held = [box for box in self.world.boxes() if box.job_id and isinstance(self._market_of(box), AuctionMarket)]
        running = [box for box in held if box.state is State.RUNNING]
        return self.rng.choice(running) if running else None

    def _market_of(self, box: Box) -> SimulatedMarket:
        return self.world.markets[box.provider]

    def _relocate(self, event: Burst) -> None:
        box = self._auctioned()
        if box is None or self.world.faults.is_quiet:
            return
        market = self._market_of(box)
        assert isinstance(market, AuctionMarket)
        if market.relocate(box):
            self._begins(event)

    def _warn_for_nothing(self, event: Burst) -> None:
        """Somebody bids more, and leaves before the machine is taken away."""
        box = self._auctioned()
        if box is None or box.host.rival is not None or not self._begins(event):
            return
        market = self._market_of(box)
        market.set_rival(box.host, box.rate * 2)
        self.world.loop.after(event.ends_s - event.begins_s, market.set_rival, box.host, None)

    def _take_hardware(self, event: Burst) -> None:
        market = self.world.markets["nebius"]
        assert isinstance(market, CappedMarket)
        held = [box for box in market.boxes.values() if box.job_id and box.state is not State.STOPPED]
        if not held or self.world.faults.is_quiet:
            return
        if market.take_hardware(self.rng.choice(held), event.ends_s - event.begins_s):
            self._begins(event)

    def _outbid_all(self, event: Burst) -> None:
        if self._begins(event):
            self._raise_floors(event, is_up=True)

    def _raise_floors(self, event: Burst, *, is_up: bool) -> None:
        """Up and down again, every half minute for as long as it lasts."""
        for market in self.world.markets.values():
            for host in market.hosts.values():
                factor = Decimal(2) if is_up else Decimal("0.5")
                market.set_floor(host, (host.floor * factor).quantize(Decimal("0.001")))
        if is_up or (self.world.now_s < event.ends_s and not self.world.faults.is_quiet):
            self.world.loop.after(FLAPPING_S, lambda: self._raise_floors(event, is_up=not is_up))

    def _jump_prices(self, event: Burst) -> None:
        market = self.world.markets[self.rng.choice(self.world.scenario.markets)]
        host = self.rng.choice(list(market.hosts.values()))
        if host.is_dear or host.shown_floor is not None or not self._begins(event):
            return
        before = host.floor
        host.is_dear = True
        if self.rng.random() < 0.5:
            host.shown_floor = self.rng.choice((float("nan"), 0.0, -1.0, 1e9))
        else:
            market.set_floor(host, before * 10)

        def back() -> None:
            host.shown_floor, host.is_dear = None, False
            market.set_floor(host, before)

        self.world.loop.after(event.ends_s - event.begins_s, back)

    def _interfere(self, event: Burst) -> None:
        market = self.world.markets[self.rng.choice(self.world.scenario.markets)]
        box, what = self._one(), self.rng.random()
        if not self._begins(event):
            return
        if what < 0.2:
            self._clear_up()
        elif what < 0.35 and box is not None:
            self._destroyed_by_user(box)
        elif what < 0.5 and box is not None:
            self.world.markets[box.provider].relabel(box)
        else:
            self._others_come(market)

    def _others_come(self, market: SimulatedMarket) -> None:
        """Machines of the account that are none of ours, for a while: sometimes more than fit on a page."""
        host = self.rng.choice(list(market.hosts.values()))
        for number in range(self.rng.choice((1, 1, 2, 30))):
            other = market.rent_to_others(host, f"others-{number}")
            self.world.loop.after(self.rng.uniform(*OTHERS_STAY_S), self._other_goes, other)

    def _other_goes(self, other: Box) -> None:
        if not other.is_gone:
            self.world.markets[other.provider].destroy(other)

    def _clear_up(self, seen: Box | None = None) -> None:
        """The user destroys the next machine that has stood still for a while."""
        if self.world.faults.is_quiet:
            return
        idle = self._one(State.STOPPED)
        if idle is None or idle is not seen:
            self.world.loop.after(LOOKS_EVERY_S, self._clear_up, idle)
            return
        self._destroyed_by_user(idle)

    def _destroyed_by_user(self, box: Box) -> None:
        self.world.trace("user destroyed", box.key)
        self.world.markets[box.provider].destroy(box)

    def _restore(self, event: Burst) -> None:
        if self._begins(event):
            self.world.back_up()
            self.world.loop.after(event.ends_s - event.begins_s, self.world.restore_ledger)

    def _kill(self, event: Burst) -> None:
        if not self.world.is_daemon_out and self._begins(event):
            self.world.kill_daemon(event.ends_s - event.begins_s)

    def _pause(self, event: Burst) -> None:
        if self.world.is_daemon_out or not self._begins(event):
            return
        if self.rng.random() < 0.5:
            self.world.freeze_daemon(event.ends_s - event.begins_s)
        else:
            for number in range(12):
                self.world.loop.after(5.0 * number, self.world.kill_daemon, 1.0)

    def _suspend(self, event: Burst) -> None:
        box = self._one(State.RUNNING)
        if box is not None and not box.is_suspended and self._begins(event):
            box.is_suspended = True
            box.troubled_s = event.ends_s
            self.world.loop.after(event.ends_s - event.begins_s, setattr, box, "is_suspended", False)

    def calm(self) -> None:
        """The faults are over: hosts are back, states are true, machines go on."""
        self.world.faults.is_quiet = True
        self.world.unlisted_until_s.clear()
        for market in self.world.markets.values():
            if market.is_dry:
                market.pay_in()
            if isinstance(market, CappedMarket):
                market.give_all_back()
            for host in market.hosts.values():
                host.shown_floor, host.is_dear, host.echo = None, False, None
                if host.rival is not None:
                    market.set_rival(host, None)
            for box in list(market.boxes.values()):
                box.shown, box.is_suspended = None, False
                market.bring_back(box)


def _outbid(world: World) -> None:
    """A rival bids more for all that we hold on spot."""
    for market in world.markets.values():
        for box in list(market.boxes.values()):
            if box.is_spot:
                market.set_floor(box.host, box.rate * 2)


def _rivals_leave(world: World) -> None:
    for market in world.markets.values():
        for host in market.hosts.values():
            market.set_floor(host, host.mean_floor)


def _others_get_cheap(world: World) -> None:
    """Hosts on which we have nothing cost a quarter."""
    for market in world.markets.values():
        held = {box.host.machine_id for box in market.boxes.values()}
        for host in market.hosts.values():
            if host.machine_id not in held:
                host.mean_floor = (host.floor / 4).quantize(Decimal("0.001"))
                host.on_demand = (host.on_demand / 3).quantize(Decimal("0.001"))
                market.set_floor(host, host.mean_floor)


def _host_vanishes(world: World) -> None:
    for box in world.boxes():
        world.markets[box.provider].vanish(box, 900.0)


def _run_dry(world: World) -> None:
    for market in world.markets.values():
        market.run_dry()


def _pay_in(world: World) -> None:
    for market in world.markets.values():
        market.pay_in()


def _stop_by_hand(world: World) -> None:
    """Their user stops them, without a rival's bid."""
    for market in world.markets.values():
        for box in list(market.boxes.values()):
            market.stop(box)


def _outbid_unseen(world: World) -> None:
    for market in world.markets.values():
        for box in list(market.boxes.values()):
            if box.is_spot:
                market.set_rival(box.host, box.rate * 2, is_told=False)


def _one_host(world: World, gpus: int = 1) -> None:
    """All other machines are taken."""
    first, *others = [host for market in world.markets.values() for host in market.hosts.values()]
    first.room = gpus
    for host in others:
        host.room = 0


def _one_host_of_two(world: World) -> None:
    _one_host(world, 2)


def _one_host_of_eight(world: World) -> None:
    _one_host(world, 8)


def _nothing_at_vastai(world: World) -> None:
    for host in world.markets["vastai"].hosts.values():
        host.room = 0


def _end_unseen(world: World) -> None:
    """While no machine can be listed, for a quarter of an hour."""
    for box in world.boxes():
        world.unlisted_until_s[box.provider] = world.now_s + 900.0
        world.loop.after(300.0, _ended_by_market, world, box)


def _ended_by_market(world: World, box: Box) -> None:
    if not box.is_gone:
        world.markets[box.provider].destroy(box)


def _user_destroys(world: World) -> None:
    for box in world.boxes():
        world.markets[box.provider].destroy(box)


def _kill(world: World) -> None:
    world.kill_daemon(20.0)


def _die_as_soon_as_it_rents(world: World) -> None:
    """For longer than a permit lasts, and before the answer to the create is here."""
    if any(world.boxes()):
        world.kill_daemon(3600.0)
    else:
        world.loop.after(0.01, _die_as_soon_as_it_rents, world)


def _first_never_gets_ready(world: World) -> None:
    """The first machine that is rented."""
    for box in world.boxes():
        box.is_broken = "never ready"
        return
    world.loop.after(1.0, _first_never_gets_ready, world)


def _first_fails(world: World) -> None:
    """The job's command, each time that it runs on the first machine that is rented."""
    for box in world.boxes():
        box.is_broken = "fails"
        return
    world.loop.after(1.0, _first_fails, world)


def _second_never_starts(world: World) -> None:
    """Of the two machines of one create, that which its answer does not name: nothing on it can end it."""
    for box in world.boxes():
        box.onstart = ""
        return
    world.loop.after(0.01, _second_never_starts, world)


def _machine_from_nowhere(world: World) -> None:
    """With a label of ours and unknown to the ledger; its agent never starts, so it cannot end itself either."""
    market = world.markets["vastai"]
    host = next(iter(market.hosts.values()))
    market.rent(host, label=ORPHAN, is_spot=False, rate=host.on_demand, disk_gb=20, onstart="")


def _die_for_an_hour(world: World) -> None:
    world.kill_daemon(3600.0)


def _die_for_good(world: World) -> None:
    world.kill_daemon(None)


def _freeze(world: World) -> None:
    world.freeze_daemon(300.0)


def _sleep(world: World) -> None:
    """As a laptop's lid is closed."""
    world.freeze_daemon(3 * 3600.0)


def _restart(world: World) -> None:
    """As an update does it: told to stop, and started once it has."""
    life = world.life
    world.stop_daemon()

    def again() -> None:
        if world.life is not life:
            return
        if life is None or life.has_stopped or not life.process.is_alive:
            world.start_daemon()
        else:
            world.loop.after(2.0, again)

    again()


ACTS = {
    "outbid": _outbid,
    "rivals leave": _rivals_leave,
    "others get cheap": _others_get_cheap,
    "host vanishes": _host_vanishes,
    "runs dry": _run_dry,
    "paid in": _pay_in,
    "outbid unseen": _outbid_unseen,
    "stopped by hand": _stop_by_hand,
    "one host": _one_host,
    "one host of two": _one_host_of_two,
    "one host of eight": _one_host_of_eight,
    "nothing at vast.ai": _nothing_at_vastai,
    "ends unseen": _end_unseen,
    "user destroys": _user_destroys,
    "kill": _kill,
    "dies as soon as it rents": _die_as_soon_as_it_rents,
    "first never gets ready": _first_never_gets_ready,
    "first fails": _first_fails,
    "second never starts": _second_never_starts,
    "machine from nowhere": _machine_from_nowhere,
    "dies for an hour": _die_for_an_hour,
    "dies for good": _die_for_good,
    "freeze": _freeze,
    "sleeps for three hours": _sleep,
    "restart": _restart,
}
