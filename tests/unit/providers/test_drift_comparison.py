"""What is found in a row that differs from its shape, what is kept of it, and how much."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from autopilot.clock import ManualClock
from autopilot.domain.drift import DriftKind
from autopilot.providers.drift.comparison import MOST_DIFFERENCES, MOST_NEW, MOST_ROWS, compare
from autopilot.providers.drift.counter import MOST_NEW as MOST_NEW_OF_A_MARKET
from autopilot.providers.drift.counter import DriftCounter
from autopilot.providers.drift.samples import UNNAMED, field_name, sample
from autopilot.providers.drift.shape import LIST, NULL, NUMBER, OBJECT, TEXT, AnswerShape, ignore, read

ITEM = AnswerShape("item", read("amount", NUMBER, money=True))
ROW = AnswerShape(
    "row",
    {
        **read("id", NUMBER),
        **read("price", NUMBER, NULL, money=True),
        **read("state", TEXT, NULL, words="running stopped"),
        **read("source", TEXT, optional=True, form=r"instance-\d+"),
        **read("place", OBJECT, optional=True, inside=AnswerShape("", {**read("city", TEXT), **ignore("zip", TEXT)})),
        **read("parts", LIST, optional=True, inside=AnswerShape("", read("size", NUMBER))),
        **read("items", LIST, optional=True, inside=ITEM),
        **read("env", OBJECT, optional=True, inside=AnswerShape("", read("KIND", TEXT, optional=True), is_open=True)),
        **ignore("score", NUMBER),
    },
)
GOOD: dict[str, Any] = {"id": 1, "price": Decimal("0.1"), "state": "running", "score": 3}


def differences(**changes: Any) -> list[tuple[str, str, str, str]]:
    return [(each.answer, each.field, each.kind, each.sample) for each in compare(ROW, {**GOOD, **changes})]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"price": None, "state": None},
        {"price": 2},
        {"source": "instance-17"},
        {"place": {"city": "Oslo", "zip": "0150"}},
        {"parts": [{"size": 1}, {"size": 2}], "items": [{"amount": 1}], "env": {"KIND": "spot", "OTHER": 1}},
    ],
)
def test_a_row_of_its_shape_has_no_difference(changes: dict[str, Any]) -> None:
    assert differences(**changes) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"price": "0.10"}, ("row", "price", "type", "text")),
        ({"price": True}, ("row", "price", "type", "boolean")),
        ({"id": None}, ("row", "id", "type", "null")),
        ({"state": "hibernating"}, ("row", "state", "value", "hibernating")),
        ({"state": "user 47848147 owes"}, ("row", "state", "value", "text")),
        ({"source": "contract-17"}, ("row", "source", "value", "text")),
        ({"rent": 0.1}, ("row", "rent", "new", "number")),
        ({"place": {"zip": "0150"}}, ("row", "place.city", "missing", "")),
        ({"place": {"city": "Oslo", "zip": 150}}, ("row", "place.zip", "type", "number")),
        ({"place": "Oslo"}, ("row", "place", "type", "text")),
        ({"parts": [{"size": 1}, {"size": "2"}]}, ("row", "parts[].size", "type", "text")),
        ({"parts": [3]}, ("row", "parts[]", "type", "number")),
        ({"items": [{}]}, ("item", "amount", "missing", "")),
        ({"env": {"KIND": 1}}, ("row", "env.KIND", "type", "number")),
    ],
)
def test_each_difference_has_its_kind_and_its_place(
    changes: dict[str, Any], expected: tuple[str, str, str, str]
) -> None:
    assert differences(**changes) == [expected]


def test_what_is_read_and_what_is_money_is_told_apart_from_what_is_ignored() -> None:
    changed = compare(ROW, {"price": "free", "state": 1, "score": None, "bonus": 1})
    assert {(each.field, each.is_read, each.is_money) for each in changed} == {
        ("id", True, False),
        ("price", True, True),
        ("state", True, False),
        ("score", False, False),
        ("bonus", False, False),
    }


@pytest.mark.parametrize("row", [None, 3, "x", [], True, Decimal(1)])
def test_what_is_no_object_is_one_difference(row: object) -> None:
    (difference,) = compare(ROW, row)
    assert (difference.field, difference.kind, difference.is_read) == ("", DriftKind.TYPE, True)


def test_a_long_list_and_a_wide_object_are_compared_so_far_and_no_further() -> None:
    assert len(compare(ROW, {**GOOD, "parts": [{}] * 10_000})) == MOST_ROWS
    wide = {chr(97 + at % 26) * (1 + at // 26): 1 for at in range(MOST_NEW)}
    assert len(compare(ROW, {**GOOD, "parts": [wide] * MOST_ROWS})) == MOST_DIFFERENCES
    assert len(compare(ROW, {**GOOD, **{f"x{chr(97 + i % 26)}_{'y' * (i // 26)}": 1 for i in range(600)}})) == MOST_NEW


SECRETS: list[Any] = [
    "d15c2f0a0f4e4b6f8f7d0c3e0a1b2c3d",
    "dev@example.com",
    "203.0.113.42",
    "ap1.abcdefgh.01KDVDNRY4R11887CN5CG1S8J6",
    "alice",
    47848147,
    ["ssh-ed25519 AAAA"],
    {"token": "hunter", "47848147": "x", "user_2PyTJrLzeuwfZilRZ7JhCQDuSqo": {"alice": "bob"}},
]


@pytest.mark.parametrize("secret", SECRETS, ids=str)
def test_no_value_of_a_new_field_is_kept(secret: Any) -> None:
    (difference,) = compare(ROW, {**GOOD, "extra": secret})
    texts = {str(each) for each in SECRETS[:6]} | {"hunter", "ssh-ed25519", "bob", "user_2PyT", "47848147"}
    assert not [text for text in texts if text in repr(difference)]


@pytest.mark.parametrize(
    "name", ["47848147", "a" * 29, "d15c2f0a", "two words", "dev@example.com", "", "\x00", "größe"]
)
def test_a_name_that_may_be_an_id_is_not_kept(name: str) -> None:
    assert field_name(name) == UNNAMED


@pytest.mark.parametrize("name", ["internet_down_cost_per_tb", "lowestBidPriceToResume", "reliability2"])
def test_a_name_of_a_field_is_kept(name: str) -> None:
    assert field_name(name) == name


def test_a_sample_of_any_value_is_short() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"a": [deep] * 3, **{f"key{'k' * i}": "v" * 10_000 for i in range(20)}}
    assert sample(deep) == "object of 21"
    assert sample([deep]) == "list of object"
    assert (sample([]), sample([True]), sample("x" * 10_000)) == ("list", "list of boolean", "text")
    assert sample("x" * 25, is_word=True) == "text"


def counter() -> tuple[DriftCounter, ManualClock]:
    clock = ManualClock()
    return DriftCounter("market", clock), clock


def test_a_difference_is_counted_from_when_it_was_first_seen_with_its_first_sample() -> None:
    made, clock = counter()
    began = clock.now()
    made.look(ROW, {**GOOD, "state": "frozen"})
    clock.advance(2 * 3600)
    made.look(ROW, {**GOOD, "state": "melted"})
    (drift,) = made.drifts()
    assert drift.key == ("market", "row", "state", DriftKind.VALUE)
    assert (drift.count, drift.first_seen_at, drift.last_seen_at) == (2, began, clock.now())
    assert drift.sample == "frozen"


def test_a_market_that_invents_fields_fills_no_memory_and_hides_no_other_difference() -> None:
    made, _ = counter()
    for number in range(1000):
        made.look(ROW, {**GOOD, "x" + "abcdefghij"[number % 10] * (1 + number // 40): 1})
        made.look(ROW, {**GOOD, f"{'y' * (number % 20)}_{chr(97 + number % 26)}": 1})
    made.look(ROW, {**GOOD, "price": "free"})
    new = [drift for drift in made.drifts() if drift.kind is DriftKind.NEW]
    assert len(new) == MOST_NEW_OF_A_MARKET
    assert [drift.field for drift in made.drifts() if drift.is_money] == ["price"]


def test_a_defect_in_comparing_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # A logger that was used before keeps the settings that it had then, and its lines go past the test.
    monkeypatch.setattr("autopilot.providers.drift.counter.log", structlog.get_logger())

    class Broken(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("broken")

    made, _ = counter()
    with capture_logs() as logs:
        made.look(ROW, Broken())
    assert [line["event"] for line in logs] == ["drift.comparison_failed"]
    assert made.drifts() == ()


def test_any_json_can_be_compared() -> None:
    for text in (
        '{"id": {"a": [{}]}, "parts": {"size": []}, "items": [[[]]], "place": [1], "env": []}',
        "[[]]",
        "null",
    ):
        assert compare(ROW, json.loads(text))
