"""The story of ``autopilot demo --all-markets``: three kinds of auction, two of them of virtual machines.

A job begins in a container on vast.ai, is outbid there, resumes at Mithril, is preempted with five minutes' notice, and
ends on Nebius.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from autopilot.client.answer import Json
from autopilot_lab.demo.script import Act, DemoCheck, DemoEnd, Stage, Story
from autopilot_lab.demo.verdict import moved_along

ON_VAST = "A100 SXM4"
AT_MITHRIL = "a100-80gb.sxm.1x"
ON_NEBIUS = "gpu-h200-sxm"
RIVAL = 3
"""Times our bid: no raise makes sense."""
OUT_OF_REACH, IN_REACH = Decimal("4.80"), Decimal("2.20")
"""$/h of Nebius's GPU: the job pays $3.00 at most."""


def _set_stage(stage: Stage) -> None:
    # All but the first machine are out of reach before they are asked for, for offers are up to a minute old.
    cheapest = min(_on_vast(stage), key=lambda machine: Decimal(machine["floor"]))
    _price_out_vast(stage, but=str(cheapest["machine_id"]))
    _reprice_nebius(stage, OUT_OF_REACH)


def _outbid(stage: Stage, lease: Json) -> None:
    stage.emu("rival", {"instance_id": int(lease["instance_id"]), "bid": str(Decimal(lease["bid"]) * RIVAL)})
    _price_out_vast(stage)


def _preempt(stage: Stage, lease: Json) -> None:
    limit = str(Decimal(lease["bid"]) * RIVAL)
    for pool in stage.emu("mithril/auctions")["auctions"]:
        if pool["name"] == AT_MITHRIL:
            place = {"region": pool["region"], "instance_type": pool["instance_type"]}
            stage.emu("mithril/rival", {**place, "limit": limit})
    _reprice_nebius(stage, IN_REACH)


def _on_vast(stage: Stage) -> list[Json]:
    return [machine for machine in stage.emu("machines")["machines"] if machine["gpu_name"] == ON_VAST]


def _price_out_vast(stage: Stage, but: str = "") -> None:
    """Floors as high as the price on demand: no bid goes so far."""
    for machine in _on_vast(stage):
        if str(machine["machine_id"]) != but:
            stage.emu("floor", {"machine_id": machine["machine_id"], "price": machine["on_demand"]})


def _reprice_nebius(stage: Stage, price: Decimal) -> None:
    for pool in stage.emu("nebius/pools")["pools"]:
        if pool["platform"] == ON_NEBIUS:
            place = {"region": pool["region"], "platform": pool["platform"]}
            stage.emu("nebius/price", {**place, "price": str(price), "now": True})


def _saved_within_notice(end: DemoEnd) -> DemoCheck:
    """A job that got a notice saved after it, so that it lost less work than the notice was long."""
    what = "no work was lost beyond the notice"
    moments = {each["kind"]: datetime.fromisoformat(each["at"]) for each in end.stage.emu("mithril/events")["events"]}
    warning = next((event for event in end.body["events"] if event["name"] == "lease.notice"), None)
    if warning is None or not {"machine.preempting", "machine.preempted"} <= moments.keys():
        return DemoCheck(what, False, "no machine was warned")
    notice_s = (moments["machine.preempted"] - moments["machine.preempting"]).total_seconds()
    own = [event for event in end.body["events"] if event["lease_id"] == warning["lease_id"]]
    after = [event for event in own if event["seq"] > warning["seq"]]
    saves = sum(event["name"] == "checkpoint.verified" for event in after)
    lost_s = sum(event["fields"]["seconds"] for event in after if event["name"] == "work.lost")
    detail = f"{notice_s:.0f} s of notice, {saves} checkpoints within it, {lost_s} s of work lost"
    return DemoCheck(what, saves > 0 and lost_s < notice_s, detail)


ALL_MARKETS = Story(
    markets=("vastai", "mithril", "nebius"),
    job="demo-all-markets",
    speed=30.0,
    extra="nebius",
    set_stage=_set_stage,
    acts=(
        Act(
            "outbid",
            "a rival on vast.ai bids three times as much as we do, and floors rise to the on-demand price",
            _outbid,
            ("lease.paused", "lease.release_requested", "lease.acquired", "lease.running"),
        ),
        Act(
            "preempted with notice",
            "all of Mithril's A100s are taken at three times our limit, and Nebius prices fall",
            _preempt,
            ("lease.notice", "lease.paused", "lease.release_requested", "lease.acquired", "lease.running"),
        ),
    ),
    checks=(moved_along("vastai", "mithril", "nebius"), _saved_within_notice),
)
