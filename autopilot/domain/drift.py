"""Drift: a market's answer that differs from the shape that its adapter was written for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class DriftKind(StrEnum):
    MISSING = "missing"
    """The field is no longer there."""
    NEW = "new"
    """The field was never seen before."""
    TYPE = "type"
    """A number where there was a text, null if there never was one, and the like."""
    VALUE = "value"
    """A word, or a form of text, that is not among the known ones."""


DriftKey = tuple[str, str, str, DriftKind]


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference, counted by the rows that showed it. ``sample``: of the first one, without its values.

    ``is_read``: the adapter relies on the field, where it only knows others. ``is_money``: what we pay, or believe to
    pay, comes from it.
    """

    provider: str
    answer: str
    field: str
    kind: DriftKind
    is_read: bool
    is_money: bool
    count: int
    first_seen_at: datetime
    last_seen_at: datetime
    sample: str

    @property
    def key(self) -> DriftKey:
        return self.provider, self.answer, self.field, self.kind

    def after(self, earlier: Drift | None) -> Drift:
        """The two as one; ``earlier`` is of the same key."""
        if earlier is None:
            return self
        first = min(earlier.first_seen_at, self.first_seen_at)
        return replace(self, count=earlier.count + self.count, first_seen_at=first, sample=earlier.sample)
