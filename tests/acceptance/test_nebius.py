"""A real daemon, a real emulator and real virtual machines as processes: a job on Nebius from its cap to its end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS
from tests.acceptance.stage import command, is_settled, job_text, show, submit, until
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
    made = Theatre(root, seed=1, speed=SPEED, markets=("nebius",))
    try:
        made.start_market()
        made.start_daemon()
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


def the_vm(theatre: Theatre) -> dict[str, Any]:
    (vm,) = theatre.emu("nebius/vms")["vms"]
    return dict(vm)


def set_price(theatre: Theatre, vm: dict[str, Any], price: Decimal) -> None:
    """Of its kind in its region, from now on; all others are dear."""
    for pool in theatre.emu("nebius/pools")["pools"]:
        is_its = pool["platform"] == vm["platform"] and PROJECTS[pool["region"]] == vm["project"]
        wish = {"region": pool["region"], "platform": pool["platform"], "price": str(price if is_its else 90)}
        theatre.emu("nebius/price", {**wish, "now": True})


def is_at_work(theatre: Theatre, job_id: str, least: int = 0) -> bool:
    job = show(theatre, job_id)["job"]
    return bool(job["status"] == "running" and job["step"] > least)


def test_a_job_is_preempted_is_started_again_once_it_may_pay_more_and_leaves_nothing(theatre: Theatre) -> None:
    gpu = 'gpu = "H200:1"\nmax_hourly = "$4.50"'
    job_id = submit(theatre, job_text(STEPS, gpu=gpu, disk='disk = "40GB"', total='total = "$60.00"'))
    until(lambda: is_at_work(theatre, job_id), "it works", LONG_S)
    vm = the_vm(theatre)
    cap = D(theatre.emu("nebius/policies")["policies"][0]["max_price"])
    # Beyond what the job may pay: the machine is shut down, saves within its minute, and lies stopped.
    before = show(theatre, job_id)["job"]["step"]
    set_price(theatre, vm, D("4.60"))
    until(lambda: the_vm(theatre)["state"] == "STOPPED" and not the_vm(theatre)["settling"], "it is stopped", LONG_S)
    # A cap is free, so it was all that the job may pay. Its owner allows more: another policy takes the place of its
    # own, and the machine is started.
    assert cap == D("4.50")
    changed = command(theatre, "change", job_id, "max_hourly=5.50")
    assert changed.returncode == 0, changed.stderr
    until(lambda: the_vm(theatre)["boots"] == 2 and is_at_work(theatre, job_id, before), "it is back", LONG_S)
    (policy,) = theatre.emu("nebius/policies")["policies"]
    assert D(policy["max_price"]) >= D("4.60")
    body = until(lambda: _settled(theatre, job_id), "it is over", LONG_S * 4)
    assert body["job"]["status"] == "succeeded"
    assert [lease["instance_id"] for lease in body["leases"] if lease["instance_id"]] == [vm["id"]]
    assert the_vm(theatre)["gone"]
    assert not the_vm(theatre)["left_disk"]
    assert theatre.emu("nebius/policies")["policies"] == []
    (book,) = theatre.emu("nebius/books")["books"]
    (row,) = theatre.client.get("/v1/spend", by="instance")["rows"]
    # The price is looked at once a minute, a machine once a tick; each change may be off by as much.
    assert abs(D(row["posted"]) - D(book["total"])) <= D("0.30"), (row, book)


def _settled(theatre: Theatre, job_id: str) -> object:
    body = show(theatre, job_id)
    return body if is_settled(theatre, body) else None
