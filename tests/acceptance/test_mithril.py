"""A real daemon, a real emulator and real virtual machines as processes: a job on Mithril from its bid to its end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import is_settled, job_text, show, submit, until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

STEPS = 40_000
SPEED = 20.0
"""Slow enough for a permit of 15 minutes to last on a machine with other things to do."""
D = Decimal
LONG_S = PATIENCE_S
"""For each wait: what is waited for comes within seconds on an idle machine."""


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    made = Theatre(root, seed=1, speed=SPEED, markets=("mithril",))
    try:
        made.start_market()
        made.start_daemon()
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


def the_bid(theatre: Theatre) -> dict[str, Any]:
    (bid,) = theatre.emu("mithril/bids")["bids"]
    return dict(bid)


def the_pool(theatre: Theatre) -> dict[str, Any]:
    """That in which it bids."""
    (pool,) = (each for each in theatre.emu("mithril/auctions")["auctions"] if each["bids"])
    return dict(pool)


def events(theatre: Theatre, *kinds: str) -> list[str]:
    return [event["kind"] for event in theatre.emu("mithril/events")["events"] if event["kind"] in kinds]


def is_at_work(theatre: Theatre, job_id: str, least: int = 0) -> bool:
    job = show(theatre, job_id)["job"]
    return bool(job["status"] == "running" and job["step"] > least)


def test_a_job_is_outbid_returns_by_itself_pays_what_rivals_bid_and_leaves_no_open_bid(theatre: Theatre) -> None:
    gpu = 'gpu = "A100 SXM4:1"\nmax_hourly = "$2.50"'
    job_id = submit(theatre, job_text(STEPS, gpu=gpu, total='total = "$60.00"'))
    until(lambda: is_at_work(theatre, job_id), "it works", LONG_S)
    bid = the_bid(theatre)
    for pool in theatre.emu("mithril/auctions")["auctions"]:
        if (pool["region"], pool["instance_type"]) != (bid["region"], bid["instance_type"]):
            place = {"region": pool["region"], "instance_type": pool["instance_type"]}
            theatre.emu("mithril/rival", {**place, "limit": "900"})
    # Beyond what the job may pay: it waits, warned, and comes back when the rival has gone.
    rival = theatre.emu("mithril/rival", {"bid_id": bid["id"], "limit": "800"})["id"]
    until(lambda: events(theatre, "machine.preempted"), "it is stopped", LONG_S)
    theatre.emu("mithril/rival", {"id": rival}, method="DELETE")
    before = show(theatre, job_id)["job"]["step"]
    until(lambda: the_bid(theatre)["boots"] == 2 and is_at_work(theatre, job_id, before), "it is back", LONG_S)
    # The most that the job would pay is bid: a rival below that makes the machine dearer, and does not take it.
    assert D(the_bid(theatre)["limit"]) == D("2.50")
    theatre.emu("mithril/rival", {"bid_id": bid["id"], "limit": "2.40"})
    until(lambda: D(the_pool(theatre)["spot"]) == D("2.40"), "all pay what the rival bids", LONG_S)
    body = until(lambda: _settled(theatre, job_id), "it is over", LONG_S * 4)
    assert body["job"]["status"] == "succeeded"
    assert [lease["instance_id"] for lease in body["leases"] if lease["instance_id"]] == [bid["id"]]
    assert the_bid(theatre)["status"] == "Terminated"
    (book,) = theatre.emu("mithril/books")["books"]
    (row,) = theatre.client.get("/v1/spend", by="instance")["rows"]
    # The price is looked at once a minute, a machine once a tick; each change may be off by as much.
    assert abs(D(row["posted"]) - D(book["total"])) <= D("0.15"), (row, book)


def _settled(theatre: Theatre, job_id: str) -> object:
    body = show(theatre, job_id)
    return body if is_settled(theatre, body) else None
