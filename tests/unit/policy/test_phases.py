"""The filter against the sum over every path that the phases can have taken."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

import numpy as np
import pytest

from autopilot.domain.outlook import Belief, PhaseModel
from autopilot.pricing.availability.phases import first_belief, next_belief, stationary, transition

MODEL = PhaseModel(
    on=(True, True, False, False),
    moves=((0.6, 0.3, 0.1, 0.0), (0.05, 0.9, 0.0, 0.05), (0.3, 0.1, 0.4, 0.2), (0.0, 0.02, 0.08, 0.9)),
    step_s=600.0,
)


def by_enumeration(looks: list[tuple[int, bool]]) -> list[float]:
    """P(phase now | all looks): weights of all paths through one phase a step. Looks are (steps since before, on)."""
    seen, step = {}, 0
    for steps, is_on in looks:
        step += steps
        seen[step] = is_on
    shares = [0.0] * len(MODEL.on)
    for path in product(range(len(MODEL.on)), repeat=step + 1):
        if any(MODEL.on[path[at]] is not is_on for at, is_on in seen.items()):
            continue
        shares[path[-1]] += stationary(MODEL)[path[0]] * prod(MODEL.moves[a][b] for a, b in pairwise(path))
    return [share / sum(shares) for share in shares]


def by_filter(looks: list[tuple[int, bool]]) -> Belief:
    belief = first_belief(MODEL, looks[0][1])
    for steps, is_on in looks[1:]:
        belief = next_belief(MODEL, belief, steps * MODEL.step_s, is_on)
    return belief


@pytest.mark.parametrize(
    "looks",
    [
        [(0, True)],
        [(0, False), (1, False), (1, False)],
        [(0, True), (1, False), (1, True), (1, True)],
        [(0, True), (3, False), (2, True)],  # looks that were missed
    ],
)
def test_a_belief_is_the_share_of_all_paths_that_end_so(looks: list[tuple[int, bool]]) -> None:
    belief = by_filter(looks)
    assert belief == pytest.approx(by_enumeration(looks))
    assert sum(belief) == pytest.approx(1.0)
    assert all(share == 0.0 for share, on in zip(belief, MODEL.on, strict=True) if on is not looks[-1][1])


def test_the_longer_it_is_off_the_less_of_a_short_phase_is_left() -> None:
    belief = first_belief(MODEL, False)
    short = [belief[2]]
    for _ in range(6):
        belief = next_belief(MODEL, belief, 600.0, False)
        short.append(belief[2])
    assert short == sorted(short, reverse=True)
    assert short[-1] < short[0]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7, 64, 1001])
def test_whole_steps_are_powers_of_the_matrix(steps: int) -> None:
    expected = np.linalg.matrix_power(np.array(MODEL.moves), steps)
    np.testing.assert_allclose(transition(MODEL, steps * 600.0), expected, atol=1e-12)


def test_within_a_step_it_is_linear() -> None:
    moves = np.array(MODEL.moves)
    quarter = 0.75 * np.eye(4) + 0.25 * moves
    np.testing.assert_allclose(transition(MODEL, 150.0), quarter, atol=1e-12)
    np.testing.assert_allclose(transition(MODEL, 1350.0), quarter @ moves @ moves, atol=1e-12)


@pytest.mark.parametrize("elapsed_s", [0.0, 1.0, 20.0, 599.9, 600.0, 86_400.0, 3e7])
def test_rows_sum_to_one(elapsed_s: float) -> None:
    for row in transition(MODEL, elapsed_s):
        assert sum(row) == pytest.approx(1.0, abs=1e-12)
        assert min(row) >= 0.0


def test_the_stationary_belief_stays_as_it_is() -> None:
    np.testing.assert_allclose(np.array(stationary(MODEL)) @ np.array(MODEL.moves), stationary(MODEL), atol=1e-12)


def test_what_the_model_thinks_impossible_is_believed_when_it_is_seen() -> None:
    surely_long_on = (0.0, 1.0, 0.0, 0.0)
    assert next_belief(MODEL, surely_long_on, 0.0, False) == first_belief(MODEL, False)
    only_the_long_one = next_belief(MODEL, surely_long_on, 600.0, False)
    assert only_the_long_one == (0.0, 0.0, 0.0, 1.0), "what is possible is believed in its own right"
