"""D5 and D6 on markets of virtual machines: a real host program finds what is wrong with an image, and the job ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autopilot.client.answer import Json
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.sandbox.image_traits import NO_PYTHON, WRONG_TAG
from tests.acceptance.stage import FINAL, a_theatre, job_text, show, submit, until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

SPEED = 20.0
"""Slow enough for a machine to boot in its time on a computer with other things to do."""
GPUS = {"mithril": 'gpu = "A100 SXM4:1"\nmax_hourly = "$2.50"', "nebius": 'gpu = "H200:1"\nmax_hourly = "$4.50"'}


@pytest.fixture(params=list(GPUS))
def theatre(request: pytest.FixtureRequest) -> Iterator[Theatre]:
    with a_theatre((request.param,), speed=SPEED) as made:
        made.start_market()
        made.start_daemon()
        yield made


@pytest.mark.timeout(900)
def test_what_is_wrong_with_the_image_ends_the_job_with_its_first_machine(theatre: Theatre) -> None:
    (market,) = theatre.markets
    faults = {NO_PYTHON: ("no_python", "no Python 3.8"), WRONG_TAG: ("image_missing", "manifest unknown")}
    lines = {"gpu": GPUS[market], "disk": 'disk = "40GB"', "total": 'total = "$60.00"'}
    jobs = {image: submit(theatre, job_text(9, **lines, image=f'image = "{image}"')) for image in faults}
    for image, job_id in jobs.items():
        body = until(lambda job_id=job_id: _over(theatre, job_id), f"{image} is found out", 4 * PATIENCE_S)  # type: ignore[misc]
        job, (fault, words) = body["job"], faults[image]
        assert (job["status"], job["reason"], len(body["leases"])) == ("failed", "image_unusable", 1), job
        start = job["failed_start"]
        assert (start["fault"], words in start["message"]) == (fault, True), start


def _over(theatre: Theatre, job_id: str) -> Json | None:
    body = show(theatre, job_id)
    return body if body["job"]["status"] in FINAL else None
