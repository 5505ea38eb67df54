"""What each job that nothing is done for waits for, and which decisions are worth a row of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from autopilot.domain.actions import Action, Note, Veto
from autopilot.domain.job import Job
from autopilot.domain.lease import LeaseState
from autopilot.domain.money import Number
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import veto_note
from autopilot.policy.eligibility import UNCERTIFIED
from autopilot.policy.wait import REMOVED, SEARCH, UNSEARCHED

RECORDED_EVERY = timedelta(minutes=10)
"""A wait whose causes come and go is recorded no more often than this."""
QUEUED_FOR = timedelta(minutes=5)
"""A job that waits for room among the account's machines is reviewed at least this often."""

_CAUSE_OF = {SEARCH: "gpus", REMOVED: "condition", UNSEARCHED: "provider", "no_spot": "provider", "paused": "cause"}
"""Topic of a note → which of its numbers tells one wait from another."""

_Causes = frozenset[tuple[str, Number]]


@dataclass(frozen=True, slots=True)
class Wait:
    """The newest decision of a job for which nothing could be done, with the numbers of that moment."""

    at: datetime
    reason: Reason
    """Why, in a word."""
    vetoes: tuple[Note, ...]
    notes: tuple[Note, ...]

    @property
    def found_nothing(self) -> bool:
        """The markets were searched, and have not one offer of what the job asks for."""
        is_searched = all(note.topic != UNSEARCHED for note in self.notes)
        return is_searched and any(note.topic == SEARCH and not dict(note.numbers)["offers"] for note in self.notes)

    @property
    def fits_nothing(self) -> bool:
        """Offers were found, and none of them will do."""
        searches = (dict(note.numbers) for note in self.notes if note.topic == SEARCH)
        return any(numbers["offers"] and not numbers["fitting"] for numbers in searches)


class Waits:
    """One per engine. Its state is disposable: the next decision restores it."""

    def __init__(self) -> None:
        self._now: dict[str, Wait] = {}
        self._task: dict[str, str] = {}
        """By array: the task of it that was seen to wait last."""
        self._vetoed: dict[str, tuple[Reason, ...]] = {}
        self._recorded: dict[str, tuple[_Causes, datetime]] = {}

    def of(self, job: Job) -> Wait | None:
        """None for a job that wants no machine, or whose machine works or is being made ready.

        Of an array: what one of its tasks waits for.
        """
        if job.is_array:
            return self._now.get(self._task.get(job.id, "")) if job.status.wants_capacity else None
        return self._now.get(job.id) if _is_without_machine(job) else None

    def is_queued(self, job: Job, now: datetime) -> bool:
        """Whether it waits for another job to give up its machine, as was found a short while ago.

        It holds nothing that could change meanwhile, so as long as there is no room it need not be decided again.
        """
        wait = None if job.leases else self.of(job)
        return wait is not None and wait.reason is Reason.TOO_MANY_INSTANCES and now - wait.at < QUEUED_FOR

    def is_news(
        self, job: Job, allowed: tuple[Action, ...], vetoes: tuple[Veto, ...], notes: tuple[Note, ...], now: datetime
    ) -> bool:
        """Whether the decision is to be recorded: it acts, is vetoed in another way, or waits for something else."""
        refused = tuple(veto.reason for veto in vetoes)
        is_newly_vetoed = refused != self._vetoed.get(job.id, ())
        self._vetoed[job.id] = refused
        if allowed or not _is_without_machine(job):
            self._now.pop(job.id, None)
            self._recorded.pop(job.id, None)
            return bool(allowed) or is_newly_vetoed
        if job.array_id is not None:
            self._task[job.array_id] = job.id
        self._now[job.id] = Wait(now, _reason(refused, notes), tuple(map(veto_note, vetoes)), notes)
        causes = _causes(notes)
        last = self._recorded.get(job.id)
        has_new_causes = last is None or (causes != last[0] and now - last[1] >= RECORDED_EVERY)
        if is_newly_vetoed or has_new_causes:
            self._recorded[job.id] = causes, now
            return True
        return False

    def forget(self, open_jobs: Iterable[str]) -> None:
        """Keep nothing of jobs that are over."""
        kept = frozenset(open_jobs)
        kinds: tuple[dict[str, Any], ...] = (self._now, self._task, self._vetoed, self._recorded)
        for of_job in kinds:
            for job_id in of_job.keys() - kept:
                del of_job[job_id]


def _reason(refused: tuple[Reason, ...], notes: tuple[Note, ...]) -> Reason:
    if refused:
        return refused[0]
    numbers = [dict(note.numbers) for note in notes]
    is_uncertified = any(each.get("condition") in UNCERTIFIED for each in numbers)
    has_other = any(each["fitting"] for note, each in zip(notes, numbers, strict=True) if note.topic == SEARCH)
    return Reason.NOT_CERTIFIED if is_uncertified and not has_other else Reason.WAITING_FOR_OFFER


def _is_without_machine(job: Job) -> bool:
    if not job.status.wants_capacity:
        return False
    return job.main is None or job.main.state is LeaseState.PAUSED


def _causes(notes: Iterable[Note]) -> _Causes:
    """What a decision waits for, without its numbers: of equal ones only the first is worth a record."""
    found: set[tuple[str, Number]] = set()
    for note in notes:
        numbers = dict(note.numbers)
        if numbers.get("chosen"):
            found.add((note.topic, numbers["option"]))
        elif note.topic in _CAUSE_OF:
            found.add((note.topic, numbers[_CAUSE_OF[note.topic]]))
    return frozenset(found)
