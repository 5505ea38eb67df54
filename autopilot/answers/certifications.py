"""Certifications of markets, and what markets answered otherwise than expected."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Scalar
from autopilot.answers.status import Certificate


@record(frozen=True, kw_only=True)
class CertificationJob(Described):
    id: str
    status: str
    reason: str


@record(frozen=True, kw_only=True)
class CertificationStep(Described):
    step: str
    over: bool


@record(frozen=True, kw_only=True)
class Claim(Described):
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


@record(frozen=True, kw_only=True)
class Certification(Described):
    market: str
    certificate: Certificate
    certification: CertificationJob | None
    steps: list[CertificationStep]
    claims: list[Claim]
    budget: Money | None
    ledger: Money | None
    billed: Money | None


@record(frozen=True, kw_only=True)
class Accepted(Described):
    market: str
    claim: str
    accepted_at: Instant


@record(frozen=True, kw_only=True)
class Drift(Described):
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


@record(frozen=True, kw_only=True)
class Drifts(Described):
    drifts: list[Drift]
