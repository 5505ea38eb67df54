"""kill -9 of a real daemon, then a new one: the job succeeds, nothing is rented twice, nothing is left."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.cli.client import Json
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import Reference, checks
from tests.acceptance.stage import a_theatre, is_settled, job_text, market_events, show, submit, until

pytestmark = pytest.mark.slow

STEPS = 6000


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    with a_theatre() as made:
        made.start_market()
        made.start_daemon()
        yield made


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Reference]:
    """The same training without interruption, meanwhile."""
    made = Reference(tmp_path, STEPS)
    yield made
    made.stop()


def killed_when_the_market_records(theatre: Theatre, kind: str, before: int = 0) -> None:
    """The market has done what it was asked, the daemon has not heard of it, and never will."""
    until(lambda: len(market_events(theatre, kind)) > before, kind, every_s=0.02)
    theatre.kill_daemon()


def at_work_with_a_checkpoint(theatre: Theatre, job_id: str) -> Json:
    """The lease, once its agent works and a checkpoint of it is verified."""

    def look() -> Json | None:
        job = show(theatre, job_id)["job"]
        main, checkpoint = job["main"], job["checkpoint"]
        ready = job["status"] == "running" and main and checkpoint and checkpoint["lease_id"] == main["id"]
        return dict(main) if ready else None

    lease: Json = until(look, "a running job with a checkpoint")
    return lease


def outbid(theatre: Theatre, lease: Json) -> None:
    bid = (Decimal(lease["bid"]) * Decimal("1.05")).quantize(Decimal("0.001"))
    theatre.emu("rival", {"instance_id": int(lease["instance_id"]), "bid": str(bid)})


def assert_all_is_well(theatre: Theatre, body: Json, reference: Reference) -> None:
    failed = [check for check in checks(theatre, body["job"], reference) if not check.holds]
    assert not failed, f"{failed}; events {[event['name'] for event in body['events']]}"
    asked = Counter(event["label"] for event in market_events(theatre, "create.requested"))
    made = Counter(event["label"] for event in market_events(theatre, "instance.created"))
    assert max(asked.values()) == max(made.values()) == 1, f"a create was sent twice: {asked}, {made}"


def test_killed_during_the_create_the_re_bid_and_the_release(theatre: Theatre, reference: Reference) -> None:
    # The answers hang, so at each kill the daemon has sent its call and has not recorded the outcome.
    theatre.emu("fault", {"on": "create", "kind": "effect_then_timeout"})
    job_id = submit(theatre, job_text(STEPS))
    killed_when_the_market_records(theatre, "instance.created")
    theatre.start_daemon()

    lease = at_work_with_a_checkpoint(theatre, job_id)
    theatre.emu("fault", {"on": "bid", "kind": "effect_then_timeout"})
    outbid(theatre, lease)
    killed_when_the_market_records(theatre, "bid.changed")
    theatre.start_daemon()

    theatre.emu("fault", {"on": "destroy", "kind": "effect_then_timeout"})
    killed_when_the_market_records(theatre, "instance.destroyed")
    theatre.start_daemon()

    body = until(lambda: _settled(theatre, job_id), "the end of the job and its bill")
    assert_all_is_well(theatre, body, reference)
    assert len(theatre.emu("instances")["instances"]) == 1
    names = [event["name"] for event in body["events"]]
    assert "lease.adopted" in names
    assert "lease.resumed" in names


def _settled(theatre: Theatre, job_id: str) -> Json | None:
    body = show(theatre, job_id)
    return body if is_settled(theatre, body) else None


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_moments(theatre: Theatre, reference: Reference, seed: int) -> None:
    """Five kills in each run, at moments drawn from the seed, some of them before the new daemon's first tick."""
    rng = random.Random(seed)
    job_id = submit(theatre, job_text(STEPS))
    if seed % 2:
        theatre.emu("fault", {"on": "create", "kind": rng.choice(["effect_then_reset", "effect_then_500"])})
    kills, struck = 0, False
    while kills < 5:
        time.sleep(rng.uniform(0.0, 3.0))
        theatre.kill_daemon()
        kills += 1
        if rng.random() < 0.3:
            theatre.launch_daemon()
            time.sleep(rng.uniform(0.2, 2.0))
            theatre.kill_daemon()
            kills += 1
        theatre.start_daemon()
        main = show(theatre, job_id)["job"]["main"]
        if not struck and main is not None and main["running_since"] is not None:
            outbid(theatre, main)
            struck = True
    body = until(lambda: _settled(theatre, job_id), "the end of the job and its bill")
    assert_all_is_well(theatre, body, reference)
