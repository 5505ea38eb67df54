"""Which CUDA a driver supports, and which one a GPU needs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.gpu_names import NAMES
from autopilot.domain.gpu_support import compute_cap_of, cuda_of_driver, least_cuda_of
from autopilot.domain.host import NO_FACTS, HostFacts


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("450.80.02", "11.0"),
        ("524.99", "11.8"),
        ("525.60.13", "12.0"),
        ("550.54.14", "12.4"),
        ("579.99", "12.9"),
        ("580.65.06", "13.0"),
        ("610.10", "13.1"),
        ("390.10", None),
        ("", None),
        ("open-580", None),
    ],
)
def test_a_driver_supports_its_cuda(driver: str, cuda: str | None) -> None:
    assert cuda_of_driver(driver) == (None if cuda is None else Decimal(cuda))


@pytest.mark.parametrize(("major", "first_driver"), [("11.0", 450), ("12.0", 525), ("13.0", 580)])
def test_a_major_version_is_the_drivers_that_run_all_its_programs(major: str, first_driver: int) -> None:
    """NVIDIA's minor-version compatibility: 11.x on 450, 12.x on 525, 13.x on 580."""
    assert (cuda_of_driver(str(first_driver)) or 0) >= Decimal(major)
    assert (cuda_of_driver(str(first_driver - 1)) or 0) < Decimal(major)


@pytest.mark.parametrize(
    ("gpu", "facts", "cuda"),
    [
        ("RTX 5090", NO_FACTS, "12.8"),
        ("RTX PRO 6000 S", NO_FACTS, "12.8"),
        ("B200", NO_FACTS, "12.8"),
        ("B300", NO_FACTS, "12.9"),
        ("RTX 4090", NO_FACTS, "11.8"),
        ("RTX 4090", HostFacts(compute_cap=Decimal("12.0")), "12.8"),
        ("Tesla V100", NO_FACTS, None),
        ("MI300X", NO_FACTS, None),
        ("a GPU of next year", NO_FACTS, None),
        ("a GPU of next year", HostFacts(compute_cap=Decimal("13.0")), "12.9"),
    ],
)
def test_a_gpu_needs_a_driver_that_knows_it(gpu: str, facts: HostFacts, cuda: str | None) -> None:
    assert least_cuda_of(gpu, facts) == (None if cuda is None else Decimal(cuda))


def test_every_nvidia_gpu_of_the_list_has_its_capability() -> None:
    assert [name for name in NAMES if compute_cap_of(name) is None] == ["MI300X"]
