"""Phases fitted to records: what they foretell is what the market that was recorded does."""

from __future__ import annotations

import random

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.outlook import PhaseModel
from autopilot.pricing.availability.phases import first_belief, next_belief, stationary, transition
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.fit import SAMPLE_S, fit, phases_of
from autopilot_lab.backtest.suite import AvailabilityConfig, AvailabilitySuite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import bid_body

pytestmark = pytest.mark.slow

LEAVES, RETURNS = 0.06, 0.2
"""Of the known market: each ten minutes, when on and when off."""


def recorded(seed: int, markets: int, looks: int) -> list[list[int]]:
    rng = random.Random(seed)
    series: list[list[int]] = []
    for _ in range(markets):
        on = rng.random() < RETURNS / (LEAVES + RETURNS)
        series.append([])
        for _ in range(looks):
            series[-1].append(int(on))
            on = rng.random() >= LEAVES if on else rng.random() < RETURNS
    return series


def on_share(model: PhaseModel, chance: tuple[float, ...]) -> float:
    return sum(share for share, on in zip(chance, model.on, strict=True) if on)


@pytest.fixture(scope="module")
def fitted() -> PhaseModel:
    return fit(recorded(1, markets=60, looks=200))


def test_it_recovers_how_often_a_known_market_is_on(fitted: PhaseModel) -> None:
    assert on_share(fitted, stationary(fitted)) == pytest.approx(RETURNS / (LEAVES + RETURNS), abs=0.03)


@pytest.mark.parametrize(("is_on", "leaves"), [(True, LEAVES), (False, RETURNS)])
def test_it_recovers_how_long_a_stretch_lasts(fitted: PhaseModel, is_on: bool, leaves: float) -> None:
    """The shares of stretches that last 1, 2, … looks more are geometric in the market that was recorded."""
    belief = next_belief(fitted, first_belief(fitted, not is_on), SAMPLE_S, is_on)
    stays = 1.0
    for looks in range(1, 11):
        ahead = [
            sum(b * row[to] for b, row in zip(belief, transition(fitted, SAMPLE_S), strict=True)) for to in range(8)
        ]
        share_on = on_share(fitted, tuple(ahead))
        stays *= share_on if is_on else 1 - share_on
        belief = next_belief(fitted, belief, SAMPLE_S, is_on)
        assert stays == pytest.approx((1 - leaves) ** looks, abs=0.04), f"{looks} looks"


def test_it_tells_a_kind_of_market_that_is_calm_from_one_that_is_not() -> None:
    calm = [[1] * 150 for _ in range(15)]
    busy = [[(look // 2 + number) % 2 for look in range(150)] for number in range(15)]
    model = fit(calm + busy)
    of_calm = of_busy = first_belief(model, True)
    for look in range(1, 20):
        of_calm = next_belief(model, of_calm, SAMPLE_S, True)
        of_busy = next_belief(model, of_busy, SAMPLE_S, bool((look // 2 + 1) % 2))
    ahead = transition(model, 6 * SAMPLE_S)
    promised = [
        sum(share * on_share(model, row) for share, row in zip(belief, ahead, strict=True))
        for belief in (of_calm, of_busy)
    ]
    assert promised[0] > 0.95
    assert 0.3 < promised[1] < 0.7


def test_it_is_a_model(fitted: PhaseModel) -> None:
    assert fitted.on == (True,) * 4 + (False,) * 4
    assert fitted.step_s == SAMPLE_S
    for row in fitted.moves:
        assert sum(row) == pytest.approx(1.0, abs=1e-12)
        assert min(row) > 0.0, "nothing is impossible for not having been seen"


def test_it_comes_out_the_same_every_time(fitted: PhaseModel) -> None:
    assert fit(recorded(1, markets=60, looks=200)) == fitted


def test_records_of_different_lengths_go_together() -> None:
    series = recorded(2, markets=10, looks=100)
    ragged = [one[: 40 + 6 * number] for number, one in enumerate(series)]
    assert on_share(fit(ragged), stationary(fit(ragged))) == pytest.approx(
        sum(map(sum, ragged)) / sum(map(len, ragged)), abs=0.12
    )


def test_what_lies_behind_a_record_s_end_counts_for_nothing() -> None:
    """A second record that ends at once leaves the fit of the first as it is."""
    series = recorded(3, markets=6, looks=120)
    with_stub, without = fit([*series, [1]]), fit(series)
    for row, other in zip(with_stub.moves, without.moves, strict=True):
        assert row == pytest.approx(other, abs=0.02)


# From suites.


def suite(tick_s: float, *traces: list[int]) -> AvailabilitySuite:
    names = tuple(f"zone-{number}" for number in range(len(traces)))
    return AvailabilitySuite("small", AvailabilityConfig(tick_s, 1.0, 3.0), names, tuple(map(bytes, traces)), ())


def test_a_suite_s_traces_are_read_every_ten_minutes() -> None:
    series = recorded(4, markets=4, looks=80)
    finer = [[state for state in one for _ in range(2)] for one in series]
    assert phases_of(suite(300.0, *finer)) == fit(series) == phases_of(suite(600.0, *series))


def test_without_a_suite_it_is_the_prior_that_is_shipped() -> None:
    assert phases_of(None) is PHASES
    for row in PHASES.moves:
        assert sum(row) == pytest.approx(1.0, abs=1e-12)


def test_a_bid_suite_is_refused() -> None:
    with pytest.raises(UserError, match="kind availability") as refused:
        phases_of(suite_from(bid_body()))
    assert "--fit" in refused.value.hint
