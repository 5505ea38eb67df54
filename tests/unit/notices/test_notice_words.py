"""Each kind of notice says what happened, by how much, and what is next, and nothing of the job's own text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.array import ArraySpec
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot.ids import UlidIds
from autopilot.notices.kinds import BY_DEFAULT, KINDS, NAMES, OF_EVENT, Facts, NoticeKind
from autopilot.notices.outbox import LONGEST_TEXT, LONGEST_TITLE, Announcer, AnnouncingStore, Subscription
from autopilot.ports.store import EventRecord, PendingNotice
from autopilot_lab.memory_store.store import MemoryStore
from tests.store_records import START, a_job, a_lease

FIELDS: dict[str, tuple[tuple[str, Any], ...]] = {
    "job.succeeded": (("reason", "completed"),),
    "job.failed": (("reason", "command_failed"),),
    "job.cancelled": (("reason", "user_cancelled"),),
    "job.parked": (("reason", "over_day_limit"),),
    "job.cancelling": (("reason", "budget_exhausted"),),
    "deadline.lost": (("needed_s", 36_000), ("left_s", 7200)),
    "machine.slowed": (("pace", Decimal("0.1")), ("provider", "vastai"), ("machine_id", "77")),
    "run.stalled": (("since", START.isoformat()),),
    "budget.ran_low": (("spent", Decimal("8.10")), ("budget", Decimal(10))),
    "market.stayed_unread": (("provider", "vastai"), ("unread_s", 300), ("machines", 2)),
    "tunnel.failed": (("fault", "login_refused"), ("down_s", 240)),
    "market.quarantined": (("provider", "vastai"),),
    "market.account_changed": (("provider", "vastai"), ("machines", 1)),
    "credit.ran_low": (("provider", "vastai"), ("credit", Decimal("4.10")), ("per_hour", Decimal("0.50"))),
    "clock.doubted": (("ahead_s", 7200),),
    "account.tops_up": (("provider", "vastai"), ("credit", Decimal("4.10")), ("below", Decimal(5))),
    "certificate.ends_soon": (("provider", "vastai"), ("ends_at", (START + timedelta(days=5)).isoformat())),
    "certificate.lacked": (("provider", "vastai"), ("lack", "other_version"), ("waiting", 2)),
    "lease.unfit": (("took_s", 2.5), ("gpus", 1), ("gpus_wanted", 2), ("left", 1)),
    "lease.instance_found": (("instance_id", "77"),),
    "invoice.drifted": (("drift", Decimal("0.12")), ("estimate", Decimal(1)), ("instance_id", "77")),
    "daemon.restarted": (("since", START.isoformat()),),
    "schedule.skipped": (("name", "train"), ("due", START.isoformat()), ("reason", "overlap"), ("again", 0)),
    "schedule.missed": (("name", "train"), ("due", START.isoformat()), ("firings", 5)),
    "schedule.ended": (("name", "train"), ("reason", "token_ended"), ("firings", 5)),
}


def the_job(**changes: Any) -> Job:
    job = a_job(spent=Decimal("4.20"), exit_code=3, failures=3, status=JobStatus.FAILED, reason=Reason.COMMAND_FAILED)
    spec = replace(
        job.spec,
        run="python train.py --token COMMAND-WORD",
        env=(("KEY", "VARIABLE-WORD"),),
        secrets=(("HF", "SECRET-NAME"),),
        budget=Decimal(10),
        **changes,
    )
    return replace(job, spec=spec)


def test_an_array_s_end_tells_of_its_tasks() -> None:
    array = the_job(array=ArraySpec(5))
    fields: dict[str, Any] = {"succeeded": 3, "failed": 1, "cancelled": 1, "count": 5, "spent": Decimal("1.25")}
    for kind in (each for each in KINDS if each.name in ("job_failed", "job_succeeded")):
        title, text = kind.says(facts_of(kind, array, **fields))
        assert "train" in title
        assert "Of 5 tasks 3 succeeded, 1 failed and 1 were cancelled, for $1.25 together." in text


def facts_of(kind: NoticeKind, job: Job | None = None, lease: Lease | None = None, **fields: Any) -> Facts:
    given = dict(FIELDS[kind.event]) | fields
    if kind.name == "budget_used_up":
        given["reason"] = "budget_exhausted"
    at = START + timedelta(hours=5)
    return Facts(EventRecord(at, kind.event, "job-000001", None, tuple(given.items())), job, lease)


def words_of(event: str, **fields: Any) -> str:
    lease = a_lease(bid=Decimal("0.31"), instance_id="77")
    facts = facts_of(OF_EVENT[event][0], the_job(), lease, **fields)
    kind = next(each for each in OF_EVENT[event] if each.applies(facts))
    return "\n".join(kind.says(facts))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name} {kind.event}")
def test_every_kind_says_what_is_next_and_nothing_of_the_job_s_own(kind: NoticeKind) -> None:
    facts = facts_of(kind, the_job(), a_lease())
    assert kind.applies(facts)
    title, text = kind.says(facts)
    assert "\n" not in title
    assert len(title) <= LONGEST_TITLE
    assert len(text) <= LONGEST_TEXT
    assert "Next: " in text or "No action is needed" in text
    for word in ("COMMAND-WORD", "VARIABLE-WORD", "SECRET-NAME", "None", "{", "Decimal"):
        assert word not in title + text


def test_numbers_are_as_people_say_them() -> None:
    assert "It took 5 h from submission and cost $4.20 of its budget of $10.00" in words_of("job.succeeded")
    assert "exit code 3 (command failed); 3 of 3 attempts have failed" in words_of("job.failed")
    assert "It needs 10 h more" in words_of("deadline.lost")
    assert "and 2 h are left" in words_of("deadline.lost")
    assert "and the deadline has passed" in words_of("deadline.lost", left_s=0)
    assert "has spent 81% of its budget" in words_of("budget.ran_low")
    assert "2 of our machines are there and may be billing" in words_of("market.stayed_unread")
    assert "No machine of ours is there" in words_of("market.stayed_unread", machines=0)
    assert "it lasts 8 h 12 min" in words_of("credit.ran_low")
    assert "vastai billed $0.12 more than we metered for machine 77" in words_of("invoice.drifted")
    assert "vastai billed $0.12 less" in words_of("invoice.drifted", drift=Decimal("-0.12"))
    assert "Machine 77 on vastai runs for up to $0.3" in words_of("lease.instance_found")


def test_a_certificate_s_notice_holds_the_command_to_type() -> None:
    ends = words_of("certificate.ends_soon")
    assert ends.startswith("The certificate of vastai expires in 4 d 19 h\n")
    assert 'Next: autopilot certify vastai --budget "$1.00" renews it' in ends
    lacked = words_of("certificate.lacked")
    assert "It is for another minor version of autopilot than the one running. 2 jobs are without a machine" in lacked
    assert 'Next: autopilot certify vastai --budget "$1.00" tests' in lacked
    assert 'certify nebius --budget "$3.00"' in words_of("certificate.lacked", provider="nebius")
    assert "autopilot certify vastai --resume shows which" in words_of("certificate.lacked", lack="claim_broken")
    bounded = words_of("certificate.lacked", allowance=Decimal(5))
    assert bounded.startswith("vastai has no valid certificate: at most $5.00 is spent there\n")
    assert "before the $5.00 of limits.uncertified are passed" in bounded


def test_a_parked_job_goes_on_as_its_reason_says() -> None:
    kind = next(each for each in KINDS if each.name == "job_parked")
    by_limit = replace(the_job(), reason=Reason.OVER_DAY_LIMIT)
    assert "resumes by itself on the next UTC day" in kind.says(facts_of(kind, by_limit))[1]
    by_user = replace(the_job(), reason=Reason.USER_STOPPED)
    assert "autopilot resume train resumes it" in kind.says(facts_of(kind, by_user, reason="user_stopped"))[1]


def test_a_held_machine_is_named_with_its_price() -> None:
    held = a_lease(held_until=START + timedelta(hours=6), bid=Decimal("0.31"))
    job = replace(the_job(), leases=(held,))
    kind = OF_EVENT["job.failed"][0]
    assert "stays until 2026-11-20 15:30 UTC for up to $0.31 an hour" in kind.says(facts_of(kind, job))[1]


def test_what_the_issue_names_is_on_by_default() -> None:
    assert set(NAMES) - BY_DEFAULT == {"job_cancelled"}


async def notices_after(*records: EventRecord, announcer: Announcer) -> list[PendingNotice]:
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.jobs.save(the_job(notify=("team",)))
    async with AnnouncingStore(store, announcer, lambda: None).transaction() as uow:
        await uow.events.add(records)
    async with store.snapshot() as uow:
        return [notice for sink in ("ops", "team") for notice in await uow.notices.list_due(sink, START, limit=10)]


async def test_a_secret_in_a_name_or_message_is_taken_out() -> None:
    ids = UlidIds(ManualClock())
    announcer = Announcer({"ops": Subscription()}, ids, lambda text: text.replace("hunter2", "[redacted]"))
    record = EventRecord(START, "credit.ran_low", None, None, (*FIELDS["credit.ran_low"][1:], ("provider", "hunter2")))
    (notice,) = await notices_after(record, announcer=announcer)
    assert "hunter2" not in notice.title + notice.text
    assert "[redacted]" in notice.title


async def test_one_id_for_all_sinks_and_one_for_each_notice() -> None:
    sinks = {"ops": Subscription(), "team": Subscription()}
    announcer = Announcer(sinks, UlidIds(ManualClock()), str, prefix="On paper: ")
    records = [EventRecord(START, "market.quarantined", None, None, (("provider", name),)) for name in ("a", "b")]
    heard = await notices_after(*records, announcer=announcer)
    assert len(heard) == 4
    assert len({notice.id for notice in heard}) == 2
    assert all(notice.title.startswith("On paper: ") for notice in heard)


async def test_words_that_cannot_be_made_hold_up_nothing() -> None:
    announcer = Announcer({"ops": Subscription()}, UlidIds(ManualClock()), str)
    (notice,) = await notices_after(EventRecord(START, "credit.ran_low", None, None), announcer=announcer)
    assert (notice.title, notice.kind) == ("credit low", "credit_low")


async def test_a_sink_gets_the_kinds_that_it_chose() -> None:
    announcer = Announcer(
        {"ops": Subscription(frozenset({"market_unread"})), "team": Subscription(is_default=False)},
        UlidIds(ManualClock()),
        str,
    )
    events = [EventRecord(START, name, None, None, FIELDS[name]) for name in ("credit.ran_low", "market.stayed_unread")]
    of_job = EventRecord(START, "job.failed", "job-000001", None, FIELDS["job.failed"])
    heard = await notices_after(*events, of_job, announcer=announcer)
    assert [(notice.sink, notice.kind) for notice in heard] == [("ops", "market_unread"), ("team", "job_failed")]
