"""Faults on demand: what goes wrong, on which endpoint family, how often.

A kind belongs to one of three groups. *Lost*: the call has no effect. *Unheard*: it takes effect, its answer is lost
or unreadable. *Twisted*: it takes effect, and the answer (or the effect) is not what it should be.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Self

FAMILIES = frozenset(
    {
        "search",
        "create",
        "list",
        "show",
        "bid",
        "state",
        "destroy",
        "user",
        "charges",
        "logs",
        "inbox",
        "names",
        "keys",
        "other",
    }
)
LOST = frozenset(
    {"http_500", "http_502", "http_503", "http_504", "http_429", "reset", "no_effect_success", "quota", "redirect"}
)
UNHEARD = frozenset({"effect_then_500", "effect_then_timeout", "effect_then_reset", "html", "empty", "bad_json"})
TWISTED = frozenset({"success_false", "null_fields", "stale_list", "truncated_page", "stuck_loading", "pull_failed"})
KINDS = LOST | UNHEARD | TWISTED


@dataclass
class InjectedFault:
    """``times`` left (``None``: for ever); ``probability`` that a call is hit."""

    on: str
    kind: str
    times: int | None = 1
    probability: float = 1.0
    retry_after: float | None = None
    """429: value of the Retry-After header, seconds."""
    detail: bool = False
    """429: JSON with ``detail`` instead of plain text."""
    lag_s: float = 30.0
    """stale_list: how far back in market seconds the list looks."""
    hang_s: float = 3600.0
    """effect_then_timeout: real seconds until the connection is dropped."""

    @classmethod
    def parse(cls, wish: dict[str, object], families: frozenset[str] = FAMILIES, kinds: frozenset[str] = KINDS) -> Self:
        """Raises ``ValueError`` with a text for the caller."""
        unknown = set(wish) - set(cls.__dataclass_fields__)
        if unknown:
            raise ValueError(f"unknown field: {', '.join(sorted(unknown))}")
        try:
            fault = cls(**wish)  # type: ignore[arg-type]
        except TypeError as error:
            raise ValueError(str(error)) from None
        if fault.on not in families:
            raise ValueError(f"unknown family {fault.on!r}; one of {', '.join(sorted(families))}")
        if fault.kind not in kinds:
            raise ValueError(f"unknown kind {fault.kind!r}; one of {', '.join(sorted(kinds))}")
        if not isinstance(fault.times, int | None):
            raise ValueError("times must be a whole number, or null for ever")
        for name in ("probability", "lag_s", "hang_s"):
            if not isinstance(getattr(fault, name), int | float):
                raise ValueError(f"{name} must be a number")
        return fault


class Faults:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"faults:{seed}")  # noqa: S311 - reproducible, no secret
        self._active: list[InjectedFault] = []

    def add(self, fault: InjectedFault) -> None:
        self._active.append(fault)

    def clear(self) -> None:
        self._active.clear()

    def draw(self, family: str) -> InjectedFault | None:
        """The fault that hits this call: the first active one of its family whose dice say so."""
        for fault in self._active:
            if fault.on == family and (fault.probability >= 1 or self._rng.random() < fault.probability):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._active.remove(fault)
                return fault
        return None
