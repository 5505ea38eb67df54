"""What went wrong with a call, in the market's own words. Pure: knows no SDK.

A refusal carries typed errors; they say what it is, the status alone does not: a quota and hardware that is not to be
had bear the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from autopilot.providers import values
from autopilot.providers.reading import MESSAGE_LENGTH

MOST_ERRORS = 8
"""Errors of one refusal that are read."""


class Fault(StrEnum):
    NO_HARDWARE = "no_hardware"
    OVER_QUOTA = "over_quota"
    OUT_OF_RANGE = "out_of_range"
    BUSY = "busy"
    """Something else is being done to it, or it is in a state that does not allow this."""
    NO_RIGHTS = "no_rights"
    NOT_FOUND = "not_found"
    NAME_TAKEN = "name_taken"
    RATE_LIMITED = "rate_limited"
    INVALID = "invalid"
    TRANSIENT = "transient"
    """Nothing is known of what became of it."""


BY_DETAIL = {
    "not_enough_resources": Fault.NO_HARDWARE,
    "quota_failure": Fault.OVER_QUOTA,
    "out_of_range": Fault.OUT_OF_RANGE,
    "bad_resource_state": Fault.BUSY,
    "resource_conflict": Fault.BUSY,
    "operation_conflict": Fault.BUSY,
    "permission_denied": Fault.NO_RIGHTS,
    "resource_not_found": Fault.NOT_FOUND,
    "resource_already_exists": Fault.NAME_TAKEN,
    "too_many_requests": Fault.RATE_LIMITED,
    "bad_request": Fault.INVALID,
}
"""By the field of ``ServiceError`` that is set."""
BY_STATUS = {
    "INVALID_ARGUMENT": Fault.INVALID,
    "NOT_FOUND": Fault.NOT_FOUND,
    "ALREADY_EXISTS": Fault.NAME_TAKEN,
    "PERMISSION_DENIED": Fault.NO_RIGHTS,
    "UNAUTHENTICATED": Fault.NO_RIGHTS,
    "FAILED_PRECONDITION": Fault.BUSY,
    "OUT_OF_RANGE": Fault.OUT_OF_RANGE,
    "UNIMPLEMENTED": Fault.INVALID,
}
"""Without a typed error. RESOURCE_EXHAUSTED is not here: an answer that is too large bears it, too."""


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """``kind``: the field of ``ServiceError``. ``limit``: the bound that was passed, where it is said."""

    kind: str
    text: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    status: str
    message: str
    details: tuple[ErrorDetail, ...] = ()

    @property
    def fault(self) -> Fault:
        found = next((BY_DETAIL[each.kind] for each in self.details if each.kind in BY_DETAIL), None)
        return found or BY_STATUS.get(self.status, Fault.TRANSIENT)

    @property
    def limit(self) -> Decimal | None:
        """$/h of a GPU: the bound that a cap has passed."""
        return next((read for each in self.details if (read := values.price(each.limit)) is not None), None)

    @property
    def summary(self) -> str:
        words = [values.text(self.message), *(values.text(each.text) for each in self.details[:MOST_ERRORS])]
        said = "; ".join(dict.fromkeys(word for word in words if word))
        return f"{self.status} {said}".strip()[:MESSAGE_LENGTH]


class MarketRefused(Exception):
    """A call, or the operation that it began, came to nothing."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.summary)
        self.refusal = refusal
