"""Answers → outcomes. Every known "no" has its row here; all that is uncertain is ``Unknown``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.runpod import wire
from autopilot.providers.runpod.reply import Answer, Fault

Outcome = Done[None] | Refused | Unknown

CODES = {
    Fault.NO_CAPACITY: RefusalCode.OFFER_GONE,
    Fault.HOST_FULL: RefusalCode.OFFER_GONE,
    Fault.WRONG_RESUME: RefusalCode.INVALID,
    Fault.NO_CREDIT: RefusalCode.OUT_OF_CREDIT,
    Fault.NO_RIGHTS: RefusalCode.NO_RIGHTS,
    Fault.NOT_FOUND: RefusalCode.NOT_FOUND,
    Fault.RATE_LIMITED: RefusalCode.RATE_LIMITED,
    Fault.INVALID: RefusalCode.INVALID,
}
"""TRANSIENT and OTHER are missing: after them, the market may have acted or not. WITHDRAWN is ``Withdrawn``."""


NO_POD = "the market gave no pod and no reason"
"""Mostly for want of capacity. A create that took and whose answer was lost on the way looks the same."""


class Withdrawn(MarketUnknown):
    """This interface is no more: nothing was done, and the other one has to be asked."""


def read(answer: Answer) -> Mapping[str, Any]:
    """The body of a read that succeeded. Raises ``MarketUnknown``, ``Withdrawn``."""
    fault = answer.fault
    if fault is Fault.WITHDRAWN:
        raise Withdrawn(answer.summary)
    if fault is not None or answer.body is None:
        raise MarketUnknown(answer.summary, CODES.get(fault) if fault else None)
    return answer.body


def _no(answer: Answer, fault: Fault) -> Refused | Unknown:
    """Raises ``Withdrawn``."""
    if fault is Fault.WITHDRAWN:
        raise Withdrawn(answer.summary)
    code = CODES.get(fault)
    return Unknown(answer.summary) if code is None else Refused(code, answer.summary, None, answer.retry_after_s)


def judge_rental(answer: Answer, operation: str) -> Done[Created] | Refused | Unknown:
    """Of GraphQL. A pod in the answer was rented, even beside errors; no pod at all means that there is no capacity.

    Raises ``Withdrawn``.
    """
    pod_id = wire.pod_id(answer.result(operation))
    if pod_id is not None:
        return Done(Created(pod_id))
    fault = answer.fault
    if fault is not None:
        return _no(answer, fault)
    data = (answer.body or {}).get("data")
    if isinstance(data, dict) and operation in data and data[operation] is None:
        return Refused(RefusalCode.OFFER_GONE, NO_POD)
    return Unknown(f"{operation}: {answer.summary}, but no pod in it")


def spot_rented(answer: Answer, operation: str) -> Done[Created] | Refused | Unknown:
    """The market has no text for a bid that is too low, so an error that is not known says that or "no capacity".

    Raises ``Withdrawn``.
    """
    outcome = judge_rental(answer, operation)
    if isinstance(outcome, Unknown) and answer.fault is Fault.OTHER:
        return Refused(RefusalCode.OFFER_GONE, answer.summary)
    return outcome


def judge_rest_rental(answer: Answer) -> Done[Created] | Refused | Unknown:
    """Raises ``Withdrawn``, also when there is no such route."""
    fault = answer.fault
    if fault is Fault.NOT_FOUND or answer.status == 404:
        raise Withdrawn(answer.summary)
    if fault is not None:
        return _no(answer, fault)
    pod_id = wire.pod_id(answer.body)
    return Unknown(f"{answer.summary}, but no pod in it") if pod_id is None else Done(Created(pod_id))


def judge_change(answer: Answer, operation: str | None = None) -> Outcome:
    """``operation``: of GraphQL, whose answer must show a pod. Raises ``Withdrawn``."""
    fault = answer.fault
    if fault is Fault.OTHER:
        return Refused(RefusalCode.INVALID, answer.summary)
    if fault is not None:
        return _no(answer, fault)
    if operation is not None and wire.pod_id(answer.result(operation)) is None:
        return Unknown(f"{operation}: {answer.summary}, but no pod in it")
    return Done(None)


def judge_destroy(answer: Answer) -> Outcome:
    """A pod that is not there counts as destroyed. Raises ``Withdrawn``."""
    outcome = judge_change(answer)
    if isinstance(outcome, Refused) and outcome.code is RefusalCode.NOT_FOUND:
        return Done(None)
    return outcome
