"""Answers → outcomes. Every known "no" has its row here; all that is uncertain is ``Unknown``.

Status 200 is no success by itself: the body decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.vastai.reply import Answer

_BY_CODE = {
    "auth_error": RefusalCode.NO_RIGHTS,
    "not_authorized": RefusalCode.NO_RIGHTS,
    "no_such_ask": RefusalCode.OFFER_GONE,
    "no_such_instance": RefusalCode.NOT_FOUND,
    "insufficient_credit": RefusalCode.OUT_OF_CREDIT,
    "missing_billing": RefusalCode.OUT_OF_CREDIT,
}
_BY_STATUS = {401: RefusalCode.NO_RIGHTS, 429: RefusalCode.RATE_LIMITED}
_BY_STATUS_WITH_BODY = {403: RefusalCode.NO_RIGHTS}
_MAYBE_DONE = frozenset({408})
"""Statuses below 500 that leave open whether the request was carried out."""


class SearchQuotaExceeded(MarketUnknown):
    """No more rows today; ``retry_after_s`` as the market states it."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message, RefusalCode.RATE_LIMITED)
        self.retry_after_s = retry_after_s


def _plainly_no(answer: Answer) -> bool:
    """The market itself turned the request down: a status that says so, with a body that is its own."""
    return answer.body is not None and 400 <= answer.status < 500 and answer.status not in _MAYBE_DONE


def refusal_code(answer: Answer) -> RefusalCode | None:
    """The known "no" in an answer, or None when there is none to be sure of."""
    if answer.status in _BY_STATUS:
        return _BY_STATUS[answer.status]
    if not (_plainly_no(answer) or (answer.status == 200 and answer.said_no)):
        return None
    named = next((code for name, code in _BY_CODE.items() if answer.mentions(name)), None)
    return named or _BY_STATUS_WITH_BODY.get(answer.status)


def is_quota_used_up(answer: Answer) -> bool:
    """Whether there are no more rows of searches today."""
    return answer.status == 429 and answer.error == "search_quota_exceeded"


def read(answer: Answer) -> Mapping[str, Any]:
    """The body of a read that succeeded. Raises ``MarketUnknown``."""
    if answer.status == 200 and answer.body is not None and not answer.said_no:
        return answer.body
    if is_quota_used_up(answer):
        raise SearchQuotaExceeded(answer.summary, answer.retry_after_s)
    raise MarketUnknown(answer.summary, refusal_code(answer))


def _refused_or_unknown(answer: Answer) -> Refused | Unknown:
    """For an answer without success. A plain "no" for a reason that has no code of its own is ``INVALID``."""
    code = refusal_code(answer)
    if code is None and not _plainly_no(answer):
        return Unknown(answer.summary, answer.new_contract)
    return Refused(code or RefusalCode.INVALID, answer.summary, answer.new_contract, answer.retry_after_s)


def judge_create(answer: Answer, *, is_bid: bool) -> Done[Created] | Refused | Unknown:
    """A "no" with a contract number means that the bid lost and a stopped contract exists, which bills its disk.

    Asked to cancel what cannot start, the market answers 410 instead: the offer is there, and the bid does not win it.
    A "no" without number and without a known code may hide such a contract, so it counts as ``Unknown``.
    """
    if answer.status == 200 and answer.new_contract is not None:
        if answer.said_yes:
            return Done(Created(answer.new_contract))
        if answer.said_no:
            code = refusal_code(answer) or RefusalCode.BID_TOO_LOW
            return Refused(code, answer.summary, answer.new_contract)
    if answer.status == 410 and answer.body is not None and is_bid:
        return Refused(RefusalCode.BID_TOO_LOW, answer.summary, answer.new_contract)
    if answer.status == 409 and answer.body is not None:
        return Refused(RefusalCode.OFFER_GONE, answer.summary, answer.new_contract)
    return _refused_or_unknown(answer)


def _judge_change(answer: Answer) -> Refused | Unknown | None:
    """None: the market did it."""
    if answer.status == 200 and answer.said_yes:
        return None
    if answer.status == 200 and answer.said_no and refusal_code(answer) is None:
        return Refused(RefusalCode.INVALID, answer.summary)
    return _refused_or_unknown(answer)


def judge_bid_change(answer: Answer, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
    return _judge_change(answer) or Done(bid)


def judge_start(answer: Answer) -> Done[None] | Refused | Unknown:
    """A start that cannot be had now stays queued at the market and may fire an hour later."""
    if answer.status == 200 and answer.said_no and refusal_code(answer) is None:
        if "queued" in answer.message:
            return Refused(RefusalCode.QUEUED, answer.summary)
        return Unknown(answer.summary)
    return _judge_change(answer) or Done(None)


def judge_stop(answer: Answer) -> Done[None] | Refused | Unknown:
    return _judge_change(answer) or Done(None)


def judge_key(answer: Answer) -> Done[None] | Refused | Unknown:
    """How it answers for a key that is there already is not documented: a login shows whether it is."""
    return _judge_change(answer) or Done(None)


def judge_destroy(answer: Answer) -> Done[None] | Refused | Unknown:
    """An instance that is not there counts as destroyed."""
    outcome = _judge_change(answer)
    if isinstance(outcome, Refused) and outcome.code is not RefusalCode.NO_RIGHTS and answer.status in (404, 410):
        return Done(None)
    return outcome or Done(None)
