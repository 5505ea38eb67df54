"""Which events are sent as notices, and their texts.

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
from autopilot.domain.memory_kill import read_memory_kill
from autopilot.domain.money import show
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import ScheduleReason
from autopilot.domain.start_faults import fault_of
from autopilot.domain.time import show_duration
from autopilot.ports.store import EventRecord
from autopilot.words.arrival import tell_findings
from autopilot.words.certificates import tell_command
from autopilot.words.tunnels import tell_fault, tell_remedy


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
    """For an array that has ended."""
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
            f"{_tell_tasks(facts)} It took {took} from submission. Late bills may change the cost.\n"
            f"Next: autopilot pull {job.spec.name} --all downloads its tasks' results."
        )
    return (
        f"Job {job.spec.name} has succeeded",
        f"It took {took} from submission and cost {_spent(job)}. The machines' last bills may still change that.\n"
        f"Next: autopilot pull {job.spec.name} downloads its results.",
    )


def _say_failure(facts: Facts) -> Words:
    job = facts.its_job
    if job.reason is Reason.DEPENDENCY_FAILED:
        return (
            f"Job {job.spec.name} never started",
            f"Job {facts.fields.get('job')}, which it waited for, is {facts.fields.get('ended') or 'gone'}. "
            f"Nothing was rented for it.\nNext: fix that job, and submit both again.",
        )
    if job.is_array:
        return f"Job {job.spec.name} has failed", (
            f"{_tell_tasks(facts)}\n"
            f"Next: autopilot ps {job.spec.name} lists them, autopilot retry {job.spec.name} --failed tries again."
        )
    ended = (
        f"Its command ended with exit code {job.exit_code}" if job.exit_code is not None else "Its command never ran"
    )
    kill = read_memory_kill(job) if job.reason is Reason.OUT_OF_MEMORY else None
    if kill is not None:
        ended = f"Its command was killed for memory, at a peak of {kill.peak_gb} GB of {kill.limit_gb} GB"
    tries = f"{job.failures} of {job.spec.max_attempts} attempts have failed"
    held = job.on_hold
    machine = "Its machines are released."
    if held is not None and held.held_until is not None:
        machine = (
            f"Its machine stays until {_clock(held.held_until)} for up to {_money(held.burn_upper)} an hour; "
            f"autopilot release {job.spec.name} releases it."
        )
    return (
        f"Job {job.spec.name} has failed",
        f"{ended} ({_because(facts)}); {tries}. It cost {_spent(job)}. {machine}\n{_tell_start(job)}"
        f"Next: autopilot logs {job.spec.name} shows its output.",
    )


def _tell_start(job: Job) -> str:
    """Of one whose newest machine never ran it."""
    if not job.failed_starts:
        return ""
    start = job.failed_starts[-1]
    said = f" (it said: {start.words})" if start.words else ""
    return f"Its newest machine: {fault_of(start.fault).remedy}{said}.\n"


def _say_cancel(facts: Facts) -> Words:
    job = facts.its_job
    return (
        f"Job {job.spec.name} is cancelled",
        f"Reason: {_because(facts)}. It cost {_spent(job)}. No action is needed.",
    )


def _say_parking(facts: Facts) -> Words:
    job = facts.its_job
    by_itself = {
        Reason.OVER_DAY_LIMIT: "It resumes by itself on the next UTC day.",
        Reason.OVER_MONTH_LIMIT: "It resumes by itself in the next UTC month.",
        Reason.OVER_ALLOWANCE: "It resumes by itself in the next UTC month if its token then has a monthly allowance.",
        Reason.OVER_SCHEDULE_BUDGET: "It resumes by itself in the next UTC month if its schedule's budget is monthly.",
    }
    resume = f"autopilot why {job.spec.name} shows details, autopilot resume {job.spec.name} resumes it."
    return (
        f"Job {job.spec.name} is parked",
        f"Reason: {_because(facts)}. It has cost {_spent(job)}, and its machines are released.\n"
        f"Next: {by_itself.get(job.reason, resume)}",
    )


def _say_used_up(facts: Facts) -> Words:
    job = facts.its_job
    enough = facts.fields.get("enough_budget")
    more = f"{_money(enough)} is enough to resume" if isinstance(enough, Decimal) else "a higher one resumes it"
    ends = (
        "It is being cancelled, as its job file says." if job.spec.cancel_when_exhausted else "It is saved and parked."
    )
    next_step = (
        "Next: nothing; submit it again with a higher budget if you still need it."
        if job.spec.cancel_when_exhausted
        else f"Next: autopilot change {job.spec.name} budget=AMOUNT raises it; {more}."
    )
    return (
        f"Job {job.spec.name} has used up its budget",
        f"It has cost {_spent(job)}; the rest is needed to end safely. {ends}\n{next_step}",
    )


def _say_budget_low(facts: Facts) -> Words:
    job, fields = facts.its_job, facts.fields
    share = round(fields["spent"] / fields["budget"] * 100)
    ends = "cancelled" if job.spec.cancel_when_exhausted else "saved and parked"
    return (
        f"Job {job.spec.name} has spent {share}% of its budget",
        f"It has spent {_money(fields['spent'])} of {_money(fields['budget'])}. When the budget runs out, the job is "
        f"{ends}.\n"
        f"Next: autopilot change {job.spec.name} budget=AMOUNT raises it.",
    )


def _say_late(facts: Facts) -> Words:
    job, fields = facts.its_job, facts.fields
    needed = _span(fields["needed_s"])
    left = f"{_span(fields['left_s'])} are left" if fields["left_s"] else "the deadline has passed"
    return (
        f"Job {job.spec.name} will miss its deadline",
        f"It needs {needed} more even on the fastest GPU it can use, and {left}. It keeps running.\n"
        f"Next: autopilot change {job.spec.name} deadline=+6h sets a later one; autopilot cancel ends the job.",
    )


def _say_stall(facts: Facts) -> Words:
    job = facts.its_job
    since = datetime.fromisoformat(str(facts.fields["since"]))
    bills = f" and bills up to {_money(facts.lease.burn_upper)} an hour" if facts.lease else ""
    ends = "Its job file ends this attempt." if job.spec.stall_fails else "It runs until you end it."
    return (
        f"Job {job.spec.name} shows nothing new",
        f"Since {_clock(since)} there is no output, no progress, and its GPUs are idle. It is still running{bills}. "
        f"{ends}\n"
        f"Next: autopilot logs {job.spec.name} shows its last lines; autopilot cancel {job.spec.name} ends it.",
    )


def _say_unfit(facts: Facts) -> Words:
    job, lease = facts.its_job, facts.lease
    where = f"{lease.machine_id} on {lease.provider}" if lease else "A machine"
    then = (
        "It is given back at once, and the job does not rent it for a day. This uses up no attempt; another machine is "
        "looked for."
        if facts.fields.get("left")
        else "Machines before it lacked the same, so the job continues there."
    )
    return (
        f"A machine of {job.spec.name} lacks what was rented",
        f"Machine {where}: {tell_findings(facts.fields)}. {then}\n"
        f"Next: autopilot show {job.spec.name} lists its machines. No action is needed.",
    )


def _say_slow(facts: Facts) -> Words:
    job, share = facts.its_job, float(facts.fields["pace"] or 0)
    bills = f" It bills up to {_money(facts.lease.burn_upper)} an hour." if facts.lease else ""
    return (
        f"The machine of job {job.spec.name} is slow",
        f"By its own progress the job goes at {share:.0%} of its pace on such GPUs.{bills} It moves where finishing on "
        f"another machine costs less.\n"
        f"Next: autopilot why {job.spec.name} tells what is done; autopilot hosts lists what machines have shown.",
    )


def _say_cut_off(facts: Facts) -> Words:
    job, fault = facts.its_job, facts.fields["fault"]
    down_s = facts.fields["down_s"]
    lasts = f" for {_span(down_s)}" if down_s else ""
    return (
        f"A machine of {job.spec.name} is cut off",
        f"{tell_fault(fault).capitalize()}{lasts}. It bills and works until its permit ends, and then ends itself; "
        f"what it has not sent home by then is lost.\nNext: {tell_remedy(fault)}.",
    )


def _say_unread(facts: Facts) -> Words:
    fields = facts.fields
    count = fields["machines"]
    machines = (
        f"{count} of our machines {'is' if count == 1 else 'are'} there and may be billing"
        if count
        else "No machine of ours is there"
    )
    return (
        f"{fields['provider']} cannot be read",
        f"It has returned no list for {_span(fields['unread_s'])}. {machines}; nothing is rented there until it "
        f"can be read again. The daemon keeps trying.\n"
        f"Next: autopilot doctor shows what is wrong.",
    )


def _say_quarantine(facts: Facts) -> Words:
    market = facts.fields["provider"]
    return (
        f"Machines on {market} are unknown to the ledger",
        f"Most machines on {market} with our label are in no lease of the ledger: it may be lost, or an old copy. "
        f"They are billing. Nothing is rented on {market} until this ends; after 30 minutes they are destroyed.\n"
        f"Next: autopilot orphans lists them; if the ledger is an old copy, stop the daemon and restore the newest.",
    )


def _say_account_changed(facts: Facts) -> Words:
    market, count = facts.fields["provider"], facts.fields["machines"]
    machines = "machine that it has in the ledger" if count == 1 else f"{count} machines that it has in the ledger"
    return (
        f"The key of {market} is another account's",
        f"It shows nothing of the {machines}, which may keep billing in the former account. Nothing is rented on "
        f"{market} until this is settled.\n"
        f"Next: bring the former key back; or destroy what the log names in the former account's console, stop the "
        f"daemon, and run autopilot db take-account --market {market}.",
    )


def _say_clock(facts: Facts) -> Words:
    ahead_s = facts.fields["ahead_s"]
    way = "slow" if ahead_s > 0 else "fast"
    return (
        f"The clock here is {_span(abs(ahead_s))} {way}",
        "Every market that tells the time says so. Nothing new is rented until they agree with it; machines that are "
        "rented keep running. The daemon keeps the time of its start, regardless of the markets.\n"
        "Next: set the clock here (timedatectl shows it), then restart the daemon.",
    )


def _say_credit_low(facts: Facts) -> Words:
    fields = facts.fields
    hours = max(fields["credit"], Decimal(0)) / fields["per_hour"]
    lasts = _span(int(hours * 3600))
    return (
        f"Credit on {fields['provider']} runs out within a day",
        f"{_money(fields['credit'])} is left there, and our machines bill up to {_money(fields['per_hour'])} an hour: "
        f"it lasts {lasts}. Without credit the market stops them.\n"
        f"Next: add credit at {fields['provider']}, or stop jobs.",
    )


def _say_card(facts: Facts) -> Words:
    market, credit, below = (facts.fields[name] for name in ("provider", "credit", "below"))
    holds = f" It holds {_money(credit)} now." if credit is not None else ""
    when = f" once less than {_money(below)} is left" if below is not None else ""
    return (
        f"A card may top up the account at {market}",
        f"{market}'s API reports this{when}; what the report means is not verified.{holds} If a card does top it up, "
        "the credit is no "
        "last safeguard: a hostile host, a bug or a stolen key can spend what the card pays. [limits] applies only to "
        "autopilot.\n"
        f"Next: check {market}'s billing page; turn it off, or set a limit for the card at your bank.",
    )


def _say_certificate_ends(facts: Facts) -> Words:
    market, ends_at = facts.fields["provider"], datetime.fromisoformat(str(facts.fields["ends_at"]))
    left = max(ends_at - facts.event.at, timedelta(0))
    return (
        f"The certificate of {market} expires in {show_duration(left)}",
        f"It expires at {_clock(ends_at)}, or earlier with another minor version of autopilot. From then on nothing "
        f"new is rented on {market}; machines already rented keep running.\n"
        f"Next: {tell_command(market)} renews it while your jobs run.",
    )


_LACKS = {
    Lack.MISSING: "It has none yet, or the ledger is new.",
    Lack.EXPIRED: "It has expired.",
    Lack.ENDED: "It ended early: a field that carries money has changed.",
    Lack.OTHER_ACCOUNT: "It is for another account, or another key.",
    Lack.OTHER_VERSION: "It is for another minor version of autopilot than the one running.",
    Lack.CLAIM_BROKEN: "A certification found a broken claim that matters to money or to ending machines.",
}


def _say_certificate_lacked(facts: Facts) -> Words:
    market, lack = facts.fields["provider"], Lack(str(facts.fields["lack"]))
    waiting = facts.fields["waiting"]
    jobs = f"{waiting} job{' is' if waiting == 1 else 's are'} without a machine now. " if waiting else ""
    shows = "shows which, and how to accept it" if lack is Lack.CLAIM_BROKEN else "tests the market again"
    next_step = f"Next: {tell_command(market, lack)} {shows}."
    if (allowance := facts.fields.get("allowance")) is not None:
        return (
            f"{market} has no valid certificate: at most {_money(allowance)} is spent there",
            f"{_LACKS[lack]} {jobs}Until it has one, all jobs together have one machine there at a time; what runs is "
            f"saved and given back before the {_money(allowance)} of limits.uncertified are passed.\n{next_step}",
        )
    return (
        f"Nothing new is rented on {market}: it has no valid certificate",
        f"{_LACKS[lack]} {jobs}Machines already rented there keep running.\n{next_step}",
    )


def _say_orphan(facts: Facts) -> Words:
    lease, instance = facts.lease, facts.fields["instance_id"]
    where = f" on {lease.provider}" if lease else ""
    bills = f" for up to {_money(lease.burn_upper)} an hour" if lease else ""
    return (
        f"An orphan was found{where}",
        f"Machine {instance}{where} runs{bills}, and no job needs it. The daemon is destroying it.\n"
        f"Next: autopilot orphans shows it until it is gone.",
    )


def _say_bill(facts: Facts) -> Words:
    fields, lease = facts.fields, facts.lease
    drift, market = fields["drift"], lease.provider if lease else "the market"
    more = "more" if drift > 0 else "less"
    return (
        f"A bill of {market} differs by {_money(abs(drift))}",
        f"{market} billed {_money(abs(drift))} {more} than we metered for machine {fields['instance_id']}: "
        f"{_money(fields['estimate'])} was expected. The ledger follows the bill.\n"
        f"Next: autopilot reconcile lists it line by line.",
    )


def _say_restart(facts: Facts) -> Words:
    since = datetime.fromisoformat(str(facts.fields["since"]))
    return (
        "The daemon was restarted after a crash",
        f"The daemon started at {_clock(since)} did not shut down cleanly. Machines kept running under their permits, "
        "and the "
        f"new daemon has taken over the ledger.\n"
        f"Next: journalctl -u autopilot shows why it ended.",
    )


def _say_left_out(facts: Facts) -> Words:
    fields = facts.fields
    name, due = fields["name"], datetime.fromisoformat(str(fields["due"]))
    causes = {
        "overlap": ("An earlier firing is still running.", f"autopilot cancel {name} ends that one"),
        "not_allowed": (
            "Its owner may no longer submit it, or not with its secrets.",
            "an admin can grant the right",
        ),
        "confirm_first": (
            "It may cost more than its owner may spend without confirmation.",
            "have it confirmed again",
        ),
        "too_many_jobs": ("Its owner has reached the maximum number of jobs.", "cancel some"),
    }
    cause, step = causes.get(str(fields.get("reason")), (_because(facts).capitalize() + ".", "autopilot schedules"))
    return (
        f"A firing of schedule {name} was skipped",
        f"It was due at {_clock(due)}. {cause} The next one runs when it is due.\nNext: {step}.",
    )


def _say_missed(facts: Facts) -> Words:
    fields = facts.fields
    count, due = fields["firings"], datetime.fromisoformat(str(fields["due"]))
    firings = "1 firing" if count == 1 else f"{count} firings"
    return (
        f"Schedule {fields['name']} has missed {firings}",
        f"No daemon was running when they were due, the newest at {_clock(due)}, and no job is created for them. The "
        "next one runs when it is due.\nNext: catch_up = true in the job file creates a job for the newest missed "
        "firing.",
    )


def _say_schedule_end(facts: Facts) -> Words:
    fields = facts.fields
    return (
        f"Schedule {fields['name']} ended with its token",
        f"The token of its owner was revoked or has expired; it had created {fields['firings']} jobs.\n"
        f"Next: submit it again with another token if you still need it.",
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
    NoticeKind("machine_slow", "machine.slowed", _say_slow),
    NoticeKind("budget_low", "budget.ran_low", _say_budget_low),
    NoticeKind("budget_used_up", "job.parked", _say_used_up, _is_unpaid),
    NoticeKind("budget_used_up", "job.cancelling", _say_used_up, _is_unpaid),
    NoticeKind("firing_left_out", "schedule.skipped", _say_left_out, lambda facts: not facts.fields.get("again")),
    NoticeKind("firing_left_out", "schedule.missed", _say_missed),
    NoticeKind("schedule_ended", "schedule.ended", _say_schedule_end, _is_of_token),
    NoticeKind("machine_unfit", "lease.unfit", _say_unfit),
    NoticeKind("machine_cut_off", "tunnel.failed", _say_cut_off),
    NoticeKind("market_unread", "market.stayed_unread", _say_unread),
    NoticeKind("market_quarantined", "market.quarantined", _say_quarantine),
    NoticeKind("account_changed", "market.account_changed", _say_account_changed),
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
