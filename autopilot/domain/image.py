"""What an image is called, and what its own configuration says of the machines that it needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.domain.cuda_requirement import Requirement, read_requirement
from autopilot.domain.registry import DOCKER_HUB, server_of

USUAL_ARCHITECTURE = "amd64"
READ_VARIABLES = ("NVIDIA_REQUIRE_", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION")
"""Beginnings of those variables of an image that say what it requires of a driver."""


@dataclass(frozen=True, slots=True)
class ImageName:
    server: str
    repository: str
    reference: str
    """A tag, or a digest as ``sha256:…``."""

    @property
    def is_digest(self) -> bool:
        return ":" in self.reference


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What a registry says of one image. It never changes under one digest."""

    digest: str
    architectures: tuple[str, ...]
    """For which it is built, in Docker's words: ``amd64``, ``arm64``."""
    variables: tuple[tuple[str, str], ...] = ()
    """Of its environment those that say what it requires of a driver."""
    entrypoint: tuple[str, ...] = ()
    user: str = ""
    layers_bytes: int = 0
    """Compressed, as a machine downloads them."""

    def require(self, own: tuple[tuple[str, str], ...] = ()) -> Requirement:
        """What a driver must have to start it. ``own``: the job's environment, which comes before the image's."""
        return read_requirement({**dict(self.variables), **dict(own)})


def read_image_name(image: str) -> ImageName:
    """As Docker reads it: ``python`` is ``docker.io/library/python:latest``. A digest comes before a tag."""
    server = server_of(image)
    rest = image.removeprefix(server + "/")
    rest, _, digest = rest.partition("@")
    path, colon, tag = rest.rpartition(":")
    repository = path if colon and "/" not in tag else rest
    tag = tag if colon and "/" not in tag else "latest"
    if server == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return ImageName(server, repository, digest or tag)
