"""Which events people are informed of, and in which words.

Each text says what happened, to what, by how much, and who does what next. None holds a job's output, variables or
command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain.certificate import Lack
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import show
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import ScheduleReason
from autopilot.domain.time import show_duration
from autopilot.ports.store import EventRecord
from autopilot.words.certificates import tell_command


@dataclass(frozen=True, slots=True)
class Facts:
    """An event, and the job and machine that it is about, as they are after it."""

    event: EventRecord
    job: Job | None
    lease: Lease | None

    @property
    def fields(self) -> Mapping[str, Any]:
        return dict(self.event.fields)

    @property
    def its_job(self) -> Job:
        assert self.job is not None, "a kind about jobs is of an event of one"
        return self.job


Words = tuple[str, str]
"""Title, in one line, and text."""


@dataclass(frozen=True, slots=True)
class NoticeKind:
    name: str
    event: str
    says: Callable[[Facts], Words]
    applies: Callable[[Facts], bool] = lambda _: True
    is_default: bool = True
    """Sent to sinks that do not choose."""


def _tell_tasks(facts: Facts) -> str:
    """Of an array that has ended."""
    told = {name: facts.fields.get(name, 0) for name in ("succeeded", "failed", "cancelled", "count")}
    cost = _money(Decimal(facts.fields.get("spent") or 0))
    return (
        f"Of {told['count']} tasks {told['succeeded']} succeeded, {told['failed']} failed and {told['cancelled']} were"
        f" cancelled, for {cost} together."
    )


def _say_success(facts: Facts) -> Words:
    job = facts.its_job
    took = show_duration(facts.event.at - job.submitted_at)
    if job.is_array:
        return f"Job {job.spec.name} has succeeded", (
            f"{_tell_tasks(facts)} It took {took} from its submission. Late bills may change the cost.\n"
            f"Next: autopilot pull {job.spec.name} --all fetches what its tasks have left."
        )
    return (
        f"Job {job.spec.name} has succeeded",
        f"It took {took} from its submission and cost {_spent(job)}. Machines' last bills may still change that.\n"
        f"Next: autopilot pull {job.spec.name} fetches what it has left.",
    )


def _say_failure(facts: Facts) -> Words:
    job = facts.its_job
    if job.reason is Reason.DEPENDENCY_FAILED:
        return (
            f"Job {job.spec.name} never began",
            f"Job {facts.fields.get('job')}, which it waited for, is {facts.fields.get('ended') or 'gone'}. "
            f"Nothing was rented for it.\nNext: mend that one, and submit both again.",
        )
    if job.is_array:
        return f"Job {job.spec.name} has failed", (
            f"{_tell_tasks(facts)}\n"
            f"Next: autopilot ps {job.spec.name} lists them, autopilot retry {job.spec.name} --failed tries again."
        )
    ended = (
        f"Its command ended with exit code {job.exit_code}" if job.exit_code is not None else "Its command never ran"
    )
    tries = f"{job.failures} of {job.spec.max_attempts} attempts have failed"
    held = job.on_hold
    machine = "Its machines are given back."
    if held is not None and held.held_until is not None:
        machine = (
            f"Its machine stays until {_clock(held.held_until)} for up to {_money(held.burn_upper)} an hour; "
            f"autopilot release {job.spec.name} gives it back."
        )
    return (
        f"Job {job.spec.name} has failed",
        f"{ended} ({_because(facts)}); {tries}. It cost {_spent(job)}. {machine}\n"
        f"Next: autopilot logs {job.spec.name} shows what it wrote.",
    )


def _say_cancel(facts: Facts) -> Words:
    job = facts.its_job
    return (
        f"Job {job.spec.name} is cancelled",
        f"Reason: {_because(facts)}. It cost {_spent(job)}. Nothing is to be done.",
    )


def _say_parking(facts: Facts) -> Words:
    job = facts.its_job
    by_itself = {
        Reason.OVER_DAY_LIMIT: "It goes on by itself on the next UTC day.",
        Reason.OVER_MONTH_LIMIT: "It goes on by itself in the next UTC month.",
        Reason.OVER_ALLOWANCE: "It goes on by itself in the next UTC month if its token has a monthly allowance then.",
        Reason.OVER_SCHEDULE_BUDGET: "It goes on by itself in the next UTC month if its schedule's budget is monthly.",
    }
    resume = f"autopilot why {job.spec.name} says more, autopilot resume {job.spec.name} lets it go on."
    return (
        f"Job {job.spec.name} is parked",
        f"Reason: {_because(facts)}. It has cost {_spent(job)}, and its machines are given back.\n"
        f"Next: {by_itself.get(job.reason, resume)}",
    )


def _say_used_up(facts: Facts) -> Words:
    job = facts.its_job
    enough = facts.fields.get("enough_budget")
    more = f"{_money(enough)} is enough to go on" if isinstance(enough, Decimal) else "a higher one lets it go on"
    ends = (
        "It is being cancelled, as its job file asks." if job.spec.cancel_when_exhausted else "It is saved and parked."
    )
    next_step = (
        "Next: nothing; submit it again with a higher budget if it is still wanted."
        if job.spec.cancel_when_exhausted
        else f"Next: autopilot change {job.spec.name} budget=AMOUNT raises it; {more}."
    )
    return (
        f"Job {job.spec.name} has used up its budget",
        f"It has cost {_spent(job)}; what is left is needed to end safely. {ends}\n{next_step}",
    )


def _say_budget_low(facts: Facts) -> Words:
    job, fields = facts.its_job, facts.fields
    share = round(fields["spent"] / fields["budget"] * 100)
    ends = "cancelled" if job.spec.cancel_when_exhausted else "saved and parked"
    return (
        f"Job {job.spec.name} has spent {share}% of its budget",
        f"It has spent {_money(fields['spent'])} of {_money(fields['budget'])}. At its end it is {ends}.\n"
        f"Next: autopilot change {job.spec.name} budget=AMOUNT raises it.",
    )


def _say_late(facts: Facts) -> Words:
    job, fields = facts.its_job, facts.fields
    needed = _span(fields["needed_s"])
    left = f"{_span(fields['left_s'])} are left" if fields["left_s"] else "the deadline has passed"
    return (
        f"Job {job.spec.name} will miss its deadline",
        f"It needs {needed} more even on the fastest GPU that it may use, and {left}. It goes on.\n"
        f"Next: autopilot change {job.spec.name} deadline=+6h sets a later one; autopilot cancel ends the job.",
    )


def _say_stall(facts: Facts) -> Words:
    job = facts.its_job
    since = datetime.fromisoformat(str(facts.fields["since"]))
    bills = f" and bills up to {_money(facts.lease.burn_upper)} an hour" if facts.lease else ""
    ends = "Its job file ends this attempt." if job.spec.stall_fails else "Nobody ends it but you."
    return (
        f"Job {job.spec.name} shows nothing new",
        f"Since {_clock(since)} there is no output, no progress, and its GPUs are idle. It runs on{bills}. {ends}\n"
        f"Next: autopilot logs {job.spec.name} shows its last lines; autopilot cancel {job.spec.name} ends it.",
    )


def _say_unread(facts: Facts) -> Words:
    fields = facts.fields
    count = fields["machines"]
    machines = (
        f"{count} of our machines {'is' if count == 1 else 'are'} there and may bill"
        if count
        else "No machine is there"
    )
    return (
        f"{fields['provider']} cannot be read",
        f"Its list has not come for {_span(fields['unread_s'])}. {machines}; nothing is rented there until it "
        f"is read again. The daemon keeps trying.\n"
        f"Next: autopilot doctor says what is wrong.",
    )


def _say_quarantine(facts: Facts) -> Words:
    market = facts.fields["provider"]
    return (
        f"Machines on {market} are unknown to the ledger",
        f"Most machines on {market} with our label are in no lease of the ledger: it may be lost, or an old copy. "
        f"They bill. Nothing is rented on {market} until this ends; after 30 minutes they are destroyed.\n"
        f"Next: autopilot orphans lists them; if the ledger is an old copy, stop the daemon and restore the newest.",
    )


def _say_clock(facts: Facts) -> Words:
    ahead_s = facts.fields["ahead_s"]
    way = "slow" if ahead_s > 0 else "fast"
    return (
        f"The clock here is {_span(abs(ahead_s))} {way}",
        "Every market that tells the time says so. Nothing new is rented until they agree with it; machines that are "
        "rented go on. The daemon keeps the time of its start, whatever the markets say.\n"
        "Next: set the clock here (timedatectl shows it), then restart the daemon.",
    )


def _say_credit_low(facts: Facts) -> Words:
    fields = facts.fields
    hours = max(fields["credit"], Decimal(0)) / fields["per_hour"]
    lasts = _span(int(hours * 3600))
    return (
        f"Credit on {fields['provider']} ends within a day",
        f"{_money(fields['credit'])} is left there, and our machines bill up to {_money(fields['per_hour'])} an hour: "
        f"it lasts {lasts}. Without credit the market stops them.\n"
        f"Next: pay in at {fields['provider']}, or stop jobs.",
    )


def _say_card(facts: Facts) -> Words:
    market, credit, below = (facts.fields[name] for name in ("provider", "credit", "below"))
    holds = f" It holds {_money(credit)} now." if credit is not None else ""
    when = f" once less than {_money(below)} is left" if below is not None else ""
    return (
        f"A card may top the account at {market} up",
        f"The account answers so{when}; what that answer means is not verified.{holds} If it is so, the credit is no "
        "last fuse: a hostile host, a bug or a stolen key can spend what the card pays. [limits] bounds autopilot "
        "alone.\n"
        f"Next: look at {market}'s billing page; switch it off, or give the card a limit at your bank.",
    )


def _say_certificate_ends(facts: Facts) -> Words:
    market, ends_at = facts.fields["provider"], datetime.fromisoformat(str(facts.fields["ends_at"]))
    left = max(ends_at - facts.event.at, timedelta(0))
    return (
        f"The certificate of {market} ends in {show_duration(left)}",
        f"It ends at {_clock(ends_at)}, and so it does with another minor version of autopilot. From then on nothing "
        f"new is rented on {market}; machines that are rented go on.\n"
        f"Next: {tell_command(market)} renews it, beside your jobs.",
    )


_LACKS = {
    Lack.MISSING: "It has none yet, or its ledger is a new one.",
    Lack.EXPIRED: "It has expired.",
    Lack.ENDED: "It was ended early: a field that carries money is not what it was.",
    Lack.OTHER_ACCOUNT: "It is of another account, or of another key.",
    Lack.OTHER_VERSION: "It is of another minor version of autopilot than the one that runs.",
    Lack.CLAIM_BROKEN: "A certification has found a claim broken that matters to money or to ending machines.",
}


def _say_certificate_lacked(facts: Facts) -> Words:
    market, lack = facts.fields["provider"], Lack(str(facts.fields["lack"]))
    waiting = facts.fields["waiting"]
    jobs = f"{waiting} job{' is' if waiting == 1 else 's are'} without a machine now. " if waiting else ""
    shows = "shows which, and how to accept it" if lack is Lack.CLAIM_BROKEN else "proves the market anew"
    return (
        f"Nothing new is rented on {market}: no certificate is in force",
        f"{_LACKS[lack]} {jobs}Machines that are rented there go on.\nNext: {tell_command(market, lack)} {shows}.",
    )


def _say_orphan(facts: Facts) -> Words:
    lease, instance = facts.lease, facts.fields["instance_id"]
    where = f" on {lease.provider}" if lease else ""
    bills = f" for up to {_money(lease.burn_upper)} an hour" if lease else ""
    return (
        f"An orphan was found{where}",
        f"Machine {instance}{where} runs{bills}, and no job wants it. The daemon is destroying it.\n"
        f"Next: autopilot orphans shows it until it is gone.",
    )


def _say_bill(facts: Facts) -> Words:
    fields, lease = facts.fields, facts.lease
    drift, market = fields["drift"], lease.provider if lease else "the market"
    more = "more" if drift > 0 else "less"
    return (
        f"A bill of {market} differs by {_money(abs(drift))}",
        f"{market} billed {_money(abs(drift))} {more} than our clock says for machine {fields['instance_id']}: "
        f"{_money(fields['estimate'])} were expected. The ledger follows the bill.\n"
        f"Next: autopilot reconcile lists it line by line.",
    )


def _say_restart(facts: Facts) -> Words:
    since = datetime.fromisoformat(str(facts.fields["since"]))
    return (
        "The daemon was restarted after a crash",
        f"The one that began at {_clock(since)} did not end in order. Machines went on under their permits, and this "
        f"one has taken over its ledger.\n"
        f"Next: journalctl -u autopilot shows how it ended.",
    )


def _say_left_out(facts: Facts) -> Words:
    fields = facts.fields
    name, due = fields["name"], datetime.fromisoformat(str(fields["due"]))
    causes = {
        "overlap": ("An earlier firing is not over.", f"autopilot cancel {name} ends that one"),
        "not_allowed": (
            "Its owner may not submit it any more, or not with its secrets.",
            "an admin gives them the right",
        ),
        "confirm_first": (
            "It may cost more than its owner may spend unasked.",
            "have it confirmed anew",
        ),
        "too_many_jobs": ("Its owner has as many jobs as one may have.", "cancel some"),
    }
    cause, step = causes.get(str(fields.get("reason")), (_because(facts).capitalize() + ".", "autopilot schedules"))
    return (
        f"A firing of schedule {name} was left out",
        f"It was due at {_clock(due)}. {cause} The next one comes as it is due.\nNext: {step}.",
    )


def _say_missed(facts: Facts) -> Words:
    fields = facts.fields
    count, due = fields["firings"], datetime.fromisoformat(str(fields["due"]))
    firings = "1 firing" if count == 1 else f"{count} firings"
    return (
        f"Schedule {fields['name']} has missed {firings}",
        f"No daemon looked when they were due, the newest at {_clock(due)}, and no job is made of them. The next one "
        f"comes as it is due.\nNext: catch_up = true in the job file has a job made for the newest that was missed.",
    )


def _say_schedule_end(facts: Facts) -> Words:
    fields = facts.fields
    return (
        f"Schedule {fields['name']} has ended with its token",
        f"The token of its owner was revoked or has expired; it made {fields['firings']} jobs.\n"
        f"Next: submit it again with another token if it is still wanted.",
    )


def _is_of_token(facts: Facts) -> bool:
    return facts.fields.get("reason") == ScheduleReason.TOKEN_ENDED


def _is_unpaid(facts: Facts) -> bool:
    return facts.fields.get("reason") == Reason.BUDGET_EXHAUSTED


KINDS = (
    NoticeKind("job_succeeded", "job.succeeded", _say_success),
    NoticeKind("job_failed", "job.failed", _say_failure),
    NoticeKind("job_cancelled", "job.cancelled", _say_cancel, is_default=False),
    NoticeKind("job_parked", "job.parked", _say_parking, lambda facts: not _is_unpaid(facts)),
    NoticeKind("job_late", "deadline.lost", _say_late),
    NoticeKind("job_stalled", "run.stalled", _say_stall),
    NoticeKind("budget_low", "budget.ran_low", _say_budget_low),
    NoticeKind("budget_used_up", "job.parked", _say_used_up, _is_unpaid),
    NoticeKind("budget_used_up", "job.cancelling", _say_used_up, _is_unpaid),
    NoticeKind("firing_left_out", "schedule.skipped", _say_left_out, lambda facts: not facts.fields.get("again")),
    NoticeKind("firing_left_out", "schedule.missed", _say_missed),
    NoticeKind("schedule_ended", "schedule.ended", _say_schedule_end, _is_of_token),
    NoticeKind("market_unread", "market.stayed_unread", _say_unread),
    NoticeKind("market_quarantined", "market.quarantined", _say_quarantine),
    NoticeKind("clock_wrong", "clock.doubted", _say_clock),
    NoticeKind("credit_low", "credit.ran_low", _say_credit_low),
    NoticeKind("card_pays", "account.tops_up", _say_card),
    NoticeKind("certificate_ends", "certificate.ends_soon", _say_certificate_ends),
    NoticeKind("certificate_lacked", "certificate.lacked", _say_certificate_lacked),
    NoticeKind("orphan_found", "lease.instance_found", _say_orphan),
    NoticeKind("bill_differs", "invoice.drifted", _say_bill),
    NoticeKind("daemon_restarted", "daemon.restarted", _say_restart),
)
ENDS_OF_JOBS = frozenset({"job_succeeded", "job_failed", "job_cancelled"})
NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS))
BY_DEFAULT = frozenset(kind.name for kind in KINDS if kind.is_default)
OF_EVENT: Mapping[str, tuple[NoticeKind, ...]] = {
    kind.event: tuple(each for each in KINDS if each.event == kind.event) for kind in KINDS
}


def _because(facts: Facts) -> str:
    reason = facts.fields.get("reason") or facts.its_job.reason
    return str(reason).replace("_", " ")


def _spent(job: Job) -> str:
    budget = "" if job.spec.budget is None else f" of its budget of {_money(job.spec.budget)}"
    return f"{_money(job.spent)}{budget}"


def _money(amount: Decimal) -> str:
    return show(amount)


def _span(seconds: int) -> str:
    return show_duration(timedelta(seconds=seconds))


def _clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"
