"""Other values for a job that lives, as they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from autopilot.config.job_changes import change_spec
from autopilot.domain.errors import UserError
from autopilot.domain.job import SpotPolicy
from tests.builders import a_spec

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
DUE = NOW + timedelta(hours=20)
SPEC = a_spec(budget=Decimal(20), deadline=DUE, max_bid=Decimal("0.5"))


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("budget", "$30", "budget", Decimal(30)),
        ("budget", "30.50", "budget", Decimal("30.50")),
        ("budget", "none", "budget", None),
        ("max_price", "0.9", "max_bid", Decimal("0.9")),
        ("max_hourly", "$1", "max_hourly", Decimal(1)),
        ("max_rate", "2", "max_rate", Decimal(2)),
        ("deadline", "+6h", "deadline", DUE + timedelta(hours=6)),
        ("deadline", "6h", "deadline", NOW + timedelta(hours=6)),
        ("deadline", "2026-11-21T18:00Z", "deadline", datetime(2026, 11, 21, 18, tzinfo=UTC)),
        ("deadline", "none", "deadline", None),
    ],
)
def test_each_key(key: str, value: str, field: str, expected: object) -> None:
    changed = change_spec(SPEC, {key: value}, NOW)
    assert getattr(changed, field) == expected
    assert change_spec(changed, {key: "none"} if expected else {key: "5" if key != "deadline" else "5h"}, NOW)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "nothing to change"),
        ({"image": "x"}, "'image' cannot be changed"),
        ({"budget": "0"}, "budget: must be positive"),
        ({"budget": "a lot"}, "budget: not an amount"),
        ({"budget": "20"}, "has these values already"),
        ({"deadline": "2026-11-20T09:00Z"}, "in the past"),
        ({"deadline": "9000h"}, "too far away"),
        ({"deadline": "9999999d"}, "too far away"),
        ({"deadline": "+9999999d"}, "too far away"),
        ({"deadline": "soon"}, "deadline: not a date and time"),
    ],
)
def test_what_cannot_be_is_one_clear_error(wish: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        change_spec(SPEC, wish, NOW)


def test_a_deadline_needs_an_estimate_and_a_later_one_a_deadline() -> None:
    with pytest.raises(UserError, match="estimate"):
        change_spec(a_spec(work_estimate=None), {"deadline": "6h"}, NOW)
    with pytest.raises(UserError, match="no deadline to extend"):
        change_spec(a_spec(), {"deadline": "+6h"}, NOW)


def test_a_bid_has_no_limit_where_nothing_is_bid() -> None:
    with pytest.raises(UserError, match="max_price limits bids"):
        change_spec(a_spec(spot_policy=SpotPolicy.ON_DEMAND), {"max_price": "1"}, NOW)
