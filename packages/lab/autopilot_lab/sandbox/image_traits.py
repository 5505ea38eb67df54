"""What images ask of the host that is to run them, and what they lack. One that is in no table asks for nothing."""

from __future__ import annotations

from dataclasses import dataclass

PYTHONS = ("python*", "pypy*", "conda", "uv", "pip*")


@dataclass(frozen=True)
class ImageTraits:
    needs_cuda: str | None = None
    """``NVIDIA_REQUIRE_CUDA`` of its configuration, as far as it concerns a GeForce: the least CUDA of the driver."""
    architectures: tuple[str, ...] = ("amd64", "arm64")
    pull_words: str | None = None
    """What the host's container runtime says to its pull, beside ``Error response from daemon: ``."""
    lacks: tuple[str, ...] = ()
    """Patterns of programs that are not on its PATH."""
    brings_python: bool = False
    """It has no Python, and its ``apt-get`` brings one."""
    fixed: tuple[str, ...] = ()
    """Directories in which its own user may not write."""
    entrypoint: tuple[str, ...] = ()


NEEDS_CUDA_12_8 = "nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"
AMD64_ONLY = "autopilot/only-amd64:1"
NO_PYTHON = "autopilot/no-python:1"
BRINGS_PYTHON = "autopilot/brings-python:1"
NO_BASH = "autopilot/no-bash:1"
OWN_USER = "autopilot/own-user:1"
SERVED = "autopilot/served:1"
WRONG_TAG = "autopilot/train:no-such-tag"
LIMITED = "autopilot/limited:1"
OTHER_ARCH = "autopilot/only-arm64:1"
NOT_GIVEN = "autopilot/not-given:1"
TOO_LARGE = "autopilot/too-large:1"
_IMAGES = {
    NEEDS_CUDA_12_8: ImageTraits(needs_cuda="12.8"),
    "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04": ImageTraits(needs_cuda="11.8"),
    AMD64_ONLY: ImageTraits(architectures=("amd64",)),
    NO_PYTHON: ImageTraits(lacks=PYTHONS),
    BRINGS_PYTHON: ImageTraits(lacks=PYTHONS, brings_python=True),
    NO_BASH: ImageTraits(lacks=("bash", "rbash")),
    OWN_USER: ImageTraits(fixed=("var",)),
    SERVED: ImageTraits(entrypoint=("python3", "-m", "server")),
    WRONG_TAG: ImageTraits(pull_words=f"manifest for {WRONG_TAG} not found: manifest unknown: manifest unknown"),
    LIMITED: ImageTraits(
        pull_words="toomanyrequests: You have reached your unauthenticated pull rate limit. "
        "https://www.docker.com/increase-rate-limit"
    ),
    OTHER_ARCH: ImageTraits(pull_words="no matching manifest for linux/amd64 in the manifest list entries"),
    NOT_GIVEN: ImageTraits(
        pull_words="pull access denied for autopilot/not-given, repository does not exist or may require 'docker "
        "login': denied: requested access to the resource is denied"
    ),
    TOO_LARGE: ImageTraits(pull_words="write /var/lib/docker/tmp/GetImageBlob1: no space left on device"),
}
_ASKS_NOTHING = ImageTraits()


def traits_of(image: str) -> ImageTraits:
    return _IMAGES.get(image, _ASKS_NOTHING)
