"""Tokens, and what waits for a person to confirm it."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money
from autopilot.domain.token import Scope


@record(frozen=True, kw_only=True)
class Token(Described):
    number: int
    name: str
    scope: Scope
    sees_all: bool
    secrets: list[str]
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    in_force: bool
    allowance: Money | None
    is_monthly: bool
    ask_above: Money | None
    made_by: str | None = None
    """Its maker, whose rights limit it: a user, ``token:NAME`` or ``proxy:NAME``. Null: a user of the socket, of whom
    nothing was noted."""


@record(frozen=True, kw_only=True)
class MadeToken(Described):
    token: Token
    secret: str
    """Shown only in this answer."""


@record(frozen=True, kw_only=True)
class Tokens(Described):
    tokens: list[Token]


@record(frozen=True, kw_only=True)
class RevokedToken(Described):
    token: Token
    parked: list[str]
    """Ids of the jobs that are being saved and parked, including those of the tokens that end with it."""
    ended: tuple[str, ...] = ()
    """Names of the tokens that it made, directly or indirectly: they end with it."""


@record(frozen=True, kw_only=True)
class WaitingPlan(Described):
    """A request of a token that a person must confirm."""

    id: str
    owner: int
    what: str
    """``submit``, or ``change`` and the changed values."""
    name: str
    image: str
    run: str
    """The start of its command."""
    budget: Money | None
    max_rate: Money | None
    max_hourly: Money | None
    sha256: str
    """Digest of the whole request: the job file, the code, the values."""
    made_at: Instant
    is_confirmed: bool


@record(frozen=True, kw_only=True)
class WaitingPlans(Described):
    plans: list[WaitingPlan]
    """Oldest first."""


@record(frozen=True, kw_only=True)
class ConfirmedPlan(Described):
    plan: WaitingPlan
