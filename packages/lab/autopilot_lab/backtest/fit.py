"""Fits the phases of spot markets to recorded availability: Baum-Welch over traces sampled every ten minutes.

Two kinds of market, each with two phases in which spot can be had and two in which it cannot, start with short and long
stays; kinds leak into one another slowly. (Baum et al. 1970; Rabiner, Proc. IEEE 1989.) Ends of traces are censored by
construction. Deterministic: the start is seeded.
"""

from __future__ import annotations

from typing import Any

from autopilot.domain.errors import UserError
from autopilot.domain.outlook import PhaseModel
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.suite import AvailabilitySuite, Suite

SAMPLE_S = 600.0
KINDS, PER_SIGN = 2, 2
LEAK = 1 / 2000
"""Share of steps in which a market changes its kind, at the start of the fit."""
PSEUDO = 0.02
"""Added to each count of a change within a kind: nothing is impossible for not having been seen."""
LEAST_PROBABILITY = 1e-7
ROUNDS, ROUNDS_AT_LEAST, LEAST_GAIN = 200, 30, 0.02
DIGITS = 3


def phases_of(suite: Suite | None) -> PhaseModel:
    """Fitted to the suite's traces; None: the prior that the product ships. Raises UserError for a bid suite."""
    if suite is None:
        return PHASES
    if not isinstance(suite, AvailabilitySuite):
        raise UserError("phases are fitted to a suite of kind availability", hint="give --fit such a suite")
    step = SAMPLE_S / suite.config.tick_s
    return fit([[trace[int(n * step)] for n in range(int(len(trace) / step))] for trace in suite.traces])


def fit(series: list[list[int]]) -> PhaseModel:
    """``series``: for each market its availability, 0 or 1, every ten minutes."""
    import numpy as np

    on = np.repeat([1, 0], KINDS * PER_SIGN)
    moves, same_kind = _start(on)
    seen, valid = _pad(series, on)
    looks = len(seen)
    last = -np.inf
    for number in range(ROUNDS):
        forward = np.empty_like(seen)
        scale = np.empty(seen.shape[:2])
        reached = _stationary(moves)[None] * seen[0]
        for look in range(looks):
            if look:
                reached = (forward[look - 1] @ moves) * seen[look]
            scale[look] = reached.sum(axis=1)
            forward[look] = reached / scale[look][:, None]
        likelihood = float(np.log(scale).sum())
        backward, counts = np.ones(seen.shape[1:]), np.zeros_like(moves)
        for look in range(looks - 2, -1, -1):
            ahead = seen[look + 1] * backward / scale[look + 1][:, None]
            there = valid[look + 1]
            counts += forward[look][there].T @ ahead[there]
            backward = ahead @ moves.T
        moves = np.maximum(moves * counts + np.where(same_kind, PSEUDO, 0.0), LEAST_PROBABILITY)
        moves = moves / moves.sum(axis=1, keepdims=True)
        if number > ROUNDS_AT_LEAST and likelihood - last < LEAST_GAIN:
            break
        last = likelihood
    rounded = [[float(f"{value:.{DIGITS}g}") for value in row] for row in moves.tolist()]
    return PhaseModel(
        on=tuple(bool(sign) for sign in on.tolist()),
        moves=tuple(tuple(value / sum(row) for value in row) for row in rounded),
        step_s=SAMPLE_S,
    )


def _start(on: Any) -> tuple[Any, Any]:
    """The first guess, and which pairs of phases are of one kind."""
    import numpy as np

    count = len(on)
    kind = np.tile(np.repeat(np.arange(KINDS), PER_SIGN), 2)
    same_kind = kind[:, None] == kind[None]
    tilt = np.linspace(-1, 1, KINDS)
    stays_on = np.outer(np.exp(1.2 * tilt), np.geomspace(1.5, 300, PER_SIGN)).ravel()
    stays_off = np.outer(np.exp(-tilt), np.geomspace(1.5, 200, PER_SIGN)).ravel()
    stay = np.concatenate((stays_on, stays_off)).clip(1.3)
    moves = np.random.default_rng(0).uniform(0.3, 1, (count, count))
    moves *= np.where(on[:, None] != on[None], 1.0, 0.1) * same_kind
    np.fill_diagonal(moves, 0.0)
    moves = moves / moves.sum(axis=1, keepdims=True) / stay[:, None] + np.where(same_kind, 0.0, LEAK / count)
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1 - moves.sum(axis=1))
    return moves, same_kind


def _pad(series: list[list[int]], on: Any) -> tuple[Any, Any]:
    """What each look allows, [look, market, phase], all phases after a trace's end; and whether it is a look at all."""
    import numpy as np

    longest = max(len(one) for one in series)
    seen = np.ones((longest, len(series), len(on)))
    valid = np.zeros((longest, len(series)), bool)
    for number, one in enumerate(series):
        seen[: len(one), number] = np.array(one)[:, None] == on[None]
        valid[: len(one), number] = True
    return seen, valid


def _stationary(moves: Any) -> Any:
    import numpy as np

    count = len(moves)
    equations = np.vstack((moves.T - np.eye(count), np.ones(count)))
    return np.clip(np.linalg.lstsq(equations, np.r_[np.zeros(count), 1.0], rcond=None)[0], 0, None)
