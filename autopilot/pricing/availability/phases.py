"""What to believe of the spot market after each look at it: the forward filter of a hidden Markov chain.

    belief' ∝ belief · P(elapsed), phases of the other sign struck out                   (Rabiner, Proc. IEEE 1989)

``P`` is the model's matrix to the power of the whole steps, and linear within one: no phase then changes faster than
the samples could show from which the model was fitted.
"""

from __future__ import annotations

from functools import lru_cache

from autopilot.domain.outlook import Belief, PhaseModel

Matrix = tuple[tuple[float, ...], ...]

DOUBLINGS = 40
"""Squared so often, a step's matrix has forgotten where it began."""


def first_belief(model: PhaseModel, is_on: bool) -> Belief:
    """After the first look."""
    return _condition(model, stationary(model), is_on)


def next_belief(model: PhaseModel, belief: Belief, elapsed_s: float, is_on: bool) -> Belief:
    """After another look, ``elapsed_s`` later."""
    columns = _columns(model, elapsed_s)
    return _condition(model, tuple(sum(map(float.__mul__, belief, column)) for column in columns), is_on)


def _condition(model: PhaseModel, belief: Belief, is_on: bool) -> Belief:
    kept = _struck(model, belief, is_on)
    if sum(kept) <= 0.0:
        # The model thought it impossible: begin again from what it knows of such phases.
        kept = _struck(model, stationary(model), is_on)
    total = sum(kept)
    return tuple(share / total for share in kept)


def _struck(model: PhaseModel, belief: Belief, is_on: bool) -> list[float]:
    """Without the phases of the other sign."""
    return [share if on is is_on else 0.0 for share, on in zip(belief, model.on, strict=True)]


@lru_cache(maxsize=64)
def transition(model: PhaseModel, elapsed_s: float) -> Matrix:
    """Probability of each phase (column) that long after each phase (row); rows sum to 1."""
    steps, rest = divmod(elapsed_s, model.step_s)
    power = _within_a_step(model, rest / model.step_s)
    base, left = [list(row) for row in model.moves], int(steps)
    while left:
        if left & 1:
            power = _product(power, base)
        base = _product(base, base)
        left >>= 1
    return tuple(tuple(value / sum(row) for value in row) for row in power)


def _within_a_step(model: PhaseModel, share: float) -> list[list[float]]:
    """The matrix after that share of a step: linear between staying put and a whole step."""
    power = [[value * share for value in row] for row in model.moves]
    for number, row in enumerate(power):
        row[number] += 1.0 - share
    return power


@lru_cache(maxsize=16)
def stationary(model: PhaseModel) -> Belief:
    """What to believe before anything was seen."""
    return transition(model, model.step_s * 2**DOUBLINGS)[0]


@lru_cache(maxsize=64)
def _columns(model: PhaseModel, elapsed_s: float) -> Matrix:
    return tuple(zip(*transition(model, elapsed_s), strict=True))


def _product(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    return [[sum(map(float.__mul__, row, column)) for column in columns] for row in left]
