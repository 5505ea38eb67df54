"""RunPod with spot, with spot sold out, without the spot mutation, without GraphQL: a job finishes in each."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import Reference, checks
from tests.acceptance.stage import SPEED, command, is_settled, job_text, show, submit, until

STEPS = 2500


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    made = Theatre(root, seed=1, speed=SPEED, markets=("runpod",))
    try:
        made.start_market()
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Reference]:
    made = Reference(tmp_path, STEPS)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("mode", "capacity"),
    [
        pytest.param("normal", "spot", marks=pytest.mark.slow),
        pytest.param("no_supply", "on_demand", marks=pytest.mark.slow),
        pytest.param("mutation_removed", "on_demand", marks=pytest.mark.slow),
        pytest.param("graphql_gone", "on_demand", marks=pytest.mark.slow),
    ],
)
def test_a_job_finishes_in_each_mode_of_spot(theatre: Theatre, reference: Reference, mode: str, capacity: str) -> None:
    theatre.emu("runpod/mode", {"spot": mode})
    theatre.start_daemon()
    job_id = submit(theatre, job_text(STEPS))
    body = until(lambda: _settled(theatre, job_id), f"a settled job in mode {mode}")
    failed = [check for check in checks(theatre, body["job"], reference) if not check.holds]
    assert not failed, f"{failed}; events {[event['name'] for event in body['events']]}"
    rented = [lease for lease in body["leases"] if lease["instance_id"]]
    assert [lease["capacity_type"] for lease in rented] == [capacity]


@pytest.mark.parametrize(("mode", "word"), [("normal", "spot"), ("mutation_removed", "no spot")])
@pytest.mark.slow
def test_doctor_says_what_it_found(theatre: Theatre, mode: str, word: str) -> None:
    theatre.emu("runpod/mode", {"spot": mode})
    done = command(theatre, "doctor", "--json", AUTOPILOT_CLOCK__SPEED="1")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["runpod"]["detail"].count("no spot") == (word == "no spot"), done.stdout
    assert word in checks["runpod"]["detail"]


def _settled(theatre: Theatre, job_id: str) -> object:
    body = show(theatre, job_id)
    return body if is_settled(theatre, body) else None
