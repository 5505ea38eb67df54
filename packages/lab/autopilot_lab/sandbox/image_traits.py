"""What images ask of the host that is to run them. An image that stands in no table asks for nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageTraits:
    needs_cuda: str | None = None
    """``NVIDIA_REQUIRE_CUDA`` of its configuration, as far as it concerns a GeForce: the least CUDA of the driver."""
    architectures: tuple[str, ...] = ("amd64", "arm64")


NEEDS_CUDA_12_8 = "nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"
AMD64_ONLY = "autopilot/only-amd64:1"
_IMAGES = {
    NEEDS_CUDA_12_8: ImageTraits(needs_cuda="12.8"),
    "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04": ImageTraits(needs_cuda="11.8"),
    AMD64_ONLY: ImageTraits(architectures=("amd64",)),
}
_ASKS_NOTHING = ImageTraits()


def traits_of(image: str) -> ImageTraits:
    return _IMAGES.get(image, _ASKS_NOTHING)
