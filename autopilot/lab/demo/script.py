"""The trouble that the demo makes, act by act. Each act waits for the job to work, strikes, and expects an answer.

An answer is a sequence of ledger events of the daemon; the demo fails if one of them never comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from autopilot.cli.client import Json
from autopilot.lab.demo.theatre import Theatre

SURGE = Decimal("1.25")

Strike = Callable[[Theatre, Json], None]


@dataclass(frozen=True)
class Act:
    title: str
    strike: Strike
    answer: tuple[str, ...]
    """Names of events that must follow the strike, in this order."""


GPU_ON = {"vastai": "RTX 4090", "runpod": "NVIDIA GeForce RTX 4090"}


def set_stage(theatre: Theatre) -> None:
    """RunPod's spot floors are out of reach at first, so that the job begins on vast.ai."""
    _reprice_runpod(theatre, "0.42")


def _outbid(theatre: Theatre, lease: Json) -> None:
    _reprice_vast(theatre, SURGE, but=lease["machine_id"])
    rival_bid = (Decimal(lease["bid"]) * Decimal("1.02")).quantize(Decimal("0.001"))
    theatre.emu("rival", {"instance_id": int(lease["instance_id"]), "bid": str(rival_bid)})


def _displace_and_lose_a_response(theatre: Theatre, lease: Json) -> None:
    # At the prices of the first act, waiting for better ones would cost about as much as going on elsewhere.
    _reprice_vast(theatre, 1 / SURGE, but=lease["machine_id"])
    theatre.emu("fault", {"on": "create", "kind": "effect_then_reset", "times": 1})
    theatre.emu("on_demand_arrival", {"instance_id": int(lease["instance_id"])})


def _vanish(theatre: Theatre, lease: Json) -> None:
    theatre.emu("host", {"machine_id": int(lease["machine_id"]), "state": "vanished"})
    _reprice_vast(theatre, SURGE, but=lease["machine_id"])
    _reprice_runpod(theatre, "0.22")


def _reprice_vast(theatre: Theatre, factor: Decimal, but: str) -> None:
    for machine in theatre.emu("machines")["machines"]:
        if machine["gpu_name"] == GPU_ON["vastai"] and str(machine["machine_id"]) != but:
            price = (Decimal(machine["floor"]) * factor).quantize(Decimal("0.0001"))
            theatre.emu("floor", {"machine_id": machine["machine_id"], "price": str(price)})


def _reprice_runpod(theatre: Theatre, price: str) -> None:
    for machine in theatre.emu("runpod/machines")["machines"]:
        if machine["gpu_type_id"] == GPU_ON["runpod"]:
            theatre.emu("runpod/floor", {"machine_id": machine["machine_id"], "price": price})


ACTS = (
    Act(
        "demand rises: floors go up by 25 %, and a rival outbids our machine by 2 %",
        _outbid,
        ("lease.paused", "bid.changed", "lease.resumed"),
    ),
    Act(
        "floors fall again, an on-demand renter takes the machine, and the answer to the next create is lost",
        _displace_and_lose_a_response,
        ("lease.paused", "lease.release_requested", "lease.create_unknown", "lease.adopted", "lease.running"),
    ),
    Act(
        "the host vanishes for good, vast.ai gets dearer, and RunPod cheaper",
        _vanish,
        ("lease.offline", "lease.release_requested", "lease.acquired", "lease.running"),
    ),
)


class Script:
    """Plays the acts one after the other as the job's state allows."""

    def __init__(self, theatre: Theatre, acts: tuple[Act, ...] = ACTS) -> None:
        self._theatre = theatre
        self._acts = acts
        self._struck = 0
        self._seq_at_strike = 0
        self._checkpoint_at_strike: tuple[object, ...] = ()

    @property
    def is_over(self) -> bool:
        return self._struck == len(self._acts)

    def play(self, body: Json) -> Act | None:
        """Look at the job (``GET /v1/jobs/{ref}``) and strike if it is time; returns the act that was begun."""
        if self.is_over or not self.is_answered(body) or not self._is_at_work_with_new_checkpoint(body):
            return None
        act = self._acts[self._struck]
        act.strike(self._theatre, body["job"]["main"])
        self._struck += 1
        self._seq_at_strike = max((event["seq"] for event in body["events"]), default=0)
        self._checkpoint_at_strike = _checkpoint(body)
        return act

    def is_answered(self, body: Json) -> bool:
        """Whether the act struck last has had its whole answer."""
        if self._struck == 0:
            return True
        names = iter(event["name"] for event in body["events"] if event["seq"] > self._seq_at_strike)
        return all(expected in names for expected in self._acts[self._struck - 1].answer)

    def _is_at_work_with_new_checkpoint(self, body: Json) -> bool:
        job = body["job"]
        at_work = job["status"] == "running" and job["main"] is not None and job["main"]["agent_state"] == "running"
        return at_work and job["checkpoint"] is not None and _checkpoint(body) != self._checkpoint_at_strike


def _checkpoint(body: Json) -> tuple[object, ...]:
    checkpoint = body["job"]["checkpoint"]
    return (checkpoint["lease_id"], checkpoint["number"]) if checkpoint else ()
