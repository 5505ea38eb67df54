"""Answers → outcomes. Every known "no" has its row here; all that is uncertain is ``Unknown``."""

from __future__ import annotations

from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.mithril.reply import Answer, Fault

Outcome = Done[None] | Refused | Unknown

CODES = {
    Fault.TOO_LOW: RefusalCode.BID_TOO_LOW,
    Fault.NAME_TAKEN: RefusalCode.INVALID,
    Fault.NO_CREDIT: RefusalCode.OUT_OF_CREDIT,
    Fault.OVER_QUOTA: RefusalCode.OFFER_GONE,
    Fault.NO_RIGHTS: RefusalCode.NO_RIGHTS,
    Fault.NOT_FOUND: RefusalCode.NOT_FOUND,
    Fault.RATE_LIMITED: RefusalCode.RATE_LIMITED,
    Fault.INVALID: RefusalCode.INVALID,
}
"""TRANSIENT is missing: after it, the market may have acted or not. What a quota refuses counts as rented out."""


def read(answer: Answer) -> Answer:
    """An answer to a read that succeeded. Raises ``MarketUnknown``."""
    fault = answer.fault
    if fault is not None:
        raise MarketUnknown(answer.summary, CODES.get(fault))
    return answer


def judge_refusal(answer: Answer, fault: Fault) -> Refused | Unknown:
    code = CODES.get(fault)
    return Unknown(answer.summary) if code is None else Refused(code, answer.summary, None, answer.retry_after_s)


def judge_change(answer: Answer) -> Outcome:
    fault = answer.fault
    return Done(None) if fault is None else judge_refusal(answer, fault)


def judge_destroy(answer: Answer) -> Outcome:
    """A bid that is not there counts as ended."""
    return Done(None) if answer.fault is Fault.NOT_FOUND else judge_change(answer)
