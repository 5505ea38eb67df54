"""An adversary with a token of a dollar spends a dollar; without the check it spends more.

``python -m tests.simulation --siege 10000`` is what is run before a release.
"""

from __future__ import annotations

import pytest

from autopilot.policy import guard
from tests.simulation.adversary.siege import ALLOWANCE, lay_siege


@pytest.mark.slow
def test_a_few_clients_for_a_while() -> None:
    siege = lay_siege(1, clients=3, lasts_s=900.0)
    assert not list(siege.found)
    assert (siege.sequences, siege.machines > 0) == (3, True)
    assert 0 < siege.most <= ALLOWANCE


@pytest.mark.slow
def test_without_the_guard_s_row_of_the_allowance_a_token_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.Exposure, "purse_left", lambda self, job, params: None)
    sieges = [lay_siege(seed, lasts_s=3600.0) for seed in (1, 2)]
    assert any(line.startswith("S27") for siege in sieges for line in siege.found)
    assert max(siege.most for siege in sieges) > ALLOWANCE


def test_a_bid_that_lost_is_judged_in_sieges_too() -> None:
    siege = lay_siege(3, lasts_s=600.0, bug="lost_bids_forgotten", stop_at_first=True)
    assert {line.partition(" ")[0] for line in siege.found} == {"S16"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_an_adversary_spends_no_more_than_its_dollar(seed: int) -> None:
    """Nor is anything answered by an error of the daemon's, or any secret told."""
    siege = lay_siege(seed)
    assert not list(siege.found)
    assert siege.most <= ALLOWANCE
