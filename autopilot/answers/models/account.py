"""Tokens, certifications, and what the markets answered otherwise than expected."""

from __future__ import annotations

from autopilot.answers.models.base import Answer, Asked, Query
from autopilot.answers.scalars import Instant, Money, Scalar
from autopilot.answers.status import Certificate
from autopilot.domain.token import Scope


class TokenBody(Asked):
    name: str
    scope: Scope
    sees_all: bool = False
    secrets: tuple[str, ...] = ()
    """Names of secrets that its job files may name."""
    expires: str = ""
    """How long it is valid, ``30d``; empty: until it is revoked, or as long as its maker."""
    allow: str = ""
    """``$20/month``, or ``$20`` for its whole life; empty: as its maker, or no allowance."""
    ask_above: str = ""
    """``$5``: a person confirms each job that may cost more; empty: as its maker, or no confirmation."""


class RevokeBody(Asked):
    park: bool = False
    """All of its jobs; else only those that have not started."""


class Token(Answer):
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


class MadeToken(Answer):
    token: Token
    secret: str
    """Shown only in this answer."""


class Tokens(Answer):
    tokens: list[Token]


class RevokedToken(Answer):
    token: Token
    parked: list[str]
    """Ids of the jobs that are being saved and parked, including those of the tokens that end with it."""
    ended: tuple[str, ...] = ()
    """Names of the tokens that it made, directly or indirectly: they end with it."""


class WaitingPlan(Answer):
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


class WaitingPlans(Answer):
    plans: list[WaitingPlan]
    """Oldest first."""


class ConfirmedPlan(Answer):
    plan: WaitingPlan


class CertifyBody(Asked):
    budget: str
    gpus: tuple[str, ...] = ()
    """Names, 8 at most."""
    plan: str = ""
    """The id of the confirmed plan, if the token needs one."""


class AcceptBody(Asked):
    claim: str


class CertificationJob(Answer):
    id: str
    status: str
    reason: str


class CertificationStep(Answer):
    step: str
    over: bool


class Claim(Answer):
    id: str
    sentence: str
    verdict: str
    """``held``, ``broken``, ``not_seen``, ``waiting`` or ``open``."""
    matters: bool
    settled_by: str
    changes: str
    at: Instant | None
    accepted_at: Instant | None
    seen: dict[str, Scalar]


class Certification(Answer):
    market: str
    certificate: Certificate
    certification: CertificationJob | None
    steps: list[CertificationStep]
    claims: list[Claim]
    budget: Money | None
    ledger: Money | None
    billed: Money | None


class Accepted(Answer):
    market: str
    claim: str
    accepted_at: Instant


class DriftQuery(Query):
    provider: str | None = None


class Drift(Answer):
    provider: str
    answer: str
    field: str
    kind: str
    is_read: bool
    is_money: bool
    count: int
    first_seen_at: Instant
    last_seen_at: Instant
    sample: str


class Drifts(Answer):
    drifts: list[Drift]
