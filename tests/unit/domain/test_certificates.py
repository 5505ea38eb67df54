"""When a certificate lets new machines be rented, to the instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain.certificate import (
    LASTS,
    NOTICE,
    Certificate,
    ClaimFinding,
    ClaimVerdict,
    Lack,
    judge_certificate,
)
from tests.builders import START

CERTIFICATE = Certificate("job-1", "vastai", "0123456789ab", "1.4", START, START + LASTS)
SECOND = timedelta(seconds=1)
BROKEN = ClaimFinding("job-1", "own-id", ClaimVerdict.BROKEN, START)
WEIGHTY = frozenset({"own-id"})


def lack(certificate: Certificate | None = CERTIFICATE, *findings: ClaimFinding, **seen: Any) -> Lack | None:
    given: dict[str, Any] = {"account": "0123456789ab", "version": "1.4", "now": START} | seen
    return judge_certificate(certificate, findings, WEIGHTY, **given).lack


def test_one_in_force() -> None:
    assert lack() is None
    assert lack(now=CERTIFICATE.ends_at - SECOND) is None


@pytest.mark.parametrize(
    ("certificate", "seen", "expected"),
    [
        (None, {}, Lack.MISSING),
        (CERTIFICATE, {"now": CERTIFICATE.ends_at}, Lack.EXPIRED),
        (replace(CERTIFICATE, ended_at=START), {}, Lack.ENDED),
        (CERTIFICATE, {"account": "another"}, Lack.OTHER_ACCOUNT),
        (CERTIFICATE, {"version": "1.5"}, Lack.OTHER_VERSION),
    ],
)
def test_one_that_is_not(certificate: Certificate | None, seen: dict[str, object], expected: Lack) -> None:
    assert lack(certificate, **seen) is expected


def test_a_claim_that_matters_stops_its_market_until_it_is_accepted_or_seen_to_hold() -> None:
    later = START + SECOND
    assert lack(CERTIFICATE, BROKEN) is Lack.CLAIM_BROKEN
    assert lack(None, BROKEN) is Lack.CLAIM_BROKEN
    assert lack(CERTIFICATE, replace(BROKEN, accepted_at=later)) is None
    assert lack(CERTIFICATE, replace(BROKEN, claim="disk-kept")) is None
    assert lack(CERTIFICATE, BROKEN, replace(BROKEN, verdict=ClaimVerdict.HELD, at=later)) is None
    assert lack(CERTIFICATE, BROKEN, replace(BROKEN, verdict=ClaimVerdict.NOT_SEEN, at=later)) is Lack.CLAIM_BROKEN
    accepted = replace(BROKEN, accepted_at=START)
    assert lack(CERTIFICATE, accepted, replace(BROKEN, job_id="job-2", at=later)) is Lack.CLAIM_BROKEN


def test_its_end_is_told_seven_days_before() -> None:
    def ends_soon(before: timedelta) -> bool:
        now = CERTIFICATE.ends_at - before
        return judge_certificate(CERTIFICATE, (), WEIGHTY, "0123456789ab", "1.4", now).ends_soon(now)

    assert ends_soon(NOTICE)
    assert not ends_soon(NOTICE + SECOND)
    assert not ends_soon(timedelta(0))
