"""What a refusal of Nebius means: by its typed error, and by its status alone where that says enough."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.ports.provider import RefusalCode, Refused, Unknown
from autopilot.providers.nebius.outcomes import judge_refusal
from autopilot.providers.nebius.reply import ErrorDetail, Fault, Refusal


@pytest.mark.parametrize(
    ("status", "kind", "fault"),
    [
        ("RESOURCE_EXHAUSTED", "quota_failure", Fault.OVER_QUOTA),
        ("RESOURCE_EXHAUSTED", "not_enough_resources", Fault.NO_HARDWARE),
        ("RESOURCE_EXHAUSTED", "too_many_requests", Fault.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", "", Fault.TRANSIENT),
        ("OUT_OF_RANGE", "out_of_range", Fault.OUT_OF_RANGE),
        ("FAILED_PRECONDITION", "bad_resource_state", Fault.BUSY),
        ("FAILED_PRECONDITION", "", Fault.BUSY),
        ("NOT_FOUND", "", Fault.NOT_FOUND),
        ("UNAUTHENTICATED", "", Fault.NO_RIGHTS),
        ("INTERNAL", "internal_error", Fault.TRANSIENT),
        ("ABORTED", "operation_aborted", Fault.TRANSIENT),
        ("UNAVAILABLE", "", Fault.TRANSIENT),
        ("UNKNOWN", "unheard_of", Fault.TRANSIENT),
    ],
)
def test_what_it_means(status: str, kind: str, fault: Fault) -> None:
    assert Refusal(status, "words", (ErrorDetail(kind),) if kind else ()).fault is fault


def test_what_is_not_known_is_unknown() -> None:
    assert isinstance(judge_refusal(Refusal("INTERNAL", "")), Unknown)


def test_a_quota_says_who_must_act() -> None:
    said = judge_refusal(Refusal("RESOURCE_EXHAUSTED", "no", (ErrorDetail("quota_failure", "compute.disk.count"),)))
    assert isinstance(said, Refused)
    assert said.code is RefusalCode.QUOTA
    assert "compute.disk.count" in said.message
    assert "ask Nebius to raise it" in said.message


@pytest.mark.parametrize("limit", ["NaN", "-1", "1e99", "", "x" * 1000])
def test_a_limit_that_is_none_is_not_believed(limit: str) -> None:
    assert Refusal("OUT_OF_RANGE", "", (ErrorDetail("out_of_range", "", limit),)).limit is None
    assert Refusal("OUT_OF_RANGE", "", (ErrorDetail("out_of_range", "", "5.39"),)).limit == Decimal("5.39")


def test_words_are_one_short_line() -> None:
    shown = Refusal("INTERNAL", "a\nb\x00" + "c" * 5000, tuple(ErrorDetail("", "d" * 500) for _ in range(99))).summary
    assert len(shown) <= 200
    assert shown.isprintable()
