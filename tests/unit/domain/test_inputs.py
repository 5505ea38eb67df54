"""What can be at a path, by the names of what a job keeps."""

from __future__ import annotations

import pytest

from autopilot.domain.inputs import LeftInput, fetched_inputs, left_inputs, may_hold

INPUTS = (("x", "https://h/x"), ("data", "job:01K/out/deep/model"))


@pytest.mark.parametrize(
    ("outputs", "wanted", "holds"),
    [
        (("out",), "out", True),
        (("out",), "out/model", True),
        (("out/model",), "out", True),
        (("./out/",), "out", True),
        (("out",), "outer", False),
        (("out/a",), "out/b", False),
        (("*.txt",), "a.txt", True),
        (("out/*/model",), "out/3/model", True),
        (("out/*/model",), "in/3/model", False),
        (("**",), "any/thing", True),
        (("*.txt",), "a.bin", False),
        (("out", "logs"), "logs", True),
        ((), "out", False),
    ],
)
def test_by_names_alone(outputs: tuple[str, ...], wanted: str, holds: bool) -> None:
    assert may_hold(outputs, wanted) is holds


def test_inputs_are_of_two_kinds() -> None:
    (left,) = left_inputs(INPUTS)
    assert left == LeftInput("data", "01K", "out/deep/model")
    assert ("data", left.place) == INPUTS[1]
    assert fetched_inputs(INPUTS) == {"x": "https://h/x"}
