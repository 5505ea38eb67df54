"""``[schedule]`` of a job file: what it says, and what cannot be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from autopilot.config.job_file import parse_job
from autopilot.domain.cadence import Cadence, Overlap
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec

JOB = 'name = "n"\nimage = "i"\nrun = "r"\n[resources]\ngpu = "RTX 4090"\n'
CRON = '[schedule]\ncron = "0 2 * * *"\n'
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def parse(more: str, top: str = "") -> JobSpec:
    return parse_job(top + JOB + more, source="job.toml", now=NOW)


def test_all_of_it() -> None:
    spec = parse(
        CRON
        + 'zone = "Europe/Berlin"\noverlap = "queue"\ncatch_up = true\nuntil = "2027-01-01"\n'
        + '[budget]\ntotal = "$2"\nall = "$60/month"\n[work]\nestimate = "1h"\n[deadline]\nwithin = "5h"\n'
    )
    until = datetime(2026, 12, 31, 23, tzinfo=UTC)
    queue = Overlap.QUEUE
    assert spec.schedule == Cadence("0 2 * * *", "Europe/Berlin", queue, True, until, None, Decimal(60), True)
    assert (spec.budget, spec.deadline, spec.due_within) == (Decimal(2), None, timedelta(hours=5))


def test_what_is_left_out() -> None:
    assert parse(CRON + 'count = 30\n[budget]\nall = "$60"\n').schedule == Cadence(
        "0 2 * * *", count=30, budget=Decimal(60)
    )
    assert parse("").schedule is None
    swept = parse(CRON + "[array]\ncount = 3\n")
    assert (swept.schedule, swept.array and swept.array.count) == (Cadence("0 2 * * *"), 3)


@pytest.mark.parametrize(
    ("more", "top", "message"),
    [
        ('[schedule]\nzone = "UTC"\n', "", "schedule.zone needs schedule.cron"),
        ("[schedule]\n", "", "needs a time"),
        ('[budget]\nall = "$60"\n', "", "is for the firings of a"),
        (CRON + '[budget]\nall = "$60/day"\n', "", "must be like"),
        (CRON + '[budget]\ntotal = "$5"\nall = "$4"\n', "", "budget.all is less than budget.total"),
        (CRON + 'until = "2027-01-01"\ncount = 3\n', "", "both until and count"),
        (CRON + 'until = "2025-01-01"\n', "", "this time never comes"),
        (CRON + "count = 0\n", "", "at least 1"),
        (CRON + "count = 100001\n", "", "100,000 at most"),
        (CRON + 'zone = "Mars"\n', "", "not a time zone"),
        (CRON + 'overlap = "kill"\n', "", "skip"),
        (CRON, 'after = ["prepare"]\n', "cannot wait for another job"),
        (
            CRON + '[work]\nestimate = "1h"\n[deadline]\nat = 2026-05-01T00:00:00Z\n',
            "",
            "each firing needs its own",
        ),
    ],
)
def test_what_cannot_be_is_refused(more: str, top: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(more, top)
    assert message in str(refused.value)
    assert str(refused.value).startswith("job.toml:")
