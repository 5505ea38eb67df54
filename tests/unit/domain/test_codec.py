"""Values as JSON and back, exactly: all that a recorded decision may hold."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from autopilot.domain import lease
from autopilot.domain.codec import Codec
from autopilot.domain.floors import Bidders, Tally
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.policy.decide import decide
from autopilot.policy.scene import Scene, scene_from_json, scene_to_json
from tests.builders import START, a_job, a_market, an_offer


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Box:
    content: Any
    note: str = ""


CODEC = Codec(Box, Colour)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -7,
        0.1,
        1e-300,
        "",
        "é $decimal",
        Decimal("0.10"),
        Decimal("1E+3"),
        Decimal("-0"),
        datetime(2026, 11, 20, 9, 30, 0, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2))),
        timedelta(microseconds=-1),
        timedelta(days=400, microseconds=3),
        Colour.RED,
        (),
        (1, (2.5, ("a",)), None),
        frozenset({(1, 2), (3, 4)}),
        frozenset(),
        {},
        {("vastai", "gpu", "H100"): Box(Decimal(1)), ("vastai", "host", "9"): Box(())},
        Box(Box(Colour.RED, "inner"), "outer"),
    ],
    ids=lambda value: "frozenset" if isinstance(value, frozenset) else repr(value),
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    text = json.dumps(CODEC.encode(value), allow_nan=False)
    back = CODEC.decode(json.loads(text))
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, (frozenset, datetime)), "digits and signs too"
    assert json.dumps(CODEC.encode(back)) == text


@pytest.mark.parametrize("value", [object(), b"bytes", [1], {1, 2}, START.date(), Codec, Params()])
def test_what_it_does_not_know_it_refuses(value: object) -> None:
    with pytest.raises(TypeError, match="cannot hold"):
        CODEC.encode(Box(value))


def test_a_namesake_is_not_taken_for_the_real_one() -> None:
    other = StrEnum("Colour", ["RED"])  # type: ignore[misc]  # another name than the variable's
    with pytest.raises(TypeError, match="cannot hold"):
        Codec(other).encode(Colour.RED)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"$test_codec.Box": [1]}, "Box has 2 fields, the recording 1"),
        ({"$Bag": [1, 2]}, "holds no Bag"),
        ({"$enum": ["Shape", "red"]}, "holds no Shape"),
        ({"$enum": ["test_codec.Colour", "blue"]}, "blue"),
        ({"$decimal": "1", "$at": "2026"}, "not an encoded value"),
        ({}, "not an encoded value"),
    ],
)
def test_what_it_cannot_have_written(written: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        CODEC.decode(written)


def test_sets_are_written_in_one_order() -> None:
    names = [f"machine-{number}" for number in range(40)]
    assert CODEC.encode(frozenset(names)) == CODEC.encode(frozenset(reversed(names)))


def test_a_scene_with_bidders_comes_back() -> None:
    bidders = Bidders((Tally(1.02, held=9.5, losses=2.0, starts=1.0, dollars=3.25),), Tally(1.05))
    market = replace(a_market(an_offer()), outlook=Outlook(bidders=bidders))
    decision = decide(a_job(), a_market(an_offer()), START, Params())
    scene = Scene(a_job(), market, START, Params(), decision)
    assert scene_from_json(scene_to_json(scene)) == scene


def test_classes_of_two_modules_may_share_a_name() -> None:
    theirs = dataclasses.make_dataclass("Traffic", ["image_gb"], frozen=True)
    codec = Codec(lease.Traffic, theirs)
    for value in (lease.Traffic(download_gb=Decimal(3)), theirs(image_gb=4)):
        assert codec.decode(codec.encode(value)) == value
