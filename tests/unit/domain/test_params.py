"""The policy's numbers: each has a unit and a source, and a name by which a backtest sets it."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain import params as module
from autopilot.domain.params import TUNABLE, Params

NUMBERS = {
    (group.name, number.name): getattr(getattr(Params(), group.name), number.name)
    for group in fields(Params)
    for number in fields(getattr(Params(), group.name))
}


def test_a_backtest_can_set_each_number_but_dollars_and_gigabytes_by_one_name() -> None:
    settable = [where for where, value in NUMBERS.items() if value is not None and not isinstance(value, Decimal)]
    assert sorted(TUNABLE.values()) == sorted(settable)


@pytest.mark.parametrize("name", TUNABLE)
def test_a_number_set_by_name_changes_alone(name: str) -> None:
    group, number = TUNABLE[name]
    value = 1.1 * NUMBERS[group, number] or 0.5
    changed = Params().tune({name: value})
    for where, before in NUMBERS.items():
        after = getattr(getattr(changed, where[0]), where[1])
        assert after == (value if where == (group, number) else before)


def test_a_number_of_another_name_is_not_known() -> None:
    with pytest.raises(KeyError, match="markup_s"):
        Params().tune({"markup_s": 1.0})


def test_a_number_out_of_bounds_is_refused_by_its_group() -> None:
    with pytest.raises(ValueError, match="estimate_error must"):
        Params().tune({"estimate_error": -0.1})


def test_each_number_has_its_source_beside_it() -> None:
    tree = ast.parse(inspect.getsource(module))
    groups = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "Params"]
    lacking = [
        f"{group.name}.{ast.unparse(before.target)}"
        for group in groups
        for before, after in zip(group.body, group.body[1:], strict=False)
        if isinstance(before, ast.AnnAssign) and not (isinstance(after, ast.Expr) and "Source:" in ast.unparse(after))
    ]
    assert not lacking
    assert sum(isinstance(node, ast.AnnAssign) for group in groups for node in group.body) == len(NUMBERS)


def test_the_how_to_names_what_a_backtest_can_set() -> None:
    text = (Path(__file__).parents[3] / "docs/how-to/backtest.md").read_text()
    assert set(TUNABLE) <= set(re.findall(r"`(\w+)`", text))
