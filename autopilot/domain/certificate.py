"""Certificates: what a market was seen to do on one account, and whether new machines may be rented on that proof."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from autopilot.domain.money import Number

LASTS = timedelta(days=30)
NOTICE = timedelta(days=7)
"""So long before its end a certificate asks to be renewed."""


LABEL = "list-shows-label"
OWN_ID = "own-id"
OWN_KEY = "own-key-destroys"
DELETE = "delete-ends-it"
"""Claims that the use of a market shows, by their ids, which are the same on all markets."""


class ClaimVerdict(StrEnum):
    HELD = "held"
    BROKEN = "broken"
    NOT_SEEN = "not_seen"


class Lack(StrEnum):
    """Why nothing new may be rented on a market."""

    MISSING = "missing"
    EXPIRED = "expired"
    ENDED = "ended"
    OTHER_ACCOUNT = "other_account"
    OTHER_VERSION = "other_version"
    CLAIM_BROKEN = "claim_broken"
    CERTIFYING_ONLY = "certifying_only"
    """The daemon was started to certify markets, and for nothing else."""


MAY_BE_TRIED = frozenset({Lack.MISSING, Lack.EXPIRED, Lack.OTHER_ACCOUNT, Lack.OTHER_VERSION})
"""Where nothing is known against the market: an allowance for markets without a certificate may stand in for one."""


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """What one certification, or the use of a market by ordinary jobs, saw of one claim."""

    job_id: str
    """The job of the certification, or that by which the market was used."""
    claim: str
    verdict: ClaimVerdict
    at: datetime
    numbers: tuple[tuple[str, Number], ...] = ()
    """What was seen. It contains no secret and no id of a machine or an account."""
    accepted_at: datetime | None = None
    """When the operator accepted, by name, that it does not hold."""
    used_on: str = ""
    """The market, of what its use showed: there is one such finding of each claim, the newest. Empty: a certification
    found it."""
    account: str = ""
    """Of what use showed: a digest of the account's id, as in a certificate."""
    version: str = ""
    """Of what use showed: major and minor version of autopilot."""


@dataclass(frozen=True, slots=True)
class StepMark:
    """How far a certification is with one step."""

    job_id: str
    step: str
    begun_at: datetime
    over_at: datetime | None = None
    numbers: tuple[tuple[str, Number], ...] = ()
    """What the step needs to remember: the floor that it saw, the bid that it made."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """``job_id`` is the certification that it is based on."""

    job_id: str
    provider: str
    account: str
    """A digest of the account's id; empty if the market tells none."""
    version: str
    """Major and minor version of autopilot: "1.4"."""
    issued_at: datetime
    ends_at: datetime
    ended_at: datetime | None = None
    """When it was ended before its time."""
    ended_because: str = ""


@dataclass(frozen=True, slots=True)
class UseProof:
    """Whether a market without a certificate is proved by use: a machine was found by its label, and was gone at its
    end."""

    ends_at: datetime | None = None
    """None: it is not proved."""
    is_due: bool = False
    """The next job that ends well there is to prove it, for the first time or in time for the next."""

    @property
    def is_made(self) -> bool:
        return self.ends_at is not None


NO_PROOF = UseProof()


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """One market's certificate as of now."""

    certificate: Certificate | None
    lack: Lack | None
    """None: it is in force."""
    broken: tuple[str, ...] = ()
    """Claims that matter to money or to ending machines, that do not hold, and that are not accepted."""
    unproven: Lack | None = None
    """What the certificate itself lacks, claims that do not hold apart."""

    def ends_soon(self, now: datetime) -> bool:
        return self.lack is None and self.certificate is not None and self.certificate.ends_at - now <= NOTICE


def judge_certificate(
    certificate: Certificate | None,
    findings: Sequence[ClaimFinding],
    weighty: Collection[str],
    account: str,
    version: str,
    now: datetime,
) -> CertificateStatus:
    """``findings``: of all certifications of the market, oldest first. ``weighty``: the claims that matter to money or
    to ending machines. What was found broken stays so until it is accepted, or seen to hold.
    """
    newest = {each.claim: each for each in findings if each.verdict is not ClaimVerdict.NOT_SEEN}
    broken = tuple(
        sorted(
            each.claim
            for each in newest.values()
            if each.verdict is ClaimVerdict.BROKEN and each.accepted_at is None and each.claim in weighty
        )
    )
    unproven = _lack(certificate, account, version, now)
    return CertificateStatus(certificate, Lack.CLAIM_BROKEN if broken else unproven, broken, unproven)


def _lack(certificate: Certificate | None, account: str, version: str, now: datetime) -> Lack | None:
    if certificate is None:
        return Lack.MISSING
    if certificate.ended_at is not None:
        return Lack.ENDED
    if now >= certificate.ends_at:
        return Lack.EXPIRED
    if certificate.account != account:
        return Lack.OTHER_ACCOUNT
    return None if certificate.version == version else Lack.OTHER_VERSION


def judge_use(findings: Sequence[ClaimFinding], end: str | None, account: str, version: str, now: datetime) -> UseProof:
    """``findings``: of the market, oldest first. ``end``: the claim by which a machine of it is gone at its end; None:
    there is none. A proof holds for one account and one version, as a certificate does.
    """
    newest = {each.claim: each for each in findings if each.verdict is not ClaimVerdict.NOT_SEEN}
    needed = [newest.get(claim) for claim in (LABEL, end or "")]
    shown = [each.at for each in needed if each is not None and _is_shown_by_use(each, account, version)]
    ends_at = min(shown, default=now) + LASTS if len(shown) == len(needed) else now
    is_broken = any(each is not None and each.verdict is ClaimVerdict.BROKEN for each in needed)
    is_due = end is not None and not is_broken and ends_at - now <= NOTICE
    return UseProof(ends_at if now < ends_at else None, is_due)


def _is_shown_by_use(finding: ClaimFinding, account: str, version: str) -> bool:
    is_same = (finding.account, finding.version) == (account, version)
    return bool(finding.used_on) and is_same and finding.verdict is ClaimVerdict.HELD
