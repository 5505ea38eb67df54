"""RunPod's control API: everything that a test or a demo may do to that market, under ``/_emu/runpod/``.

| call | body | answer |
|---|---|---|
| GET machines | | machines: floor and on-demand per GPU-hour, state, free GPUs, strangers, tenants |
| POST floor | machine_id, price ($/h per GPU; null: no spot) | |
| POST rival | machine_id (or pod_id), bid ($/h per GPU), gpu_count (default: all), duration_s | id (null: no room) |
| DELETE rival | id | |
| POST on_demand_arrival | machine_id (or pod_id), gpu_count (default: all), duration_s | id (null: no room) |
| POST stop | pod_id: its user stops it in the console | |
| POST host | machine_id, state: online, offline, vanished | |
| POST host_traits | machine_id (or pod_id), boots, cuda, arch: what is given changes | |
| POST duds | share: of the machines that never boot from now on | |
| POST balance | amount | balance |
| POST claim | id, holds (default: false): whether what is assumed of the market holds | broken |
| POST mode | spot: normal, no_supply, mutation_removed, graphql_gone | |
| POST fault | on, kind, times (null: for ever; default 1), probability, retry_after, lag_s, hang_s | |
| DELETE faults | | |
| GET events | ?since=SEQ | events: seq, at, kind and what belongs to it |
| GET instances | | instances: the truth about pods, terminated ones included |
| GET books | | books: exact cost of each pod by kind, total, and what billing shows by now; network_volumes |
| GET requests | | calls by root field or endpoint |

A mistake is answered with 400 and ``error``. The clock is the sandbox's own. Faults: see ``injected_faults.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.host_wishes import parse_traits
from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.market.metering import DISK, GPU, Meter, to_decimal
from autopilot_lab.sandbox.operations import BadRequest, Json, Operation, add_operations, amount, duration
from autopilot_lab.sandbox.runpod import injected_faults
from autopilot_lab.sandbox.runpod.billing import billed_total
from autopilot_lab.sandbox.runpod.exchange import Mode
from autopilot_lab.sandbox.runpod.machines import Machine
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Pod
from autopilot_lab.sandbox.runpod.refusals import PodRefused
from autopilot_lab.sandbox.shared_control import set_duds, shared_operations
from autopilot_lab.sandbox.units import NANO
from autopilot_lab.sandbox.wire import Host


class RunpodControl:
    def __init__(
        self, market: PodMarket, host: Host, faults: Faults, requests: Counter[str], billing_lag_s: float
    ) -> None:
        self._market = market
        self._host = host
        self._faults = faults
        self._requests = requests
        self._billing_lag_s = billing_lag_s

    def add_routes(self, app: web.Application) -> None:
        operations: dict[tuple[str, str], Operation] = {
            **shared_operations("runpod", self._market, self._faults, _parse_fault, self._requests),
            ("GET", "machines"): lambda wish: {
                "machines": [self._row(each) for each in self._market.machines.values()]
            },
            ("POST", "floor"): self._set_floor,
            ("POST", "rival"): lambda wish: self._add_stranger("rival", wish, amount(wish, "bid")),
            ("DELETE", "rival"): self._remove_rival,
            ("POST", "on_demand_arrival"): lambda wish: self._add_stranger("on_demand", wish, None),
            ("POST", "stop"): self._stop,
            ("POST", "host"): self._set_host,
            ("POST", "host_traits"): self._set_host_traits,
            ("POST", "duds"): lambda wish: set_duds(self._market.machines.values(), wish),
            ("POST", "balance"): self._set_balance,
            ("POST", "mode"): self._set_mode,
            ("GET", "instances"): lambda wish: {"instances": [self._truth(pod) for pod in self._market.pods.values()]},
            ("GET", "books"): self._books,
        }
        add_operations(app, "/_emu/runpod/", operations, self._host)

    def _row(self, machine: Machine) -> Json:
        spec = machine.spec
        pods = [pod for pod in self._market.live() if pod.machine_id == spec.machine_id]
        return {
            "machine_id": spec.machine_id,
            "gpu_type_id": spec.gpu_type.id,
            "gpu_count": spec.gpu_count,
            "cloud": str(spec.cloud),
            "data_center_id": spec.data_center_id,
            "country": spec.country,
            "state": str(machine.state),
            "floor": None if machine.floor is None else str(machine.floor),
            "on_demand": str(spec.on_demand),
            "free_gpus": self._market.free_gpus(machine),
            "strangers": [
                {"id": each.id, "bid": None if each.bid is None else str(each.bid), "gpu_count": each.gpu_count}
                for each in machine.strangers.values()
            ],
            "tenants": [pod.id for pod in pods],
        }

    def _set_floor(self, wish: Json) -> Json:
        price = None if "price" in wish and wish["price"] is None else amount(wish, "price")
        self._market.set_floor(self._machine(wish).spec.machine_id, price)
        return {}

    def _add_stranger(self, kind: str, wish: Json, bid: Decimal | None) -> Json:
        machine = self._machine(wish)
        gpu_count = int(amount({"gpu_count": machine.spec.gpu_count, **wish}, "gpu_count"))
        if not 0 < gpu_count <= machine.spec.gpu_count:
            raise BadRequest(f"machine {machine.spec.machine_id} does not have {gpu_count} GPUs")
        stay_s = duration(wish)
        stranger = self._market.add_stranger(kind, machine, gpu_count, bid)
        if stranger is None:
            return {"id": None}
        stranger_id = stranger.id
        if stay_s is not None:
            leaves_at = self._market.now + timedelta(seconds=stay_s)
            self._market.agenda.at(leaves_at, lambda: self._market.remove_stranger(stranger_id))
        return {"id": stranger_id}

    def _remove_rival(self, wish: Json) -> Json:
        if not self._market.remove_stranger(str(wish.get("id"))):
            raise BadRequest(f"no such rival: {wish.get('id')!r}")
        return {}

    def _stop(self, wish: Json) -> Json:
        pod = self._market.pods.get(str(wish.get("pod_id", "")))
        if pod is None:
            raise BadRequest("pod_id: there is no such pod")
        self._market.stop(pod)
        return {}

    def _set_host(self, wish: Json) -> Json:
        try:
            self._market.set_host(self._machine(wish).spec.machine_id, HostState(str(wish.get("state"))))
        except PodRefused as refused:
            raise BadRequest(str(refused)) from None
        return {}

    def _set_host_traits(self, wish: Json) -> Json:
        machine, (boots, said) = self._machine(wish), parse_traits(wish)
        spec = machine.spec
        machine.spec = replace(
            spec,
            cuda_version=said.get("cuda", spec.cuda_version),
            arch=said.get("arch", spec.arch),
            truth=spec.truth if boots is None else replace(spec.truth, boots=boots),
        )
        return {}

    def _set_balance(self, wish: Json) -> Json:
        self._market.set_balance(amount(wish, "amount"))
        return {"balance": str(self._market.balance.show(self._market.now))}

    def _set_mode(self, wish: Json) -> Json:
        self._market.mode = Mode(str(wish.get("spot")))
        self._market.record("mode.set", spot=str(self._market.mode))
        return {}

    def _truth(self, pod: Pod) -> Json:
        return {
            "id": pod.id,
            "name": pod.order.name,
            "team": pod.order.team,
            "machine_id": pod.machine_id,
            "gpu_count": pod.gpu_count,
            "type": str(pod.type),
            "bid": None if pod.bid is None else str(pod.bid),
            "cost_per_hr": str(pod.cost_per_hr),
            "status": str(pod.status),
            "container": str(pod.container),
            "cause": None if pod.cause is None else str(pod.cause),
            "starts": pod.starts,
            "boots": pod.boots,
            "created_at": pod.created_at.isoformat(),
            "terminated_at": None if pod.terminated_at is None else pod.terminated_at.isoformat(),
        }

    def _books(self, wish: Json) -> Json:
        volumes = self._market.network_volumes.values()
        return {
            "books": [self._book(pod) for pod in self._market.pods.values()],
            "network_volumes": [{"id": volume.id, **self._cost(volume.meter)} for volume in volumes],
        }

    def _book(self, pod: Pod) -> Json:
        return {
            "pod_id": pod.id,
            "name": pod.order.name,
            "terminated": pod.terminated_at is not None,
            **self._cost(pod.meter),
            "billed": f"{billed_total(self._market, pod, self._billing_lag_s):f}",
        }

    def _cost(self, meter: Meter) -> Json:
        cost = meter.cost(self._market.now)
        return {
            "cost": {kind: f"{to_decimal(cost[kind], NANO):f}" for kind in (GPU, DISK)},
            "total": f"{to_decimal(meter.total(self._market.now), NANO):f}",
        }

    def _machine(self, wish: Json) -> Machine:
        machine_id = wish.get("machine_id")
        if "pod_id" in wish:
            pod = self._market.pods.get(str(wish["pod_id"]))
            machine_id = None if pod is None else pod.machine_id
        machine = self._market.machines.get(str(machine_id))
        if machine is None:
            raise BadRequest(f"no such machine or pod: {wish.get('pod_id', machine_id)}")
        return machine


def _parse_fault(wish: Json) -> InjectedFault:
    kinds = injected_faults.KINDS
    if wish.get("on") not in injected_faults.GRAPHQL_FAMILIES:
        kinds = kinds - injected_faults.LOST_GRAPHQL - injected_faults.UNHEARD_GRAPHQL
    return InjectedFault.parse(wish, injected_faults.FAMILIES, kinds)
