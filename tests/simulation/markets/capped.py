"""A market of virtual machines under caps: all of a kind pay the spot price, and whose cap is below it is stopped.

Told of over the wire by ``nebius``. Prices move on the quarter of an hour. A machine that was stopped stays so, with
its disk, until it is started; a cap is a thing of its own, and so is what a change of either has begun.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, Host, Kept, State
from tests.simulation.markets.market import LOADING_S, MILLI, RESTART_S, THE_USERS_LABEL, SimulatedMarket
from tests.simulation.virtual.clock import at

STEP_S = 900.0
NOTICE_S = 60.0
"""From the word to go until a machine is off."""
SOON_S = (1.0, 8.0)
"""Until a cap is ready, or a machine is placed."""
NO_ROOM_AFTER_S = (20.0, 90.0)
"""For so long the market looks for hardware."""
ENDS_S = (2.0, 10.0)
"""From the delete of a machine that is off to its end."""
BELOW_ON_DEMAND = Decimal("0.01")
LEAST_DISK_GB = 40
LOOKED_AT_S = 240.0
"""What a reader may need to see that the price has risen: prices are remembered for a minute, lists may be stale."""
BOX, CAP, DISK = "computeinstance", "pricingpolicy", "computedisk"
"""How ids begin."""
THE_USERS_CAP = "shared-by-my-own"


class No(Enum):
    """Why the market refuses something."""

    NO_HARDWARE = "no_hardware"
    QUOTA = "over_quota"
    CAP_TOO_HIGH = "out_of_range"
    STATE = "bad_state"
    TAKEN = "name_taken"
    MISSING = "no_such"
    INVALID = "bad_request"
    RIGHTS = "no_rights"
    CUT_SHORT = "abort"


class Refused(Exception):
    def __init__(self, why: No, subject: str, text: str = "") -> None:
        super().__init__(f"{why.value}: {subject} {text}")
        self.why, self.subject, self.text = why, subject, text


@dataclass(slots=True)
class Op:
    """What a change has begun. ``is_over`` without ``why``: it has succeeded."""

    id: str
    subject: str
    begun_s: float
    is_over: bool = False
    why: No | None = None


@dataclass(slots=True)
class Cap:
    """``most``: $/h of a GPU. Of a machine that has had several, ``number`` counts them from 1."""

    id: str
    project: str
    platform: str
    label: str
    number: int
    most: Decimal
    made_s: float
    is_ready: bool = False


@dataclass(slots=True)
class Vm:
    """What a machine has beside its box. ``cap_id`` empty: it pays any price."""

    box: Box
    cap_id: str
    user_data: str
    version: int = 1
    is_settling: bool = True
    is_stopping: bool = False
    is_deleting: bool = False
    is_preempted: bool = False
    is_recovering: bool = False
    """It is started again when it has switched itself off: not what was asked for."""
    pending: Op | None = None
    """What its present transition belongs to."""


class CappedMarket(SimulatedMarket):
    def __init__(
        self, ground: Ground, provider: str, hosts: list[Host], rng: random.Random, boot_agent: Callable[[Box], None]
    ) -> None:
        self.prices = {host.machine_id: host.floor for host in hosts}
        """$/h, since the last quarter of an hour."""
        self.vms: dict[str, Vm] = {}
        """By the id of the box, also those that are over."""
        self.caps: dict[str, Cap] = {}
        self.ops: dict[str, Op] = {}
        self._by_key: dict[str, Op] = {}
        self._rooms = {host.machine_id: host.room for host in hosts}
        super().__init__(ground, provider, hosts, rng, boot_agent)
        first = hosts[0]
        self._make_cap(parts(first)[0], parts(first)[1], THE_USERS_CAP, 1, first.on_demand)
        ground.loop.after(STEP_S - at(ground.now_s).timestamp() % STEP_S, self._step)

    def new_id(self) -> str:
        return self._id(BOX)

    def _id(self, kind: str) -> str:
        self._given += 1
        return f"{kind}-e00sim{self._given:06d}"

    # --- prices

    def _step(self) -> None:
        for host in self.hosts.values():
            self._set_price(host)
        self.ground.loop.after(STEP_S, self._step)

    def _set_price(self, host: Host) -> None:
        price, before = max(host.to_win, MILLI).quantize(MILLI), self.prices[host.machine_id]
        self.prices[host.machine_id] = price
        for box in list(self.boxes.values()):
            if box.host is not host:
                continue
            if price > before and box.computes:
                box.unseen_rise += (price - before) * Decimal(LOOKED_AT_S) / 3600
            self.rebill(box)
            if self._is_outbid(self.vms[box.id]):
                host.beaten_bids.append((self.ground.now_s, box.rate))
                self._preempt(box)

    def _is_outbid(self, vm: Vm) -> bool:
        cap = self.caps.get(vm.cap_id)
        return cap is not None and cap.most < self.prices[vm.box.host.machine_id]

    def pays(self, box: Box) -> Decimal:
        return min(self.prices[box.host.machine_id], box.rate)

    def is_blocked(self, cap: Cap) -> bool:
        return cap.most < self.prices[self._pool(cap.project, cap.platform).machine_id]

    def _pool(self, project: str, platform: str) -> Host:
        for host in self.hosts.values():
            if parts(host)[:2] == (project, platform):
                return host
        raise Refused(No.INVALID, "spec.resources.platform", "is not sold here")

    def highest_cap(self, host: Host) -> Decimal:
        return host.on_demand - BELOW_ON_DEMAND

    # --- hardware

    def take_hardware(self, box: Box, for_s: float) -> bool:
        """Somebody else gets it, for a while: of ours the lowest caps lose theirs. False: it runs nowhere."""
        host = box.host
        if not self._holds(box):
            return False
        held = [other for other in self.boxes.values() if other.host is host and self._holds(other)]
        host.room = len(held) - 1
        lowest = min(held, key=lambda each: (each.rate, -each.created_s))
        self.ground.trace("hardware lost", lowest.key)
        host.beaten_bids.append((self.ground.now_s, lowest.rate))
        self._preempt(lowest)
        self.ground.loop.after(for_s, self._give_hardware_back, host)
        return True

    def _give_hardware_back(self, host: Host) -> None:
        host.room = self._rooms[host.machine_id]

    def _holds(self, box: Box) -> bool:
        return box.state is not State.STOPPED and not self.vms[box.id].is_stopping

    def give_all_back(self) -> None:
        for host in self.hosts.values():
            self._give_hardware_back(host)

    # --- what is under way

    def begin(self, subject: str, key: str) -> Op:
        op = Op(self._id("operation"), subject, self.ground.now_s)
        self.ops[op.id] = self._by_key[key] = op
        return op

    def replayed(self, key: str) -> Op | None:
        """What an earlier call under that key has begun."""
        return self._by_key.get(key)

    def finish(self, op: Op | None, why: No | None = None) -> None:
        if op is not None and not op.is_over:
            op.is_over, op.why = True, why

    # --- caps; each may raise ``Refused``

    def make_cap(self, key: str, project: str, platform: str, name: tuple[str, int], most: Decimal) -> Op:
        """``name``: its machine's label, and the cap's number."""
        host = self._pool(project, platform)
        if any(cap.project == project and (cap.label, cap.number) == name for cap in self.caps.values()):
            raise Refused(No.TAKEN, name[0])
        if not MILLI <= most <= self.highest_cap(host):
            raise Refused(No.CAP_TOO_HIGH, str(most), str(self.highest_cap(host)))
        cap = self._make_cap(project, platform, *name, most)
        op = self.begin(cap.id, key)

        def ready() -> None:
            cap.is_ready = True
            self.finish(op)

        self.ground.loop.after(self.rng.uniform(*SOON_S), ready)
        return op

    def _make_cap(self, project: str, platform: str, label: str, number: int, most: Decimal) -> Cap:
        cap = Cap(self._id(CAP), project, platform, label, number, most, self.ground.now_s)
        self.caps[cap.id] = cap
        owner = next((box.id for box in self.boxes.values() if box.label == label), "")
        self.kept[cap.id] = Kept(owner, label, "pricing policy")
        self.ground.trace("cap", cap.id, label, str(most))
        return cap

    def drop_cap(self, key: str, cap_id: str) -> Op:
        if cap_id not in self.caps:
            raise Refused(No.MISSING, cap_id)
        if any(vm.cap_id == cap_id and self._is_on(vm) for vm in self.vms.values() if not vm.box.is_gone):
            raise Refused(No.STATE, cap_id, "instances run under the policy, or are being preempted")
        op = self.begin(cap_id, key)
        if not self.ground.faults.hits("D1"):
            del self.caps[cap_id], self.kept[cap_id]
            self.ground.trace("cap gone", cap_id)
        self.finish(op)
        return op

    def _is_on(self, vm: Vm) -> bool:
        return vm.box.state is not State.STOPPED or vm.is_settling

    # --- machines; each change may raise ``Refused``

    def vm(self, box_id: str) -> Vm:
        if box_id not in self.boxes:
            raise Refused(No.MISSING, box_id)
        return self.vms[box_id]

    def make_vm(self, key: str, host: Host, label: str, cap_id: str, *, disk_gb: int, data: str) -> Op:
        """Its disk exists from now on, regardless of the machine."""
        if self.is_dry:
            raise Refused(No.RIGHTS, "the payment method was declined")
        cap = self.caps.get(cap_id)
        if cap is None:
            raise Refused(No.INVALID, "spec.spot_pricing_policy", "there is no such policy")
        if any(box.label == label for box in self.boxes.values()):
            raise Refused(No.TAKEN, label)
        if disk_gb < LEAST_DISK_GB:
            raise Refused(No.INVALID, "spec.boot_disk", "the image fits on no smaller disk")
        onstart = next((line for line in data.splitlines() if line.startswith("agent ")), "")
        box = self._make_box(host, label, True, cap.most, disk_gb, onstart, True, None, None)
        self._add(box, cap_id, data)
        for id_, kept in self.kept.items():
            if kept.label == label:
                self.kept[id_] = replace(kept, box_id=box.id)
        op = self.vms[box.id].pending = self.begin(box.id, key)
        if self.ground.faults.hits("A7"):
            self._fall_back(box, No.QUOTA, SOON_S)
        elif self.ground.faults.hits("A3"):
            self._fall_back(box, No.NO_HARDWARE, NO_ROOM_AFTER_S)
        else:
            self._place(box, LOADING_S)
        return op

    def _add(self, box: Box, cap_id: str, data: str) -> None:
        box.state = State.STOPPED
        self.vms[box.id] = Vm(box, cap_id, data)
        self.kept[DISK + box.id.removeprefix(BOX)] = Kept(box.id, box.label, "boot disk")
        self.rebill(box)
        self.ground.trace("rented", box.key, box.label, str(box.rate))

    def _place(self, box: Box, takes_s: tuple[float, float]) -> None:
        vm = self.vms[box.id]
        stays_off = box.stays_paused and takes_s == RESTART_S
        if stays_off or self._is_outbid(vm) or not self.has_room(box.host):
            self._fall_back(box, No.NO_HARDWARE, NO_ROOM_AFTER_S)
            return
        vm.is_settling, vm.version = False, vm.version + 1
        self.boot(box, takes_s)

    def _fall_back(self, box: Box, why: No, after_s: tuple[float, float]) -> None:
        """It finds no place, and lies stopped."""
        vm = self.vms[box.id]
        vm.is_settling, version = True, vm.version
        box.host.beaten_bids.append((self.ground.now_s, box.rate))

        def fall() -> None:
            if vm.version == version and not box.is_gone:
                vm.is_settling, vm.version = False, vm.version + 1
                self._finish_pending(vm, why)
                self.ground.trace("not placed", box.key, why.value)

        self.ground.loop.after(self.rng.uniform(*after_s), fall)

    def _finish_pending(self, vm: Vm, why: No | None = None) -> None:
        self.finish(vm.pending, why)
        vm.pending = None

    def start_vm(self, key: str, box_id: str) -> Op:
        vm = self.vm(box_id)
        if self._is_on(vm) or vm.is_deleting:
            raise Refused(No.STATE, box_id, "the instance is not stopped")
        cap = self.caps.get(vm.cap_id)
        if self.is_dry or cap is None or self.is_blocked(cap):
            raise Refused(No.STATE, box_id, "the pricing policy does not allow scheduling")
        op = vm.pending = self.begin(box_id, key)
        vm.box.wanted = True
        self._place(vm.box, RESTART_S)
        return op

    def stop_vm(self, key: str, box_id: str) -> Op:
        vm = self.vm(box_id)
        op = self.begin(box_id, key)
        vm.box.wanted = False
        self._finish_pending(vm, No.CUT_SHORT)
        if self._is_on(vm):
            vm.pending = op
            self._shut_down(vm)
        else:
            self.finish(op)
        return op

    def swap_cap(self, key: str, box_id: str, cap_id: str) -> Op:
        vm = self.vm(box_id)
        if self._is_on(vm) or vm.is_deleting:
            raise Refused(No.STATE, box_id, "spec fields [pricing_model] update could be done with stopped instance")
        if cap_id not in self.caps:
            raise Refused(No.MISSING, cap_id)
        op = self.begin(box_id, key)
        vm.cap_id, vm.version = cap_id, vm.version + 1
        self.set_bid(vm.box, self.caps[cap_id].most)
        self.finish(op)
        return op

    def delete_vm(self, key: str, box_id: str) -> Op:
        vm = self.vm(box_id)
        if vm.is_deleting and vm.pending is not None:
            return vm.pending
        op = self.begin(box_id, key)
        if self.ground.faults.hits("D1"):
            self.finish(op)
            return op
        self._finish_pending(vm, No.CUT_SHORT)
        vm.pending, vm.is_deleting, vm.is_settling = op, True, True
        vm.version += 1
        if vm.box.agent is not None:
            vm.box.agent.shut_down()
        self.ground.loop.after(self.rng.uniform(*ENDS_S), self._end, vm)
        return op

    def _end(self, vm: Vm) -> None:
        if not vm.box.is_gone:
            self.destroy(vm.box)

    def drop_disk(self, key: str, disk_id: str) -> Op:
        kept = self.kept.get(disk_id)
        if kept is None:
            raise Refused(No.MISSING, disk_id)
        if kept.box_id in self.boxes:
            raise Refused(No.STATE, disk_id, "the disk is attached")
        op = self.begin(disk_id, key)
        if not self.ground.faults.hits("D1"):
            del self.kept[disk_id]
            self.rebill(self.vms[kept.box_id].box)
        self.finish(op)
        return op

    # --- on and off

    def change(self, box: Box, state: State) -> None:
        vm, was = self.vms[box.id], box.state
        super().change(box, state)
        if state is not was:
            vm.version += 1
        if state is State.RUNNING and not vm.is_deleting:
            self._finish_pending(vm)
        elif state is State.STOPPED:
            vm.is_settling = vm.is_stopping = False
            if vm.is_preempted:
                vm.is_preempted = False
                self.ground.check.end_notice(box)
            if not vm.is_deleting:
                self._finish_pending(vm)

    def _preempt(self, box: Box) -> None:
        vm = self.vms[box.id]
        if not self._holds(box) or vm.is_deleting:
            return
        self._finish_pending(vm, No.NO_HARDWARE)
        if box.state is not State.LOADING:
            self.ground.trace("notice", box.key)
            vm.is_preempted = True
            self.ground.check.give_notice(box)
        self._shut_down(vm)

    def _shut_down(self, vm: Vm) -> None:
        """The guest is told to go, and is off within a minute."""
        box = vm.box
        if vm.is_stopping:
            return
        if box.state in (State.LOADING, State.STOPPED):
            vm.version += 1
            self.change(box, State.STOPPED)
            return
        vm.is_stopping, vm.version = True, vm.version + 1
        if box.agent is not None:
            box.agent.shut_down()
        self._await_end(vm, vm.version, self.ground.now_s + NOTICE_S)

    def _await_end(self, vm: Vm, version: int, until_s: float) -> None:
        box, agent = vm.box, vm.box.agent
        if box.is_gone or not vm.is_stopping:
            return
        is_off = box.state is State.RUNNING and (agent is None or not agent.is_on)
        if not is_off and self.ground.now_s < until_s:
            self.ground.loop.after(2.0, self._await_end, vm, version, until_s)
            return
        if vm.is_preempted:
            self.ground.check.take_away(box)
        self.change(box, State.STOPPED)

    def needs(self, box: Box, kept_id: str) -> bool:
        return kept_id in (self.vms[box.id].cap_id, DISK + box.id.removeprefix(BOX))

    def power_off(self, box: Box) -> None:
        """The guest has switched itself off: the market leaves it so, and bills its disk alone."""
        vm = self.vms[box.id]
        if box.state is State.RUNNING and not box.is_gone and not vm.is_stopping:
            self._shut_down(vm)

    def consider(self, box: Box) -> None:
        """A changed price holds from the next quarter of an hour, and nothing comes back by itself."""

    def run_dry(self) -> None:
        self.is_dry = True
        for box in list(self.boxes.values()):
            if not box.is_gone and self._is_on(self.vms[box.id]) and not self.vms[box.id].is_deleting:
                self._finish_pending(self.vms[box.id], No.CUT_SHORT)
                self._shut_down(self.vms[box.id])

    def destroy(self, box: Box) -> None:
        """With its disk, unless that stays. Its caps are not the market's to delete."""
        vm = self.vms[box.id]
        if vm.is_preempted:
            vm.is_preempted = False
            self.ground.check.end_notice(box)
        if not (vm.is_deleting and self.ground.faults.hits("D6")):
            self.kept.pop(DISK + box.id.removeprefix(BOX), None)
        super().destroy(box)
        self._finish_pending(vm)

    def relabel(self, box: Box) -> None:
        """Half of the users rename the machine alone, which goes on under a cap that has its old name."""
        caps = [cap for cap in self.caps.values() if cap.label == box.label]
        kept = {cap.id: self.kept[cap.id] for cap in caps}
        super().relabel(box)
        if self.ground.faults.rng("E8").random() < 0.5:
            self.kept |= kept
            return
        for cap in caps:
            cap.label = THE_USERS_LABEL
            cap.number = len(self.caps)

    def rent_to_others(self, host: Host, label: str, *, id_: str | None = None) -> Box:
        """A machine that follows the price has no cap."""
        box = self._make_box(host, label, True, host.on_demand, LEAST_DISK_GB, "", True, id_, None)
        self._add(box, "", "")
        self._place(box, LOADING_S)
        return box

    def reuse(self, gone: Box) -> None:
        raise AssertionError("ids are given once")

    def bring_to_life(self, box: Box) -> None:
        raise AssertionError("a machine that was deleted does not come back")

    def vanish_with_host(self, box: Box, for_s: float) -> None:
        self.vanish(box, for_s)

    # --- bills

    def rebill(self, box: Box) -> None:
        """The market goes on billing a machine whose host is cut off, and a disk whose machine is gone."""
        is_on = not box.is_gone and box.state in (State.RUNNING, State.OFFLINE)
        price = self.pays(box) if is_on else Decimal(0)
        has_disk = DISK + box.id.removeprefix(BOX) in self.kept
        disk = box.storage_rate if has_disk else Decimal(0)
        self.ground.books.change(box.meter, self.ground.now_s, price, disk, self.excuse_for(box))


def parts(host: Host) -> tuple[str, str, str]:
    """(project, platform, preset) of a kind of machine in a region."""
    region, platform, preset = host.machine_id.split("/")
    return PROJECTS[region], platform, preset


PROJECTS = {"eu-sim1": "project-e00sim1", "us-sim1": "project-u00sim1"}
"""Region → the project there."""
