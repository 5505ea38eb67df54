"""The control API: everything that a test or a demo may do to the market. JSON, no authorisation, under ``/_emu/``.

| call | body | answer |
|---|---|---|
| GET clock | | origin (null unless scaled), speed, now |
| POST advance | seconds | now (only on a clock that is set by hand) |
| GET machines | | machines: floor and on-demand per GPU-hour, state, offers, strangers, tenants |
| POST floor | machine_id, price ($/h per GPU) | |
| POST rival | machine_id (or instance_id: its GPUs), bid ($/h for all its GPUs), num_gpus, duration_s | id, holding |
| DELETE rival | id | |
| POST on_demand_arrival | machine_id (or instance_id), num_gpus (default: all), duration_s | id, holding |
| POST stop | instance_id: its user stops it in the console | |
| POST host | machine_id, state: online, offline, vanished | |
| POST host_traits | machine_id, boots, driver, cuda, arch: what is given changes | |
| POST duds | share: of the machines that never boot from now on | |
| POST traits | fields of ``MachineTraits``, for machines that any market starts now; none: no ``nvidia-smi`` | |
| POST full | machine_id, full (default: true): whether it takes no new tenant and is listed all the same | |
| POST echo | lasts_s: how long a bid on GPUs that were given back is still shown as their floor | |
| POST credit | amount | credit |
| POST keys | keys: those of the account from now on; the others are revoked | |
| POST claim | id, holds (default: false): whether what is assumed of the market holds | broken |
| POST login | instance_id, port: where its SSH server is shown until it boots again | port: that of before |
| POST traffic | instance_id, down_gb, up_gb | |
| POST fault | on, kind, times (null: for ever; default 1), probability, retry_after, detail, lag_s, hang_s | |
| DELETE faults | | |
| GET events | ?since=SEQ | events: seq, at, kind and what belongs to it |
| GET instances | | instances: the truth, destroyed ones included |
| GET books | | books: exact cost by kind of each instance, total, total as billed; decimal strings |
| GET requests | | calls by endpoint family |

A mistake is answered with 400 and ``error``. Families and kinds of faults: see ``faults.py``. Ways to boot: ``Boot`` in
``host_traits.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aiohttp import web

from autopilot.clock import ManualClock, ScaledClock
from autopilot.ports.clock import Clock
from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.host_wishes import parse_traits
from autopilot_lab.sandbox.machine_traits import keep_traits, traits_of
from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.market.machines import Chunk, HostState, Machine
from autopilot_lab.sandbox.market.market import SandboxMarket
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.operations import BadRequest, Json, Operation, add_operations, amount, duration
from autopilot_lab.sandbox.shared_control import set_duds, shared_operations
from autopilot_lab.sandbox.units import NANO
from autopilot_lab.sandbox.vastai.app import VastApi
from autopilot_lab.sandbox.vastai.billing import billed_total
from autopilot_lab.sandbox.wire import Host


class Control:
    def __init__(
        self, market: SandboxMarket, clock: Clock, host: Host, faults: Faults, api: VastApi, state_dir: Path
    ) -> None:
        self._state_dir = state_dir
        self._market = market
        self._clock = clock
        self._host = host
        self._faults = faults
        self._api = api

    def add_routes(self, app: web.Application) -> None:
        operations: dict[tuple[str, str], Operation] = {
            **shared_operations("vastai", self._market, self._faults, InjectedFault.parse, self._api.requests),
            ("GET", "clock"): self._show_clock,
            ("POST", "advance"): self._advance,
            ("GET", "machines"): self._machines,
            ("POST", "floor"): self._set_floor,
            ("POST", "rival"): self._add_rival,
            ("DELETE", "rival"): self._remove_rival,
            ("POST", "on_demand_arrival"): self._add_on_demand,
            ("POST", "stop"): self._stop,
            ("POST", "host"): self._set_host,
            ("POST", "host_traits"): self._set_host_traits,
            ("POST", "duds"): lambda wish: set_duds(self._market.machines.values(), wish),
            ("POST", "full"): self._set_full,
            ("POST", "traits"): self._set_traits,
            ("POST", "echo"): self._set_echo,
            ("POST", "credit"): self._set_credit,
            ("POST", "card"): self._set_card,
            ("POST", "keys"): self._set_keys,
            ("POST", "login"): self._show_login,
            ("POST", "traffic"): self._add_traffic,
            ("GET", "instances"): self._instances,
            ("GET", "books"): self._books,
        }
        add_operations(app, "/_emu/", operations, self._host)

    def _show_clock(self, wish: Json) -> Json:
        origin = self._clock.origin.isoformat() if isinstance(self._clock, ScaledClock) else None
        return {"origin": origin, "speed": self._clock.speed, "now": self._clock.now().isoformat()}

    def _advance(self, wish: Json) -> Json:
        if not isinstance(self._clock, ManualClock):
            raise BadRequest("this clock runs by itself")
        self._clock.advance(float(amount(wish, "seconds")))
        self._host.synchronise()
        return {"now": self._clock.now().isoformat()}

    def _machines(self, wish: Json) -> Json:
        return {"machines": [self._machine_row(machine) for machine in self._market.machines.values()]}

    def _machine_row(self, machine: Machine) -> Json:
        spec = machine.spec
        return {
            "machine_id": spec.machine_id,
            "gpu_name": spec.gpu_name,
            "num_gpus": spec.gpu_count,
            "verified": spec.verified,
            "state": str(machine.state),
            "floor": str(machine.floor),
            "on_demand": str(spec.on_demand),
            "storage_cost": str(spec.storage_cost),
            "offers": [{"id": offer_id, "gpu_ids": list(chunk)} for chunk, offer_id in machine.offer_ids.items()],
            "strangers": [
                {
                    "id": stranger.id,
                    "bid": None if stranger.bid is None else str(stranger.bid),
                    "gpu_ids": list(stranger.gpu_ids),
                    "holding": stranger.holding,
                }
                for stranger in machine.strangers.values()
            ],
            "tenants": [instance.id for instance in self._market.tenants_of(machine)],
        }

    def _set_floor(self, wish: Json) -> Json:
        self._market.set_floor(self._machine(wish).spec.machine_id, amount(wish, "price"))
        return {}

    def _add_rival(self, wish: Json) -> Json:
        machine, chunk = self._target(wish)
        rival = self._market.add_rival(machine.spec.machine_id, chunk, amount(wish, "bid"), duration(wish))
        return {"id": rival.id, "holding": rival.holding, "gpu_ids": list(chunk)}

    def _remove_rival(self, wish: Json) -> Json:
        if not self._market.remove_stranger(str(wish.get("id"))):
            raise BadRequest(f"no such rival: {wish.get('id')!r}")
        return {}

    def _add_on_demand(self, wish: Json) -> Json:
        machine, chunk = self._target(wish)
        customer = self._market.add_on_demand(machine.spec.machine_id, chunk, duration(wish))
        return {"id": customer.id, "holding": customer.holding, "gpu_ids": list(chunk)}

    def _stop(self, wish: Json) -> Json:
        self._market.stop(int(amount(wish, "instance_id")))
        return {}

    def _set_host(self, wish: Json) -> Json:
        self._market.set_host(self._machine(wish).spec.machine_id, HostState(str(wish.get("state"))))
        return {}

    def _set_host_traits(self, wish: Json) -> Json:
        machine, (boots, said) = self._machine(wish), parse_traits(wish)
        spec = machine.spec
        if said.get("cuda"):
            spec = replace(spec, cuda_max_good=float(said["cuda"]))
        machine.spec = replace(
            spec,
            driver_version=said.get("driver", spec.driver_version),
            cpu_arch=said.get("arch", spec.cpu_arch),
            truth=spec.truth if boots is None else replace(spec.truth, boots=boots),
        )
        return {}

    def _set_full(self, wish: Json) -> Json:
        self._machine(wish).is_full = bool(wish.get("full", True))
        return {}

    def _set_traits(self, wish: Json) -> Json:
        """An unknown field is a ``ValueError``."""
        keep_traits(self._state_dir, traits_of(wish) if wish else None)
        return {}

    def _set_echo(self, wish: Json) -> Json:
        self._market.echo_lasts_s = float(amount(wish, "lasts_s"))
        return {}

    def _set_keys(self, wish: Json) -> Json:
        keys = wish.get("keys")
        if not isinstance(keys, list):
            raise BadRequest("keys: a list")
        self._api.api_keys = frozenset(map(str, keys))
        return {}

    def _set_credit(self, wish: Json) -> Json:
        self._market.set_credit(amount(wish, "amount"))
        return {"credit": str(self._market.credit)}

    def _set_card(self, wish: Json) -> Json:
        self._market.tops_up = bool(wish.get("tops_up", True))
        return {"tops_up": self._market.tops_up}

    def _show_login(self, wish: Json) -> Json:
        instance = self._market.get(int(amount(wish, "instance_id")))
        before, instance.ssh_port = instance.ssh_port, int(amount(wish, "port"))
        return {"port": before}

    def _add_traffic(self, wish: Json) -> Json:
        down_gb, up_gb = (amount({name: 0, **wish}, name) for name in ("down_gb", "up_gb"))
        self._market.transfer(int(amount(wish, "instance_id")), down_gb, up_gb)
        return {}

    def _instances(self, wish: Json) -> Json:
        return {"instances": [self._truth(instance) for instance in self._market.instances.values()]}

    def _truth(self, instance: Contract) -> Json:
        return {
            "id": instance.id,
            "label": instance.label,
            "machine_id": instance.machine_id,
            "gpu_ids": list(instance.gpu_ids),
            "is_bid": instance.is_bid,
            "price": str(instance.price),
            "holding": instance.holding,
            "container": str(instance.container),
            "intended_status": instance.intended,
            "cur_state": instance.cur_state,
            "actual_status": self._market.actual_status(instance),
            "cause": None if instance.cause is None else str(instance.cause),
            "boots": instance.boots,
            "ssh": {"host": instance.ssh_host or f"ssh{instance.proxy}.vast.ai", "port": instance.ssh_port},
            "created_at": instance.created_at.isoformat(),
            "destroyed_at": None if instance.destroyed_at is None else instance.destroyed_at.isoformat(),
        }

    def _books(self, wish: Json) -> Json:
        return {"books": [self._book(instance) for instance in self._market.instances.values()]}

    def _book(self, instance: Contract) -> Json:
        cost = instance.meter.cost(self._market.now)
        return {
            "instance_id": instance.id,
            "label": instance.label,
            "destroyed": instance.destroyed_at is not None,
            "cost": {kind: f"{to_decimal(dollars, NANO):f}" for kind, dollars in cost.items()},
            "total": f"{to_decimal(instance.meter.total(self._market.now), NANO):f}",
            "billed": str(billed_total(self._market, instance)),
        }

    def _machine(self, wish: Json) -> Machine:
        machine = self._market.machines.get(int(amount(wish, "machine_id")))
        if machine is None:
            raise BadRequest(f"no such machine: {wish.get('machine_id')}")
        return machine

    def _target(self, wish: Json) -> tuple[Machine, Chunk]:
        """The GPUs that a stranger wants."""
        if "instance_id" in wish:
            instance = self._market.get(int(amount(wish, "instance_id")))
            return self._market.machines[instance.machine_id], instance.gpu_ids
        machine = self._machine(wish)
        count = int(amount({"num_gpus": machine.spec.gpu_count, **wish}, "num_gpus"))
        for chunk in machine.spec.chunks():
            if len(chunk) == count:
                return machine, chunk
        raise BadRequest(f"machine {machine.spec.machine_id} does not rent out {count} GPUs together")
