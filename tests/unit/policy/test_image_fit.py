"""An image's own requirement removes the machines on which it would not start, and no others."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from autopilot import render
from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Note
from autopilot.domain.host import Arch, HostFacts
from autopilot.domain.image import ImageFacts
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.policy.eligibility import Eligibility, Unfit
from autopilot.policy.wait import wait_notes
from autopilot.words.reasons import tell
from tests.builders import START, a_job, a_market, an_offer

P = Params()
OWN = "cuda>=12.8 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536"
IMAGE = ImageFacts("sha256:0", ("amd64",), (("NVIDIA_REQUIRE_CUDA", OWN), ("CUDA_VERSION", "12.8.1")))
TAGGED = ImageFacts("sha256:1", ("amd64", "arm64"))
"""Of a name like ``12.8-runtime``, which requires nothing."""


def of(gpu: str = "RTX 4090", **facts: object) -> Offer:
    return replace(an_offer(gpu=gpu), host=HostFacts(**facts))  # type: ignore[arg-type]


def unmet(offer: Offer, image: ImageFacts | None = IMAGE, env: tuple[tuple[str, str], ...] = ()) -> Unfit | None:
    job = a_job()
    gpus = (replace(job.spec.gpus[0], name=offer.gpu),)
    job = replace(job, spec=replace(job.spec, gpus=gpus, env=env))
    return Eligibility(job, replace(a_market(offer), image=image), START, P).unmet(offer)


@pytest.mark.parametrize(
    ("offer", "unfit"),
    [
        (of(cuda=Decimal("12.8")), None),
        (of(cuda=Decimal("13.0"), arch=Arch.AMD64), None),
        (of(), None),
        (of(cuda=Decimal("12.2")), Unfit("image_driver", Decimal("12.2"), Decimal("12.8"))),
        (of("A100 PCIE", cuda=Decimal("12.2")), None),  # it may be the driver that the image brings libraries for
        (of(cuda=Decimal("12.2"), driver="535.183.01"), Unfit("image_driver", Decimal("12.2"), Decimal("12.8"))),
        (of("A100 PCIE", cuda=Decimal("12.2"), driver="535.183.01"), None),
        (
            of("A100 PCIE", cuda=Decimal("12.4"), driver="550.54.15"),
            Unfit("image_driver", Decimal("12.4"), Decimal("12.8")),
        ),
        (of(cuda=Decimal("13.0"), arch=Arch.ARM64), Unfit("image_arch")),
    ],
)
def test_only_what_is_known_not_to_start_is_left_out(offer: Offer, unfit: Unfit | None) -> None:
    assert unmet(offer) == unfit


def test_a_tag_is_no_gate() -> None:
    old = of(cuda=Decimal("12.2"), driver="535.183.01", arch=Arch.ARM64)
    assert unmet(old, TAGGED) is None
    assert unmet(old, None) is None


def test_the_job_may_switch_the_requirement_off_as_in_docker() -> None:
    old = of(cuda=Decimal("12.2"), driver="535.183.01")
    assert unmet(old, env=(("NVIDIA_DISABLE_REQUIRE", "1"),)) is None


def test_why_says_how_many_and_the_nearest() -> None:
    offers = [
        replace(of(cuda=Decimal(cuda), driver="535.183.01"), machine_id=cuda) for cuda in ("12.2", "12.6", "13.0")
    ]
    notes = wait_notes(a_job(), replace(a_market(*offers), image=IMAGE), START, P)
    removed = next(note for note in notes if dict(note.numbers).get("condition") == "image_driver")
    said = tell(from_json(Note, render.note(removed)))
    assert "2 with an older driver: the nearest supports CUDA 12.6, the image requires 12.8" in said
