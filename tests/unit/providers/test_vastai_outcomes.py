"""Every error row of the market's contract, on every request that can meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.reading import Reply
from autopilot.providers.vastai import outcomes
from autopilot.providers.vastai.reply import Answer, understand
from tests.unit.providers.vastai_samples import errors, text

Outcome = Done[Created] | Done[Decimal] | Done[None] | Refused | Unknown
Reading = Callable[[Answer], Outcome]
CHANGES: dict[str, Reading] = {
    "create": lambda answer: outcomes.judge_create(answer, is_bid=True),
    "bid": lambda answer: outcomes.judge_bid_change(answer, Decimal("0.2")),
    "start": outcomes.judge_start,
    "stop": outcomes.judge_stop,
    "destroy": outcomes.judge_destroy,
}
NOT_CREATES = [name for name in CHANGES if name != "create"]


def answer(status: int, body: object = None, *, raw: str | None = None, retry_after: str | None = None) -> Answer:
    return understand(Reply(status, json.dumps(body) if raw is None else raw, retry_after))


def recorded(index_or_words: str) -> Answer:
    found = [row for row in errors() if index_or_words in json.dumps(row)]
    assert len(found) == 1, index_or_words
    row = found[0]
    return answer(row["status"], row.get("body"), raw=row.get("body_text"))


EXPECTED = [
    # (words that pick the recorded row, the requests that meet it, the refusal)
    ("error 404/3603", ["create"], RefusalCode.OFFER_GONE),
    ("error 410/3907", ["create"], RefusalCode.BID_TOO_LOW),
    ("error 403/3586", ["create"], RefusalCode.NO_RIGHTS),
    ("error 400/3467", ["create"], RefusalCode.INVALID),
    ("insufficient_credit", ["create", "start"], RefusalCode.OUT_OF_CREDIT),
    ("bid price >= 0.001", ["bid"], RefusalCode.INVALID),
    ("no_such_instance", ["bid", "start", "stop"], RefusalCode.NOT_FOUND),
    ("This action requires login", list(CHANGES), RefusalCode.NO_RIGHTS),
    ("unknown key (billing, bundles)", list(CHANGES), RefusalCode.NO_RIGHTS),
    ("unknown key (instances)", list(CHANGES), RefusalCode.NO_RIGHTS),
    ("too frequent: endpoint", list(CHANGES), RefusalCode.RATE_LIMITED),
    ("too frequent endpoint", list(CHANGES), RefusalCode.RATE_LIMITED),
    ("Invalid instance id", ["bid", "start", "stop"], RefusalCode.INVALID),
]


@pytest.mark.parametrize(
    ("words", "change", "code"), [(words, change, code) for words, on, code in EXPECTED for change in on]
)
def test_recorded_errors_are_refusals(words: str, change: str, code: RefusalCode) -> None:
    outcome = CHANGES[change](recorded(words))
    assert isinstance(outcome, Refused)
    assert outcome.code is code
    assert outcome.instance_id is None


READS = [
    ("deprecated_endpoint", None),
    ("not a valid search key", None),
    ("'day' gte and lte", None),
    ("Invalid pagination token", None),
    ("This action requires login", RefusalCode.NO_RIGHTS),
    ("unknown key (billing, bundles)", RefusalCode.NO_RIGHTS),
    ("unknown key (instances)", RefusalCode.NO_RIGHTS),
    ("Invalid json body", None),
    ("too frequent: endpoint", RefusalCode.RATE_LIMITED),
    ("too frequent endpoint", RefusalCode.RATE_LIMITED),
    ("search_quota_exceeded", RefusalCode.RATE_LIMITED),
    ("Invalid instance id", None),
    ("no_such_instance", RefusalCode.NOT_FOUND),
]


@pytest.mark.parametrize(("words", "code"), READS)
def test_recorded_errors_of_reads(words: str, code: RefusalCode | None) -> None:
    with pytest.raises(MarketUnknown) as raised:
        outcomes.read(recorded(words))
    assert raised.value.code is code
    assert str(raised.value) == recorded(words).summary


def test_every_recorded_error_has_its_row() -> None:
    words = [row[0] for row in EXPECTED] + [row[0] for row in READS]
    for row in errors():
        assert any(word in json.dumps(row) for word in words), row


def test_quota_says_when_to_ask_again() -> None:
    with pytest.raises(outcomes.SearchQuotaExceeded) as raised:
        outcomes.read(recorded("search_quota_exceeded"))
    assert raised.value.retry_after_s == 3600


def test_threshold_and_header_say_when_to_ask_again() -> None:
    assert recorded("too frequent: endpoint").retry_after_s == 4.5
    assert recorded("too frequent endpoint").retry_after_s == 5.5
    assert answer(429, raw="slow down", retry_after="7").retry_after_s == 7
    assert answer(429, raw="slow down", retry_after="Sat, 21 Nov 2026 08:00:00 GMT").retry_after_s is None


def test_create_that_won() -> None:
    assert outcomes.judge_create(understand(Reply(200, text("create_response_ok"))), is_bid=True) == Done(
        Created("47848147")
    )


def test_create_that_lost_names_the_contract_to_destroy() -> None:
    outcome = outcomes.judge_create(understand(Reply(200, text("create_response_bid_too_low.http200"))), is_bid=True)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.BID_TOO_LOW, "47848152")


@pytest.mark.parametrize(
    ("reply", "instance_id"),
    [
        (answer(500, {"success": True, "new_contract": 7}), "7"),
        (answer(503, {"success": False, "error": "auth_error"}), None),
        (answer(502, raw='<html>{"new_contract": 8}'), "8"),
        (answer(504, raw="<html>gateway</html>"), None),
        (answer(200, raw=""), None),
        (answer(200, raw='{"success": true, "new_contract": 9'), "9"),
        (answer(200, []), None),
        (answer(200, {}), None),
        (answer(200, {"success": True}), None),
        (answer(200, {"success": True, "new_contract": "x"}), None),
        (answer(200, {"new_contract": 10}), "10"),
        (answer(200, {"success": False}), None),
        (answer(200, {"success": False, "msg": "something new"}), None),
        (answer(301, {"success": True, "new_contract": 11}), "11"),
        (answer(302, raw=""), None),
        (answer(404, raw="<html>not found</html>"), None),
        (answer(403, raw="<html>blocked</html>"), None),
        (answer(408, {"error": "timeout"}), None),
    ],
)
def test_a_create_whose_fate_is_open_is_unknown(reply: Answer, instance_id: str | None) -> None:
    outcome = outcomes.judge_create(reply, is_bid=True)
    assert isinstance(outcome, Unknown)
    assert outcome.instance_id == instance_id


def test_a_refused_create_may_leave_a_contract() -> None:
    outcome = outcomes.judge_create(
        answer(400, {"success": False, "error": "invalid_args", "new_contract": 12}), is_bid=True
    )
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.INVALID, "12")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"success": False, "error": "insufficient_credit"}, RefusalCode.OUT_OF_CREDIT),
        ({"success": False, "error": "no_such_ask"}, RefusalCode.OFFER_GONE),
        ({"success": False, "error": "insufficient_credit", "new_contract": 5}, RefusalCode.OUT_OF_CREDIT),
    ],
)
def test_a_known_no_with_status_200(body: dict[str, object], code: RefusalCode) -> None:
    outcome = outcomes.judge_create(answer(200, body), is_bid=True)
    assert isinstance(outcome, Refused)
    assert outcome.code is code


def test_conflict_on_create_is_a_lost_race() -> None:
    outcome = outcomes.judge_create(answer(409, {"success": False, "error": "conflict"}), is_bid=True)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE


@pytest.mark.parametrize("change", NOT_CREATES)
@pytest.mark.parametrize(
    "reply",
    [
        answer(500, {"success": True}),
        answer(502, raw="<html>"),
        answer(503, {"success": False}),
        answer(504, raw=""),
        answer(200, raw=""),
        answer(200, raw="<html>"),
        answer(200, {}),
        answer(301, {"success": True}),
        answer(404, raw="<html>"),
        answer(408, {"success": False}),
    ],
)
def test_changes_whose_fate_is_open_are_unknown(change: str, reply: Answer) -> None:
    assert isinstance(CHANGES[change](reply), Unknown)


@pytest.mark.parametrize("change", NOT_CREATES)
def test_changes_that_took(change: str) -> None:
    assert isinstance(CHANGES[change](understand(Reply(200, text("change_bid_ok")))), Done)


def test_done_bid_is_the_bid_sent() -> None:
    assert outcomes.judge_bid_change(answer(200, {"success": True}), Decimal("0.171")) == Done(Decimal("0.171"))


@pytest.mark.parametrize("change", ["bid", "stop", "destroy"])
def test_success_false_without_a_reason_is_a_no(change: str) -> None:
    outcome = CHANGES[change](answer(200, {"success": False}))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.INVALID


def test_a_start_may_stay_queued() -> None:
    outcome = outcomes.judge_start(understand(Reply(200, text("start_queued.http200"))))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.QUEUED


def test_a_start_that_fails_in_unknown_words_is_unknown() -> None:
    assert isinstance(outcomes.judge_start(answer(200, {"success": False, "msg": "hm"})), Unknown)


def test_missing_billing_is_out_of_credit() -> None:
    outcome = outcomes.judge_start(answer(400, {"success": False, "error": "missing_billing"}))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OUT_OF_CREDIT


def test_destroying_what_is_gone_is_done() -> None:
    assert outcomes.judge_destroy(recorded("no_such_instance")) == Done(None)


def test_destroying_with_a_wrong_key_is_not_done() -> None:
    outcome = outcomes.judge_destroy(recorded("unknown key (billing, bundles)"))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.NO_RIGHTS


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, raw="<html>"),
        answer(200, raw=""),
        answer(200, []),
        answer(200, raw="NaN"),
        answer(200, {"success": False}),
        answer(500, {}),
        answer(301, {"success": True}),
        answer(200, raw='{"a": ' + "[" * 100_000),
        answer(200, raw='{"a": ' + "9" * 5_000 + "}"),
    ],
)
def test_unreadable_reads_are_unknown(reply: Answer) -> None:
    with pytest.raises(MarketUnknown):
        outcomes.read(reply)


def test_messages_do_not_carry_the_body() -> None:
    secret = "d15c2f0a0f4e4b6f"
    for status in (200, 400, 500):
        body = {"success": False, "instance_api_key": secret, "msg": "words of the market"}
        outcome = outcomes.judge_create(answer(status, body), is_bid=True)
        assert not isinstance(outcome, Done)
        assert secret not in outcome.message
        assert "words of the market" in outcome.message
        outcome = outcomes.judge_create(answer(status, raw=f"<html>{secret}"), is_bid=True)
        assert not isinstance(outcome, Done)
        assert secret not in outcome.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
fields = st.fixed_dictionaries(
    {},
    optional={name: json_values for name in ("success", "error", "msg", "detail", "new_contract", "retry_after")},
)


@given(
    status=st.integers(100, 599),
    raw=st.text() | st.binary().map(lambda data: data.decode("latin-1")) | fields.map(json.dumps),
    retry_after=st.none() | st.text(),
)
def test_any_reply_gives_an_outcome(status: int, raw: str, retry_after: str | None) -> None:
    reply = understand(Reply(status, raw, retry_after))
    for change in CHANGES.values():
        outcome = change(reply)
        assert isinstance(outcome, Done | Refused | Unknown)
        if isinstance(outcome, Done):
            assert status == 200 or change is outcomes.judge_destroy
        if status >= 500:
            assert isinstance(outcome, Unknown)
    try:
        outcomes.read(reply)
    except MarketUnknown:
        pass
    else:
        assert status == 200


@pytest.mark.parametrize(("is_bid", "code"), [(True, RefusalCode.BID_TOO_LOW), (False, RefusalCode.OFFER_GONE)])
def test_what_cannot_start_is_a_lost_bid_where_one_was_made(is_bid: bool, code: RefusalCode) -> None:
    body = {"success": False, "error": "no_such_ask", "msg": "error 410/3907: no_such_ask"}
    outcome = outcomes.judge_create(answer(410, body), is_bid=is_bid)
    assert isinstance(outcome, Refused)
    assert outcome.code is code
