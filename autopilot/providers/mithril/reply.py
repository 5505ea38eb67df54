"""What came back from the market, read as far as it can be, and what went wrong in the market's own words.

The API is a FastAPI one: ``{"detail": "text"}``, and 422 with a list of ``{loc, msg, type}``. Its texts are not
published. Those below are what the vendor's own client looks for: as parts, without regard to case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autopilot.providers import values
from autopilot.providers.reading import MESSAGE_LENGTH, Reply

MOST_ERRORS = 8
"""Errors of one refusal that are read."""


class Fault(StrEnum):
    TOO_LOW = "too_low"
    """The limit is below the least price of its auction."""
    NAME_TAKEN = "name_taken"
    NO_CREDIT = "no_credit"
    """No way to pay is set up, or the one that is was refused."""
    OVER_QUOTA = "over_quota"
    NO_RIGHTS = "no_rights"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    INVALID = "invalid"
    TRANSIENT = "transient"
    """Nothing is known: a gateway's answer, an unreadable body, the market's own failure."""


_BY_STATUS = {401: Fault.NO_RIGHTS, 429: Fault.RATE_LIMITED}
"""Regardless of the body."""
_BY_STATUS_WITH_WORDS = {402: Fault.NO_CREDIT, 403: Fault.NO_RIGHTS, 404: Fault.NOT_FOUND}
"""A gateway answers these too, and then they mean nothing."""
_BY_TEXT = {
    "limit price below minimum": Fault.TOO_LOW,
    "price below minimum": Fault.TOO_LOW,
    "limit price too low": Fault.TOO_LOW,
    "name already used": Fault.NAME_TAKEN,
    "name already exists": Fault.NAME_TAKEN,
    "duplicate name": Fault.NAME_TAKEN,
    "quota": Fault.OVER_QUOTA,
    "billing": Fault.NO_CREDIT,
    "payment": Fault.NO_CREDIT,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """``body``: any JSON; ``is_json`` False: the text is none. ``message``: of a refusal."""

    status: int
    body: Any
    is_json: bool
    message: str
    is_about_price: bool
    retry_after_s: float | None

    @property
    def fault(self) -> Fault | None:
        """None: the market did, or answered, what it was asked."""
        if 200 <= self.status < 300:
            return None if self.is_json or self.status == 204 else Fault.TRANSIENT
        if self.status in _BY_STATUS:
            return _BY_STATUS[self.status]
        if not self.message or not 400 <= self.status < 500 or self.status == 408:
            return Fault.TRANSIENT
        return self._by_words

    @property
    def _by_words(self) -> Fault:
        if self.status in _BY_STATUS_WITH_WORDS:
            return _BY_STATUS_WITH_WORDS[self.status]
        lowered = self.message.casefold()
        named = next((fault for part, fault in _BY_TEXT.items() if part in lowered), None)
        if named is not None:
            return named
        if self.status == 422 and self.is_about_price:
            return Fault.TOO_LOW
        # A conflict with what the market is doing just now says nothing of an earlier attempt.
        return Fault.TRANSIENT if self.status == 409 else Fault.INVALID

    @property
    def summary(self) -> str:
        """For messages: never the raw body, which holds the script of a machine."""
        if self.message:
            return f"HTTP {self.status} {self.message}"
        return f"HTTP {self.status}" if self.is_json else f"HTTP {self.status} without a readable body"


def understand(reply: Reply) -> Answer:
    try:
        body, is_json = values.decode(reply.text), True
    except values.Unreadable:
        body, is_json = None, False
    detail = values.mapping(body).get("detail") if reply.status >= 300 else None
    wait_s = values.number(reply.retry_after)
    return Answer(
        status=reply.status,
        body=body,
        is_json=is_json,
        message=_message(detail),
        is_about_price=any("price" in text.casefold() for text in _texts(detail)),
        retry_after_s=float(wait_s) if wait_s is not None and wait_s >= 0 else None,
    )


def _texts(detail: object) -> list[str]:
    """For each error: where it is, and its text."""
    if isinstance(detail, str):
        return [values.text(detail)]
    found = []
    for error in detail[:MOST_ERRORS] if isinstance(detail, list) else ():
        row = values.mapping(error)
        places = row.get("loc")
        place = ".".join(values.text(part) for part in places[:MOST_ERRORS]) if isinstance(places, list) else ""
        found.append(": ".join(part for part in (place, values.text(row.get("msg"))) if part))
    return found


def _message(detail: object) -> str:
    return "; ".join(text for text in _texts(detail) if text)[:MESSAGE_LENGTH]
