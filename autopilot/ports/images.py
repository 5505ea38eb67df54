"""What an image says of itself, read from its registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autopilot.domain.image import ImageFacts
from autopilot.domain.registry import RegistryLogin


@dataclass(frozen=True, slots=True)
class NoSuchImage:
    """The registry knows the repository, or would say so, and has nothing under that tag or digest."""

    message: str


@dataclass(frozen=True, slots=True)
class NotRead:
    """It is not known what the image needs. That says nothing against it."""

    reason: str


ImageAnswer = ImageFacts | NoSuchImage | NotRead


class ImageReader(Protocol):
    async def read(self, image: str, login: RegistryLogin | None) -> ImageAnswer:
        """Never raises for what a registry does, and ends within a bounded time.

        ``login``: the job's, for its own registry.
        """
        ...
