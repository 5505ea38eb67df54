"""The customer's moves on RunPod's market: rent, resume, stop, edit, terminate, each at the market's present moment."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.runpod.exchange import Exchange, Mode, SpotPrice
from autopilot_lab.sandbox.runpod.machines import Cloud, Machine, Requirements
from autopilot_lab.sandbox.runpod.placement import evictions
from autopilot_lab.sandbox.runpod.pods import Cause, Container, Pod, PodOrder, Status
from autopilot_lab.sandbox.runpod.refusals import (
    PodRefused,
    RefusalReason,
    host_full,
    invalid,
    no_capacity,
    not_found,
    wrong_resume,
)
from autopilot_lab.sandbox.runpod.registries import Registries

_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 14


class PodMarket(Exchange):
    """The exchange, and the moves that the customer may make on it. Every move may raise ``PodRefused``."""

    @cached_property
    def registries(self) -> Registries:
        return Registries()

    def rent(self, order: PodOrder) -> Pod:
        """A machine that takes the order, one with free GPUs before one where somebody has to go."""
        self.record("rent.requested", name=order.name, bid=order.bid)
        spot = order.bid is not None
        if spot and order.registry_id is not None and "login-made-through-rest" in self.broken:
            raise invalid("Container registry auth not found.")
        order = self.registries.judge(self._with_network_volume(order))
        if spot and (self.mode is Mode.NO_SUPPLY or "spot-is-rented" in self.broken):
            raise no_capacity(spot=True)
        suitable = [machine for machine in self.machines.values() if self._suits(machine, order)]
        if order.bid is not None:
            on_spot = [(machine, machine.floor) for machine in suitable if machine.floor is not None]
            takes_any = "losing-bid-refused" in self.broken
            suitable = [machine for machine, floor in on_spot if takes_any or order.bid >= floor]
            if on_spot and not suitable:
                raise PodRefused(RefusalReason.LOW_BID, self.config.low_bid_text)
        machine = self._best(suitable, order)
        if machine is None:
            raise no_capacity(spot=spot)
        pod = self._draft(machine, order)
        cost_per_hr = self._cost(machine, order.bid, order.gpu_count)
        self.check_funds("rent this pod", cost_per_hr, pod)
        self.make_room(machine, order.gpu_count, order.bid)
        self.pods[pod.id] = pod
        identity = {"pod_id": pod.id, "name": order.name, "machine_id": pod.machine_id}
        self.record("pod.rented", **identity, type=str(pod.type), bid=order.bid)
        self.lifecycle.start(pod, order.gpu_count, cost_per_hr)
        self._set_timers(pod)
        return pod

    def resume(self, pod: Pod, gpu_count: int | None) -> None:
        """Start a stopped on-demand pod where it is; 0 GPUs: its data only. A running pod stays as it is."""
        if pod.order.bid is not None:
            raise wrong_resume()
        if pod.status is not Status.RUNNING:
            self._start(pod, pod.order.gpu_count if gpu_count is None else gpu_count, None, "on-demand")

    def bid_resume(self, pod: Pod, gpu_count: int, bid: Decimal) -> None:
        """Start a stopped spot pod where it is, at a new bid ($/h per GPU)."""
        if pod.order.bid is None:
            raise invalid("Cannot resume an on demand pod as a spot pod.")
        if pod.status is Status.RUNNING:
            if self.config.bid_resume_of_running_fails:
                raise invalid("This pod is already running.")
            return
        if self.mode is Mode.NO_SUPPLY or "bid-resumes" in self.broken:
            raise host_full()
        floor = self.machines[pod.machine_id].floor
        if gpu_count > 0 and floor is not None and bid < floor:
            raise PodRefused(RefusalReason.LOW_BID, self.config.low_bid_text)
        self._start(pod, gpu_count, bid, "spot")

    def stop(self, pod: Pod, cause: Cause = Cause.USER) -> None:
        if pod.status is Status.RUNNING:
            self.lifecycle.stop(pod, cause)
            if self.machines[pod.machine_id].state is not HostState.ONLINE:
                pod.meter.halt_all(self.now)

    def terminate(self, pod: Pod, cause: Cause = Cause.USER) -> None:
        self.lifecycle.terminate(pod, cause)

    def restart(self, pod: Pod) -> None:
        """A fresh container on the same machine and volume, at the same price."""
        if pod.status is Status.RUNNING and self.machines[pod.machine_id].state is HostState.ONLINE:
            self.lifecycle.reset(pod)

    def edit(self, pod: Pod, **changes: object) -> None:
        """Change fields of the order; what a running container is made of takes a fresh container."""
        pod.order = replace(pod.order, **changes)  # type: ignore[arg-type]
        self.record("pod.edited", pod_id=pod.id, name=pod.order.name, fields=sorted(changes))
        if set(changes) - {"name"}:
            self.restart(pod)

    def container_exited(self, pod_id: str, boot: int, exit_code: int) -> None:
        """The container of that boot ended by itself; a report of an earlier boot is ignored."""
        pod = self.pods[pod_id]
        if pod.boots == boot and pod.container is Container.RUNNING:
            self.lifecycle.container_exited(pod, exit_code)

    def find(self, pod_id: str, team: str | None, wish: str) -> Pod:
        """A live pod of that team. ``wish`` ends the refusal: "pod not found to …"."""
        pod = self.pods.get(pod_id)
        if pod is None or pod.status is Status.TERMINATED or pod.order.team != team:
            raise not_found(wish)
        return pod

    def _start(self, pod: Pod, gpu_count: int, bid: Decimal | None, kind: str) -> None:
        machine = self.machines[pod.machine_id]
        if gpu_count < 0 or gpu_count > machine.spec.gpu_count:
            raise host_full()
        reachable = machine.state is HostState.ONLINE
        if not reachable or (gpu_count > 0 and not self._has_room(machine, gpu_count, bid)):
            raise host_full()
        cost_per_hr = self._cost(machine, bid, gpu_count)
        self.check_funds(f"resume this {kind} pod", cost_per_hr, pod)
        if gpu_count > 0:
            self.make_room(machine, gpu_count, bid)
        pod.bid = bid
        self.lifecycle.start(pod, gpu_count, cost_per_hr)

    def _suits(self, machine: Machine, order: PodOrder) -> bool:
        right_gpu = machine.spec.gpu_type.id in order.gpu_type_ids
        roomy = machine.spec.disk_gb >= order.container_disk_gb + order.volume_gb
        return right_gpu and roomy and order.requirements.met_by(machine, order.gpu_count)

    def _best(self, machines: list[Machine], order: PodOrder) -> Machine | None:
        def rank(machine: Machine) -> tuple[int, bool, Decimal, str]:
            spec = machine.spec
            price = spec.on_demand if order.bid is None or machine.floor is None else machine.floor
            crowded = self.free_gpus(machine) < order.gpu_count
            return order.gpu_type_ids.index(spec.gpu_type.id), crowded, price, spec.machine_id

        open_ones = [machine for machine in machines if self._has_room(machine, order.gpu_count, order.bid)]
        best = min(open_ones, key=rank, default=None)
        if best is None or not self.config.places_anywhere:
            return best
        return self._places_rng.choice([machine for machine in open_ones if rank(machine)[:2] == rank(best)[:2]])

    def _has_room(self, machine: Machine, gpu_count: int, bid: Decimal | None) -> bool:
        return evictions(machine, self.tenants(machine), gpu_count, bid) is not None

    def _cost(self, machine: Machine, bid: Decimal | None, gpu_count: int) -> Decimal:
        """$/h for all GPUs."""
        if bid is None:
            return machine.spec.on_demand * gpu_count
        if self.config.spot_price is SpotPrice.FLOOR and machine.floor is not None:
            return machine.floor * gpu_count
        return bid * gpu_count

    def _with_network_volume(self, order: PodOrder) -> PodOrder:
        """Such a volume takes the place of the pod's own, and ties the pod to its data centre."""
        if order.network_volume_id is None:
            return order
        volume = self.network_volumes.get(order.network_volume_id)
        if volume is None:
            raise invalid("Network volume not found.")
        wanted = order.requirements
        where = frozenset({volume.data_center_id})
        if wanted.data_center_ids and not where <= wanted.data_center_ids:
            raise no_capacity(spot=order.bid is not None)
        narrowed: Requirements = replace(wanted, clouds=wanted.clouds & {Cloud.SECURE}, data_center_ids=where)
        return replace(order, volume_gb=0, requirements=narrowed)

    def _draft(self, machine: Machine, order: PodOrder) -> Pod:
        arrival = next(self._arrivals)
        digest = hashlib.sha256(f"{self._seed}:pod:{arrival}".encode()).digest()
        return Pod(
            id="".join(_ID_LETTERS[byte % len(_ID_LETTERS)] for byte in digest[:_ID_LENGTH]),
            machine_id=machine.spec.machine_id,
            cloud=machine.spec.cloud,
            order=order,
            gpu_count=order.gpu_count,
            cost_per_hr=Decimal(0),
            created_at=self.now,
            api_key="rpa_pod_" + digest.hex(),
            arrival=arrival,
            bid=order.bid,
        )

    def _set_timers(self, pod: Pod) -> None:
        def stop() -> None:
            self.stop(pod, Cause.TIMER)

        def terminate() -> None:
            if pod.status is not Status.TERMINATED:
                self.terminate(pod, Cause.TIMER)

        if pod.order.stop_after is not None:
            self.agenda.at(max(pod.order.stop_after, self.now), stop)
        if pod.order.terminate_after is not None:
            self.agenda.at(max(pod.order.terminate_after, self.now), terminate)
