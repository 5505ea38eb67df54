"""Refusals → outcomes. Every known "no" has its row here; all that is uncertain is ``Unknown``."""

from __future__ import annotations

from autopilot.ports.provider import Done, RefusalCode, Refused, Unknown
from autopilot.providers.nebius.reply import Fault, Refusal

Outcome = Done[None] | Refused | Unknown

CODES = {
    Fault.NO_HARDWARE: RefusalCode.OFFER_GONE,
    Fault.OVER_QUOTA: RefusalCode.QUOTA,
    Fault.OUT_OF_RANGE: RefusalCode.INVALID,
    Fault.BUSY: RefusalCode.RATE_LIMITED,
    Fault.NO_RIGHTS: RefusalCode.NO_RIGHTS,
    Fault.NOT_FOUND: RefusalCode.NOT_FOUND,
    Fault.NAME_TAKEN: RefusalCode.INVALID,
    Fault.RATE_LIMITED: RefusalCode.RATE_LIMITED,
    Fault.INVALID: RefusalCode.INVALID,
}
"""TRANSIENT is missing: after it, the market may have acted or not."""


def judge_refusal(refusal: Refusal, instance_id: str | None = None) -> Refused | Unknown:
    code = CODES.get(refusal.fault)
    if code is None:
        return Unknown(refusal.summary, instance_id)
    words = refusal.summary
    if code is RefusalCode.QUOTA:
        words += ": ask Nebius to raise it, or free some of it"
    return Refused(code, words, instance_id)
