"""Tokens of the API: what a program may do that is not a user of the socket, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from autopilot.domain.errors import UserError
from autopilot.domain.money import usd


class Scope(StrEnum):
    """Each holds those before it."""

    READ = "read"
    OPERATE = "operate"
    """Cancel, stop, resume, release."""
    SUBMIT = "submit"
    """Also submit and change jobs, send code, enter their machines."""
    ADMIN = "admin"
    """Also other owners' jobs, tokens and certifications."""

    def covers(self, other: Scope) -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(other)


MOST_OPEN_JOBS = 500
"""Limit for one token: each tick reads all jobs, and one client must not slow down everyone's."""

MOST_MADE = 50
"""Tokens in force that one token has made, with all that those have made: each call looks at all of them."""

PROXIED = "proxy:"
"""Prefix of the name of a user whom a reverse proxy vouches for. No name of a token has a colon."""


class Bounds(NamedTuple):
    """What somebody may do; each field as of a ``Token``."""

    scope: Scope
    sees_all: bool = False
    secrets: tuple[str, ...] = ()
    allowance: Decimal | None = None
    is_monthly: bool = False
    ask_above: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """Also what the settings allow a user of the socket: without a secret, and kept nowhere.

    And a user whom a reverse proxy vouches for: with a name that begins with ``PROXIED``, and an undisclosed secret.
    """

    number: int
    """From 1; never used again. ``-number`` is the owner of its jobs. Of a user it is minus the uid."""
    name: str
    sha256: str
    """Digest of the secret itself, which is stored nowhere."""
    scope: Scope
    sees_all: bool
    """It may read what concerns other owners and the whole account."""
    secrets: tuple[str, ...]
    """Names of those that its job files may name, in ``[secrets]`` and ``[registry]`` alike."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None
    allowance: Decimal | None = None
    """Dollars that all jobs of it may cost together; None: no more is asked of them than of others."""
    is_monthly: bool = False
    """The allowance is one for each UTC month, in which the spend falls; else it is one for the token's whole life."""
    ask_above: Decimal | None = None
    """Dollars: a person has to confirm what may cost more, job by job; None: no confirmation."""
    made_by: int | None = None
    """The owner of its maker, whose rights bound it; None: a user of the socket, of whom nothing was noted."""
    made_under: str = ""
    """The entry of the settings that limited its maker then: ``owners``, or ``proxy:NAME`` of a proxied user who has
    the jobs of a user of this machine; empty: none, or the ledger has the maker among its tokens."""

    @property
    def is_of_user(self) -> bool:
        return not self.sha256

    @property
    def is_proxied(self) -> bool:
        return self.name.startswith(PROXIED)

    @property
    def owner(self) -> int:
        """Owner of its jobs, its code and its idempotency keys. Users have numbers from 0 on."""
        return -self.number

    def is_in_force(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def counts_from(self, now: datetime) -> date | None:
        """The first day whose spend counts against the allowance; None: all of it.

        It does not renew once the token has ended.
        """
        ended_at = min((at for at in (self.revoked_at, self.expires_at) if at is not None), default=now)
        return min(now, ended_at).astimezone(UTC).date().replace(day=1) if self.is_monthly else None


@dataclass(frozen=True, slots=True)
class PageSession:
    """A browser that was let into the page, or the link that lets one in."""

    sha256: str
    """Digest of the secret, which is stored nowhere."""
    owner: int
    """The uid of the user who requested the link, or a token's owner."""
    token_sha256: str
    """Digest of the token that requested the link: the session ends with it. Empty: a user of the socket."""
    expires_at: datetime
    is_link: bool
    """It is good for a session, once, and for nothing else."""
    is_limited: bool = False
    """Requested by a user of the socket whom the settings limited: it ends when their entry is removed."""


def parse_allowance(text: str) -> tuple[Decimal, bool]:
    """Dollars, and whether for each month, of ``$20/month``, or ``$20`` for the whole life. Raises ``UserError``."""
    amount, slash, period = text.partition("/")
    if slash and period.strip() != "month":
        raise UserError(f"allow cannot be {text!r}", hint="$20/month, or $20 for the token's whole life")
    return parse_amount(amount.strip(), "allow"), bool(slash)


def parse_amount(text: str, key: str) -> Decimal:
    """Raises ``UserError``."""
    amount = usd(text)
    if amount <= 0:
        raise UserError(f"{key} must be positive")
    return amount


def is_of_token(owner: int) -> bool:
    return owner < 0
