"""What images require of a driver: ``NVIDIA_REQUIRE_CUDA``, read as NVIDIA's container toolkit reads it. Pure.

``cuda>=12.8 brand=tesla,driver>=535,driver<536``: a space is *or*, a comma is *and*. Each variable whose name begins
with ``NVIDIA_REQUIRE_`` has to hold. What a host does not say may be anything: only what is known to be false is false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Version = tuple[int, ...]

_TERM = re.compile(r"(cuda|driver|arch|brand)(<=|>=|!=|=|<|>)([A-Za-z0-9.]+)", re.IGNORECASE)
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TRUE = ("1", "true", "t")


@dataclass(frozen=True, slots=True)
class Driver:
    """What is known of a machine's driver and GPU. None: it is not known."""

    cuda: Version | None = None
    """The newest CUDA that the driver speaks."""
    version: Version | None = None
    compute: Version | None = None
    """Compute capability."""
    brands: frozenset[str] = frozenset()
    """What its GPU may be called by its driver, one of these; empty: anything."""


@dataclass(frozen=True, slots=True)
class Term:
    """``driver>=535``."""

    of: str
    compared: str
    value: str

    def __str__(self) -> str:
        return f"{self.of}{self.compared}{self.value}"

    def holds(self, driver: Driver) -> bool | None:
        if self.of == "brand":
            return self._holds_of_brand(driver.brands)
        has = {"cuda": driver.cuda, "driver": driver.version, "arch": driver.compute}[self.of]
        wanted = read_version(self.value)
        if has is None or wanted is None:
            return None
        return _COMPARED[self.compared](*_of_one_length(has, wanted))

    def _holds_of_brand(self, brands: frozenset[str]) -> bool | None:
        """Which of several names a driver gives its GPU is not known."""
        if self.compared not in ("=", "!=") or not brands:
            return None
        is_equal = True if brands == {self.value.lower()} else None if self.value.lower() in brands else False
        return is_equal if self.compared == "=" or is_equal is None else not is_equal


@dataclass(frozen=True, slots=True)
class Requirement:
    """All of ``variables`` must hold, of each one of its groups, and of that all terms."""

    variables: tuple[tuple[tuple[Term, ...], ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.variables)

    def __str__(self) -> str:
        """The first group of each variable, which newer drivers meet, and how many others there are."""
        return " and ".join(_show(groups) for groups in self.variables)

    def is_met(self, driver: Driver) -> bool | None:
        """None: it cannot be told from what is known."""
        return _all(_any(_all(term.holds(driver) for term in terms) for terms in groups) for groups in self.variables)

    @property
    def least_cuda(self) -> Version | None:
        """A machine that speaks this CUDA meets it: the lowest of its groups that asks for nothing else."""
        lowest = []
        for groups in self.variables:
            alone = [read_version(terms[0].value) for terms in groups if len(terms) == 1 and _is_least_cuda(terms[0])]
            lowest += [min(version for version in alone if version is not None)] if any(alone) else []
        return max(lowest, default=None)


NOTHING_REQUIRED = Requirement()


def read_requirement(variables: Mapping[str, str]) -> Requirement:
    """What a container's environment requires. What cannot be read requires nothing."""
    if variables.get("NVIDIA_DISABLE_REQUIRE", "").lower() in _TRUE:
        return NOTHING_REQUIRED
    texts = [text for name, text in sorted(variables.items()) if name.startswith("NVIDIA_REQUIRE_")]
    built_for = variables.get("CUDA_VERSION", "")
    if not variables.get("NVIDIA_REQUIRE_CUDA") and (version := read_version(built_for)) is not None:
        # So the toolkit takes images of the time before NVIDIA_REQUIRE_CUDA.
        texts.append("cuda>=" + ".".join(str(part) for part in version[:2]))
    read = (_read_groups(text) for text in texts)
    return Requirement(tuple(groups for groups in read if groups))


def read_version(text: str) -> Version | None:
    """``12.8.1`` or ``535.183.01`` as numbers; None for what is no version."""
    parts = text.strip().split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else None


def _read_groups(text: str) -> tuple[tuple[Term, ...], ...]:
    """Empty if any of it is unknown: then nothing may be left out because of it."""
    groups = []
    for group in text.split():
        matches = [_TERM.fullmatch(term) for term in group.split(",") if term]
        if not all(matches):
            return ()
        groups.append(tuple(Term(match[1].lower(), match[2], match[3]) for match in matches if match))
    return tuple(groups)


def _is_least_cuda(term: Term) -> bool:
    return term.of == "cuda" and term.compared == ">=" and read_version(term.value) is not None


def _of_one_length(has: Version, wanted: Version) -> tuple[Version, Version]:
    """``535.183.01`` has 535: the parts that are missing count as 0, as the toolkit has it."""
    length = max(len(has), len(wanted))
    return has + (0,) * (length - len(has)), wanted + (0,) * (length - len(wanted))


def _show(groups: tuple[tuple[Term, ...], ...]) -> str:
    first = ",".join(str(term) for term in groups[0])
    others = len(groups) - 1
    return first if not others else f"{first} (or one of {others} other combinations)"


def _all(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    return False if False in known else None if None in known else True


def _any(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    return True if True in known else None if None in known else False
