"""What is asked about tokens, certifications and the markets' answers."""

from __future__ import annotations

from autopilot.answers.models.base import Asked, Query
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


class CertifyBody(Asked):
    budget: str
    gpus: tuple[str, ...] = ()
    """Names, 8 at most."""
    plan: str = ""
    """The id of the confirmed plan, if the token needs one."""


class AcceptBody(Asked):
    claim: str


class DriftQuery(Query):
    provider: str | None = None
