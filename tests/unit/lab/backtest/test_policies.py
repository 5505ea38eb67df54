"""Policies are named, parameterised and refused as the command line says."""

from __future__ import annotations

import pytest

from autopilot.domain.errors import UserError
from autopilot_lab.backtest.policies import REGISTRY, Policy, default_policies, parse_policies, starter


def test_names_and_parameters() -> None:
    assert parse_policies("on-demand, floor-markup:markup=1.3,greedy") == (
        Policy("on-demand", "on-demand", {}),
        Policy("floor-markup:markup=1.3", "floor-markup", {"markup": 1.3}),
        Policy("greedy", "greedy", {}),
    )


def test_a_comma_also_parts_parameters() -> None:
    with pytest.raises(UserError, match="no parameter 'step'"):
        parse_policies("floor-markup:markup=1.3,step=2")


def test_the_optimum_s_row_may_be_asked_for_and_repeats_fall_away() -> None:
    assert [policy.name for policy in parse_policies("optimal,greedy,greedy")] == ["greedy"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "which policy"),
        ("greed", "unknown policy 'greed'"),
        ("greedy:speed=1", "greedy has no parameter 'speed'"),
        ("floor-markup:markup=much", "'much' is not a number"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_policies(text)


@pytest.mark.parametrize("kind", ["availability", "bids"])
def test_every_default_policy_of_a_kind_exists(kind: str) -> None:
    for policy in default_policies(kind):
        assert kind in REGISTRY[policy.name].starts


def test_a_policy_of_the_other_kind() -> None:
    with pytest.raises(UserError, match="greedy does not play on suites of kind bids"):
        starter(parse_policies("greedy")[0], "bids", {})
