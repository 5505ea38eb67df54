"""Copies of users' code, and the outputs of jobs."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.answers.jobs import TakenCode
from autopilot.answers.scalars import Described


@dataclass(frozen=True, kw_only=True)
class CodeThere(Described):
    there: bool
    missing: list[int] | None
    """Numbers of the parts still to be sent; null: the index is still to be sent."""


@dataclass(frozen=True, kw_only=True)
class CodeBegun(Described):
    missing: list[int]


@dataclass(frozen=True, kw_only=True)
class Nothing(Described):
    """An empty object."""


@dataclass(frozen=True, kw_only=True)
class CodeOfJob(Described):
    name: str
    code: TakenCode
    urls: list[str]
    """URLs of the index and of each part."""


@dataclass(frozen=True, kw_only=True)
class OutputPart(Described):
    key: str
    size: int
    sha256: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Outputs(Described):
    name: str
    parts: list[OutputPart]
