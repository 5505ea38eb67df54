"""Variants of one test: ``make test`` runs the first, ``make check`` all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def first_of(values: Iterable[T], count: int = 1) -> list[T | ParameterSet]:
    """For ``parametrize`` and ``params``; those after the first ``count`` are slow."""
    left = iter(values)
    return [*islice(left, count), *(pytest.param(each, marks=pytest.mark.slow) for each in left)]
