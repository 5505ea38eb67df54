"""What Mithril's refusals mean, by status and words."""

from __future__ import annotations

import json

import pytest

from autopilot.ports.provider import Done, RefusalCode, Refused, Unknown
from autopilot.providers.mithril import outcomes
from autopilot.providers.mithril.reply import Fault, understand
from autopilot.providers.reading import Reply


def answer(status: int, detail: object = None, text: str | None = None) -> Reply:
    return Reply(status, json.dumps({"detail": detail}) if text is None else text)


PRICE = [{"loc": ["body", "limit_price"], "msg": "must be higher", "type": "value_error"}]
OTHER = [{"loc": ["body", "region"], "msg": "unknown", "type": "value_error"}]


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (answer(200, text="[]"), None),
        (answer(201, text="{}"), None),
        (answer(204, text=""), None),
        (answer(200, text=""), Fault.TRANSIENT),
        (answer(200, text="<html>"), Fault.TRANSIENT),
        (answer(302, "moved"), Fault.TRANSIENT),
        (answer(400, "Limit price below minimum of $8.00"), Fault.TOO_LOW),
        (answer(400, "bid price below minimum"), Fault.TOO_LOW),
        (answer(422, PRICE), Fault.TOO_LOW),
        (answer(422, OTHER), Fault.INVALID),
        (answer(400, "Name already used by another bid"), Fault.NAME_TAKEN),
        (answer(400, "SSH key required"), Fault.INVALID),
        (answer(400, "quota exceeded"), Fault.OVER_QUOTA),
        (answer(400, "billing is not set up"), Fault.NO_CREDIT),
        (answer(402, "pay first"), Fault.NO_CREDIT),
        (answer(402, text="<html>"), Fault.TRANSIENT),
        (answer(401, text="<html>"), Fault.NO_RIGHTS),
        (answer(403, "gated"), Fault.NO_RIGHTS),
        (answer(404, "bid not found"), Fault.NOT_FOUND),
        (answer(404, text="<html>"), Fault.TRANSIENT),
        (answer(408, "slow"), Fault.TRANSIENT),
        (answer(409, "busy"), Fault.TRANSIENT),
        (answer(409, "duplicate name"), Fault.NAME_TAKEN),
        (answer(429, text=""), Fault.RATE_LIMITED),
        (answer(500, "oops"), Fault.TRANSIENT),
        (answer(400, ["a", 7, None]), Fault.TRANSIENT),
    ],
)
def test_each_answer_has_its_meaning(reply: Reply, fault: Fault | None) -> None:
    assert understand(reply).fault is fault


def test_a_list_of_errors_is_told_in_words() -> None:
    assert understand(answer(422, PRICE)).summary == "HTTP 422 body.limit_price: must be higher"


def test_after_a_gateway_s_answer_the_outcome_is_unknown() -> None:
    torn = understand(answer(504, text="<html>"))
    assert isinstance(outcomes.judge_change(torn), Unknown)
    assert isinstance(outcomes.judge_destroy(torn), Unknown)


def test_what_is_not_there_is_destroyed_and_cannot_be_changed() -> None:
    gone = understand(answer(404, "bid not found"))
    assert outcomes.judge_destroy(gone) == Done(None)
    changed = outcomes.judge_change(gone)
    assert isinstance(changed, Refused)
    assert changed.code is RefusalCode.NOT_FOUND
