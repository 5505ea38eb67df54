"""Names of images as Docker reads them, and what their variables require of a driver as NVIDIA's toolkit reads them."""

from __future__ import annotations

import pytest

from autopilot.domain.cuda_requirement import Driver, read_requirement, read_version
from autopilot.domain.image import ImageName, read_image_name

OLD = "cuda>=12.8 brand=tesla,driver>=535,driver<536 brand=geforce,driver>=535,driver<536"
TESLA, GEFORCE = frozenset({"tesla", "nvidia"}), frozenset({"geforce", "geforcertx"})


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("python", ImageName("docker.io", "library/python", "latest")),
        ("python:3.12", ImageName("docker.io", "library/python", "3.12")),
        ("me/train:1", ImageName("docker.io", "me/train", "1")),
        ("docker.io/me/train:1", ImageName("docker.io", "me/train", "1")),
        ("ghcr.io/me/train", ImageName("ghcr.io", "me/train", "latest")),
        ("localhost:5000/train:1", ImageName("localhost:5000", "train", "1")),
        ("ghcr.io/a/b:1@sha256:" + "0" * 64, ImageName("ghcr.io", "a/b", "sha256:" + "0" * 64)),
    ],
)
def test_names(image: str, name: ImageName) -> None:
    assert read_image_name(image) == name


@pytest.mark.parametrize(
    ("driver", "is_met"),
    [
        (Driver(cuda=(12, 8)), True),
        (Driver(cuda=(13, 0)), True),
        (Driver(cuda=(12, 4), version=(550, 54, 15), brands=GEFORCE), False),
        (Driver(cuda=(12, 2), version=(535, 183, 1), brands=frozenset({"tesla"})), True),
        (Driver(cuda=(12, 2), version=(535, 183, 1), brands=TESLA), None),
        (Driver(cuda=(12, 2), version=(535, 183, 1), brands=frozenset({"quadro"})), False),
        (Driver(cuda=(12, 2)), None),
        (Driver(), None),
    ],
)
def test_a_space_is_or_and_a_comma_is_and(driver: Driver, is_met: bool | None) -> None:
    assert read_requirement({"NVIDIA_REQUIRE_CUDA": OLD}).is_met(driver) is is_met


def test_every_variable_has_to_hold() -> None:
    required = read_requirement({"NVIDIA_REQUIRE_CUDA": "cuda>=11.8", "NVIDIA_REQUIRE_ARCH": "arch>=8.0"})
    assert required.is_met(Driver(cuda=(12, 0), compute=(7, 5))) is False
    assert required.is_met(Driver(cuda=(12, 0), compute=(8, 6))) is True
    assert required.is_met(Driver(cuda=(11, 0))) is False
    assert required.is_met(Driver(cuda=(12, 0))) is None
    assert required.least_cuda == (11, 8)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NVIDIA_REQUIRE_CUDA": OLD, "NVIDIA_DISABLE_REQUIRE": "true"},
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12.8 moon=full"},
        {"NVIDIA_REQUIRE_CUDA": "   "},
        {"CUDA_VERSION": "latest"},
    ],
)
def test_what_requires_nothing(variables: dict[str, str]) -> None:
    assert not read_requirement(variables)
    assert read_requirement(variables).is_met(Driver(cuda=(1, 0))) is True


def test_an_image_of_the_time_before_requires_the_cuda_that_it_names() -> None:
    assert str(read_requirement({"CUDA_VERSION": "9.0.176"})) == "cuda>=9.0"
    assert str(read_requirement({"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.0"})) == "cuda>=12.0"


def test_it_is_shown_by_its_first_group() -> None:
    assert str(read_requirement({"NVIDIA_REQUIRE_CUDA": OLD})) == "cuda>=12.8 (or one of 2 other combinations)"


def test_versions() -> None:
    assert read_version("535.183.01") == (535, 183, 1)
    assert read_version("12.x") is None
    assert read_version("") is None
