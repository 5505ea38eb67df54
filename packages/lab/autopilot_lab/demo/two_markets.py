"""The story of ``autopilot demo``: outbid, displaced and left by a host on vast.ai, a job ends on RunPod."""

from __future__ import annotations

from decimal import Decimal

from autopilot.cli.client import Json
from autopilot_lab.demo.script import Act, Stage, Story
from autopilot_lab.demo.verdict import moved_along

SURGE = Decimal("1.25")
RIVAL = Decimal("1.02")
GPU_ON = {"vastai": "RTX 4090", "runpod": "NVIDIA GeForce RTX 4090"}


def price_out_runpod(stage: Stage) -> None:
    """Its spot floors are out of reach, so that jobs begin on vast.ai."""
    _reprice_runpod(stage, "0.42")


def _set_stage(stage: Stage) -> None:
    # The other machines are dear before the rival comes, not as it comes: offers are up to a minute old, and at lower
    # prices leaving would cost less than a raise, which goes a tenth over what wins.
    price_out_runpod(stage)
    cheapest = min(_on_vast(stage), key=lambda machine: Decimal(machine["floor"]))
    _reprice_vast(stage, SURGE, but=str(cheapest["machine_id"]))


def _outbid(stage: Stage, lease: Json) -> None:
    rival_bid = (Decimal(lease["bid"]) * RIVAL).quantize(Decimal("0.001"))
    stage.emu("rival", {"instance_id": int(lease["instance_id"]), "bid": str(rival_bid)})


def _displace_and_lose_a_response(stage: Stage, lease: Json) -> None:
    # At the raised floors, waiting for better ones would cost about as much as going on elsewhere.
    _reprice_vast(stage, 1 / SURGE, but=lease["machine_id"])
    stage.emu("fault", {"on": "create", "kind": "effect_then_reset", "times": 1})
    stage.emu("on_demand_arrival", {"instance_id": int(lease["instance_id"])})


def _vanish(stage: Stage, lease: Json) -> None:
    stage.emu("host", {"machine_id": int(lease["machine_id"]), "state": "vanished"})
    _reprice_vast(stage, SURGE, but=lease["machine_id"])
    _reprice_runpod(stage, "0.22")


def _reprice_vast(stage: Stage, factor: Decimal, but: str) -> None:
    for machine in _on_vast(stage):
        if str(machine["machine_id"]) != but:
            price = (Decimal(machine["floor"]) * factor).quantize(Decimal("0.0001"))
            stage.emu("floor", {"machine_id": machine["machine_id"], "price": str(price)})


def _on_vast(stage: Stage) -> list[Json]:
    return [machine for machine in stage.emu("machines")["machines"] if machine["gpu_name"] == GPU_ON["vastai"]]


def _reprice_runpod(stage: Stage, price: str) -> None:
    for machine in stage.emu("runpod/machines")["machines"]:
        if machine["gpu_type_id"] == GPU_ON["runpod"]:
            stage.emu("runpod/floor", {"machine_id": machine["machine_id"], "price": price})


TWO_MARKETS = Story(
    markets=("vastai", "runpod"),
    job="demo",
    speed=60.0,
    set_stage=_set_stage,
    acts=(
        Act(
            "outbid",
            "a rival outbids our machine by 2 %, and all others cost more",
            _outbid,
            ("lease.paused", "bid.changed", "lease.resumed"),
        ),
        Act(
            "displaced, lost answer",
            "floors fall, an on-demand renter takes the machine, and the answer to the next create is lost",
            _displace_and_lose_a_response,
            ("lease.paused", "lease.release_requested", "lease.create_unknown", "lease.adopted", "lease.running"),
        ),
        Act(
            "lost host",
            "the host vanishes for good, vast.ai prices rise, and RunPod's fall",
            _vanish,
            ("lease.offline", "lease.release_requested", "lease.acquired", "lease.running"),
        ),
    ),
    checks=(moved_along("vastai", "runpod"),),
)
