"""GPUs as people write them and as markets list them: one table says which names mean the same."""

from __future__ import annotations

import pytest

from autopilot.domain import gpu_names
from autopilot.domain.job import GpuChoice
from autopilot.policy.eligibility import why_not
from autopilot.pricing.gpu_speeds import speed
from tests.builders import D, a_spec, an_offer

RUNPOD_IDS = {
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA A100 80GB PCIe": "A100 PCIE",
    "NVIDIA A100-SXM4-80GB": "A100 SXM4",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIE",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000Ada",
    "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA GeForce RTX 4080 SUPER": "RTX 4080S",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000 S",
    "Tesla V100-SXM2-16GB": "Tesla V100",
    "AMD Instinct MI300X OAM": "MI300X",
    "NVIDIA L40S": "L40S",
    "NVIDIA B300 SXM6 AC": "B300",
}


@pytest.mark.parametrize("written", ["4090", "rtx_4090", "RTX4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"])
def test_one_model_has_many_spellings(written: str) -> None:
    assert gpu_names.expand(written) == ("RTX 4090",)
    assert gpu_names.meaning(written) == ""


@pytest.mark.parametrize(
    ("written", "models"),
    [
        ("A100 80GB", ("A100 PCIE", "A100 SXM4")),
        ("a100_80gb", ("A100 PCIE", "A100 SXM4")),
        ("H100", ("H100 NVL", "H100 PCIE", "H100 SXM")),
        ("H100 80GB", ("H100 PCIE", "H100 SXM")),
        ("A100 160GB", ("A100 160GB",)),
        ("Foo  9", ("Foo 9",)),
    ],
)
def test_a_name_means_all_models_that_fit_it(written: str, models: tuple[str, ...]) -> None:
    assert gpu_names.expand(written) == models


@pytest.mark.parametrize(("listed", "model"), RUNPOD_IDS.items())
def test_the_names_of_both_markets_mean_the_same(listed: str, model: str) -> None:
    assert gpu_names.standard(listed) == model
    assert gpu_names.is_called(listed, model)


def test_each_standard_name_means_itself_alone() -> None:
    assert {name: gpu_names.expand(name) for name in gpu_names.NAMES} == {name: (name,) for name in gpu_names.NAMES}


def test_models_that_look_alike_are_told_apart() -> None:
    different = [
        ("RTX 4090", "RTX 4090D"),
        ("L40", "L40S"),
        ("RTX 3090", "RTX 3090 Ti"),
        ("A10", "A100"),
        ("A40", "L40"),
    ]
    assert not any(gpu_names.is_called(one, other) for one, other in different)


def test_the_nearest_name_is_one_that_is_listed() -> None:
    assert gpu_names.nearest("RTX 4900", gpu_names.NAMES) == "RTX 4090"
    assert gpu_names.nearest("A100 160GB", gpu_names.NAMES) == "A100 PCIE"
    assert gpu_names.nearest("H100", ("RTX 3090", "H200")) == "H200"
    assert gpu_names.nearest("anything", ()) is None


@pytest.mark.parametrize(
    ("asked", "gpu", "vram_gb", "fits"),
    [
        ("A100 80GB", "A100 SXM4", "81.92", True),
        ("A100 80GB", "A100 SXM4", "40.96", False),
        ("A100", "A100 SXM4", "40.96", True),
        ("L40S 48GB", "L40S", "46.068", True),
        ("4090", "RTX 4090", "24.564", True),
        ("4090 48GB", "RTX 4090", "24.564", False),
        ("NVIDIA A100 80GB PCIe", "A100 PCIE", "81.9", True),
        ("Foo 9", "FOO_9", "9", True),
    ],
)
def test_an_offer_fits_by_name_and_by_the_size_in_the_name(asked: str, gpu: str, vram_gb: str, fits: bool) -> None:
    offer = an_offer(gpu=gpu, vram_gb=D(vram_gb))
    assert (why_not(a_spec(gpus=(GpuChoice(asked),)), offer) is None) is fits


def test_the_market_is_searched_for_all_models_and_only_for_the_size() -> None:
    query = a_spec(gpus=(GpuChoice("A100 80GB", 2), GpuChoice("A100 SXM4 80GB", 2))).query
    assert query.gpus == (("A100 PCIE", 2), ("A100 SXM4", 2))
    assert query.min_vram_gb == 72
    assert a_spec(gpus=(GpuChoice("A100 80GB"), GpuChoice("4090"))).query.min_vram_gb == 0


def test_speeds_are_known_by_every_spelling() -> None:
    assert speed("4090") == speed("RTX 4090") == speed("NVIDIA GeForce RTX 4090") is not None
    assert speed("H100") == speed("H100 SXM") is not None
    assert speed("T4") == speed("Tesla T4") is not None
    assert speed("RTX 6000 Ada") == speed("RTX 6000Ada") is not None
