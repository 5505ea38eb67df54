"""What came back from the market, read as far as it can be, and what went wrong in the market's own vocabulary.

GraphQL answers business errors with status 200; REST answers problem+json. Codes are stabler than texts, so they are
read first; texts are matched without regard to case, as parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autopilot.providers import values
from autopilot.providers.reading import MESSAGE_LENGTH, Reply


class Fault(StrEnum):
    NO_CAPACITY = "no_capacity"
    HOST_FULL = "host_full"
    """The machine that a stopped pod is tied to has no free GPU."""
    WRONG_RESUME = "wrong_resume"
    """A spot pod cannot be started as an on-demand one."""
    NO_CREDIT = "no_credit"
    NO_RIGHTS = "no_rights"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    INVALID = "invalid"
    """The request itself is wrong, in form or in the pod's present state."""
    WITHDRAWN = "withdrawn"
    """This interface is no more."""
    TRANSIENT = "transient"
    """Nothing is known: a gateway's answer, an unreadable body, the market's own failure."""
    OTHER = "other"
    """An error of the market that this program does not know."""


_BY_STATUS = {
    401: Fault.NO_RIGHTS,
    402: Fault.NO_CREDIT,
    403: Fault.NO_RIGHTS,
    410: Fault.WITHDRAWN,
    429: Fault.RATE_LIMITED,
}
_BY_STATUS_WITHOUT_BODY = {401: Fault.NO_RIGHTS, 410: Fault.WITHDRAWN, 429: Fault.RATE_LIMITED}
"""A gateway answers 402, 403 and 404 too, and then they mean nothing."""
_BY_CODE = {
    "SUPPLY_CONSTRAINT": Fault.NO_CAPACITY,
    "INSUFFICIENT_BALANCE": Fault.NO_CREDIT,
    "UNAUTHENTICATED": Fault.NO_RIGHTS,
    "FORBIDDEN": Fault.NO_RIGHTS,
    "GRAPHQL_VALIDATION_FAILED": Fault.INVALID,
    "GRAPHQL_PARSE_FAILED": Fault.INVALID,
    "BAD_USER_INPUT": Fault.INVALID,
}
_BY_TEXT = {
    "no instances available": Fault.NO_CAPACITY,
    "no longer any instances available": Fault.NO_CAPACITY,
    "no instances currently available": Fault.NO_CAPACITY,
    "does not have the resources to deploy your pod": Fault.NO_CAPACITY,
    "could not find any pods with required specifications": Fault.NO_CAPACITY,
    "not enough free gpus on the host machine": Fault.HOST_FULL,
    "cannot resume a spot pod as an on demand pod": Fault.WRONG_RESUME,
    "over your current spending limit": Fault.NO_CREDIT,
    "insufficient balance": Fault.NO_CREDIT,
    "pod not found": Fault.NOT_FOUND,
    "container registry auth": Fault.INVALID,
    "unauthorized": Fault.NO_RIGHTS,
    "something went wrong": Fault.TRANSIENT,
}
_FAILURE_CODE = "INTERNAL_SERVER_ERROR"


def fault_in_text(text: str) -> Fault | None:
    lowered = text.casefold()
    return next((fault for part, fault in _BY_TEXT.items() if part in lowered), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """``body``: the JSON object, or None when the text is none; ``codes`` and ``message``: of all errors in it."""

    status: int
    body: Mapping[str, Any] | None
    codes: tuple[str, ...]
    message: str
    has_errors: bool
    retry_after_s: float | None

    @property
    def fault(self) -> Fault | None:
        """None: the market did, or answered, what it was asked."""
        if self.body is None and self.status != 204:
            return _BY_STATUS_WITHOUT_BODY.get(self.status, Fault.TRANSIENT)
        if self.status < 300 and not self.has_errors:
            return None
        return _BY_STATUS.get(self.status) or self._named_fault or self._unnamed_fault

    @property
    def _named_fault(self) -> Fault | None:
        by_code = next((_BY_CODE[code] for code in self.codes if code in _BY_CODE), None)
        return by_code or fault_in_text(self.message)

    @property
    def _unnamed_fault(self) -> Fault:
        if self.status == 404:
            return Fault.NOT_FOUND
        if _FAILURE_CODE in self.codes or self.status >= 500 or self.status == 408 or 300 <= self.status < 400:
            return Fault.TRANSIENT
        return Fault.INVALID if self.status >= 400 else Fault.OTHER

    def result(self, operation: str) -> Any:
        """What GraphQL gave for that operation; None also when it gave nothing."""
        return values.mapping((self.body or {}).get("data")).get(operation)

    @property
    def summary(self) -> str:
        """For messages: never the raw body, which may hold a pod's environment."""
        words = ": ".join(part for part in (" ".join(self.codes), self.message) if part)
        if words:
            return f"HTTP {self.status} {words}"
        return f"HTTP {self.status}" if self.body is not None else f"HTTP {self.status} without a readable body"


def understand(reply: Reply) -> Answer:
    try:
        decoded = values.decode(reply.text)
    except values.Unreadable:
        decoded = None
    body = decoded if isinstance(decoded, dict) else None
    fields = body or {}
    stated = fields.get("errors")
    errors = stated if isinstance(stated, list) else []
    codes = (values.text(values.mapping(values.mapping(error).get("extensions")).get("code")) for error in errors)
    texts = [values.text(fields.get(name)) for name in ("detail", "error", "message")]
    texts += [values.text(error) or values.text(values.mapping(error).get("message")) for error in errors]
    wait_s = values.number(reply.retry_after)
    return Answer(
        status=reply.status,
        body=body,
        codes=tuple(code for code in codes if code),
        message="; ".join(text for text in texts if text)[:MESSAGE_LENGTH],
        has_errors=bool(stated),
        retry_after_s=float(wait_s) if wait_s is not None and wait_s >= 0 else None,
    )
