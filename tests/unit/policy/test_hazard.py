"""Hazards: from the prior to what was seen, nearest evidence last; runs that were not lost are censored."""

from __future__ import annotations

from itertools import pairwise

import pytest

from autopilot.domain.outlook import AGE_EDGES_H, Lives, LivesKey, ObservedTime, Outlook
from autopilot.domain.params import Hazard, Params
from autopilot.pricing.hazard import hazard, losses_expected

P = Params(hazard=Hazard(preemptions_per_h=0.25, prior_h=20))


def seen(hours: float, losses: float) -> Lives:
    """All of it in the first age bin: only the total matters for the overall hazard."""
    return Lives((ObservedTime(hours, losses), *Lives().by_age[1:]))


def of(lives: dict[LivesKey, Lives], params: Params = P) -> float:
    return hazard(Outlook(lives=lives), "vastai", "RTX 4090", "host-1", "machine-1", params)


GPU, HOST, MACHINE = ("vastai", "gpu", "RTX 4090"), ("vastai", "host", "host-1"), ("vastai", "machine", "machine-1")


@pytest.mark.parametrize(
    "lives",
    [
        {},
        {GPU: Lives()},
        {("runpod", "gpu", "RTX 4090"): seen(1000, 0)},
        {("vastai", "gpu", "H100"): seen(1000, 0)},
        {("vastai", "host", "machine-1"): seen(1000, 0)},
    ],
    ids=["none at all", "no hours", "another market", "another GPU", "another kind of key"],
)
def test_without_anything_seen_the_prior_speaks(lives: dict[LivesKey, Lives]) -> None:
    assert of(lives) == 0.25


@pytest.mark.parametrize("key", [GPU, HOST, MACHINE])
def test_the_prior_weighs_as_much_as_its_hours(key: LivesKey) -> None:
    assert of({key: seen(20, 1)}) == pytest.approx((20 * 0.25 + 1) / 40)
    assert of({key: seen(0.5, 1)}) == pytest.approx(6 / 20.5), "one early loss is no proof"


def test_with_much_seen_its_own_rate_speaks() -> None:
    assert of({MACHINE: seen(1e6, 2e4)}) == pytest.approx(0.02, rel=1e-3)
    assert of({GPU: seen(1e6, 1e6), HOST: seen(1e6, 1e5), MACHINE: seen(1e6, 1e4)}) == pytest.approx(0.01, rel=1e-3)


def test_each_level_is_the_prior_of_the_next() -> None:
    gpu = (20 * 0.25 + 0) / 60
    host = (20 * gpu + 3) / 30
    machine = (20 * host + 0) / 25
    assert of({GPU: seen(40, 0), HOST: seen(10, 3), MACHINE: seen(5, 0)}) == pytest.approx(machine)


def test_runs_that_were_released_make_it_calmer_and_losses_worse() -> None:
    released, lost = Lives().with_run(3, lost=False), Lives().with_run(3, lost=True)
    assert of({MACHINE: released}) < 0.25 < of({MACHINE: lost})
    assert of({MACHINE: released}) == pytest.approx(5 / 23)
    assert of({MACHINE: lost}) == pytest.approx(6 / 23)
    longer = Lives().with_run(60, lost=False)
    assert of({MACHINE: longer}) < of({MACHINE: released})


# Lives.


@pytest.mark.parametrize(
    ("hours", "spread", "bin_of_loss"),
    [
        (0.25, (0.25, 0, 0, 0, 0), 0),
        (0.5, (0.5, 0, 0, 0, 0), 0),
        (3.0, (0.5, 1.5, 1.0, 0, 0), 2),
        (24.0, (0.5, 1.5, 6.0, 16.0, 0), 3),
        (100.0, (0.5, 1.5, 6.0, 16.0, 76.0), 4),
        (0.0, (0, 0, 0, 0, 0), 0),
    ],
)
def test_a_run_is_spread_over_the_ages_that_it_reached(
    hours: float, spread: tuple[float, ...], bin_of_loss: int
) -> None:
    lost, censored = Lives().with_run(hours, lost=True), Lives().with_run(hours, lost=False)
    assert tuple(one.hours for one in lost.by_age) == tuple(one.hours for one in censored.by_age) == spread
    assert [number for number, one in enumerate(lost.by_age) if one.losses] == [bin_of_loss]
    assert lost.total == ObservedTime(hours, 1.0)
    assert censored.total == ObservedTime(hours, 0.0)


def test_lives_add_up() -> None:
    lives = Lives().with_run(1, lost=True).with_run(30, lost=False).with_run(0.2, lost=True)
    assert (lives.total.hours, lives.by_age[0].hours) == pytest.approx((31.2, 1.2))
    assert (lives.total.losses, lives.by_age[0].losses) == (2.0, 1.0)


# Losses over a stretch of a machine's life.


def expected(lives: dict[LivesKey, Lives], age_h: float, hours: float, rate: float = 0.1) -> float:
    return losses_expected(Outlook(lives=lives), "vastai", "RTX 4090", rate, age_h, hours, P)


def test_with_nothing_seen_the_hazard_is_flat() -> None:
    assert expected({}, 3.0, 5.0) == pytest.approx(0.5)
    assert expected({GPU: Lives()}, 3.0, 5.0) == pytest.approx(0.5)


def test_a_kind_that_dies_young_is_safer_with_age() -> None:
    lives = Lives()
    for _ in range(200):
        lives = lives.with_run(0.4, lost=True)
    for _ in range(50):
        lives = lives.with_run(40, lost=False)
    young, middle, old = (expected({GPU: lives}, age, 0.4) for age in (0.0, 1.0, 30.0))
    assert young > 10 * middle
    assert middle > old
    assert young > 0.4 * 0.1 > old, "more than the flat hazard, and less"


def test_a_stretch_is_the_sum_of_its_parts() -> None:
    lives = Lives().with_run(0.3, lost=True).with_run(5, lost=True).with_run(50, lost=False)
    whole = expected({GPU: lives}, 0.1, 40.0)
    cuts = (0.1, *AGE_EDGES_H, 40.1)
    parts = [expected({GPU: lives}, a, b - a) for a, b in pairwise(cuts)]
    assert whole == pytest.approx(sum(parts))
    assert all(part > 0 for part in parts)


def test_it_grows_with_the_rate_of_the_machine() -> None:
    lives = {GPU: Lives().with_run(3, lost=True)}
    assert expected(lives, 0, 4, rate=0.3) == pytest.approx(3 * expected(lives, 0, 4, rate=0.1))
