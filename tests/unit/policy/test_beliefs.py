"""Beliefs in clusters: the same on every machine, and true to the model that they stand for."""

from __future__ import annotations

import pytest

from autopilot.domain.outlook import Belief, PhaseModel
from autopilot.pricing.availability.beliefs import NEAREST, PER_SIGN, Clusters, clusters
from autopilot.pricing.availability.phases import first_belief, next_belief, transition

MODEL = PhaseModel(
    on=(True, True, False, False),
    moves=((0.55, 0.0, 0.43, 0.02), (0.0, 0.97, 0.01, 0.02), (0.6, 0.03, 0.35, 0.02), (0.01, 0.02, 0.0, 0.97)),
    step_s=600.0,
)
STEP_S = 600.0


@pytest.fixture(scope="module")
def made() -> Clusters:
    return clusters(MODEL, STEP_S)


BELIEFS = [
    first_belief(MODEL, True),
    first_belief(MODEL, False),
    next_belief(MODEL, first_belief(MODEL, True), STEP_S, False),
    next_belief(MODEL, first_belief(MODEL, False), STEP_S, True),
    next_belief(MODEL, first_belief(MODEL, False), 12 * STEP_S, False),
]


def is_on(belief: Belief) -> bool:
    return sum(share for share, on in zip(belief, MODEL.on, strict=True) if on) > 0.5


def test_two_builds_are_equal_to_the_last_bit(made: Clusters) -> None:
    assert clusters.__wrapped__(MODEL, STEP_S) == made


@pytest.mark.parametrize("belief", BELIEFS)
def test_a_belief_is_a_mean_of_a_few_clusters_of_its_own_sign(made: Clusters, belief: Belief) -> None:
    weights = made.weights(belief, is_on=is_on(belief))
    assert sum(weight for _, weight in weights) == pytest.approx(1.0)
    assert all(weight > 0 for _, weight in weights)
    assert len({number for number, _ in weights}) == NEAREST
    assert all((number < PER_SIGN) is is_on(belief) for number, _ in weights), "the first half saw spot on"


def test_rows_of_the_moves_sum_to_one(made: Clusters) -> None:
    assert len(made.moves) == 2 * PER_SIGN
    for row in made.moves:
        assert sum(row) == pytest.approx(1.0)
        assert min(row) >= 0.0


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("steps", [1, 6])
def test_the_clusters_promise_what_the_model_does(made: Clusters, belief: Belief, steps: int) -> None:
    chance = [0.0] * (2 * PER_SIGN)
    for number, weight in made.weights(belief, is_on=is_on(belief)):
        chance[number] = weight
    for _ in range(steps):
        chance = [
            sum(share * row[to] for share, row in zip(chance, made.moves, strict=True)) for to in range(len(chance))
        ]
    ahead = transition(MODEL, steps * STEP_S)
    expected = sum(
        share * sum(value for value, on in zip(row, MODEL.on, strict=True) if on)
        for share, row in zip(belief, ahead, strict=True)
    )
    assert sum(chance[:PER_SIGN]) == pytest.approx(expected, abs=0.04)


def test_promises_are_mean_availabilities(made: Clusters) -> None:
    next_look = [sum(value for value, on in zip(row, MODEL.on, strict=True) if on) for row in MODEL.moves]
    assert made.promises[0] == pytest.approx(next_look), "ten minutes are one look"
    rows = [transition(MODEL, step * STEP_S) for step in range(1, 7)]
    hour = [sum(value for row in rows for value, on in zip(row[p], MODEL.on, strict=True) if on) / 6 for p in range(4)]
    assert made.promises[1] == pytest.approx(hour)


def test_a_belief_that_is_a_cluster_s_centre_is_read_as_that_cluster() -> None:
    """Two phases: there is only one belief for each sign, so all weights agree, whichever clusters they name."""
    two = PhaseModel((True, False), ((0.9, 0.1), (0.3, 0.7)))
    made = clusters(two, STEP_S)
    for sign, belief in ((True, (1.0, 0.0)), (False, (0.0, 1.0))):
        promised = tuple(sum(map(float.__mul__, promise, belief)) for promise in made.promises)
        number, _ = max(made.weights(belief, is_on=sign), key=lambda pair: pair[1])
        assert made.centres[number] == pytest.approx(promised, abs=0.02)
