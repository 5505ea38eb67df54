"""What must hold of schedules: each due instant becomes one job at most, and all of them stay within their budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal

from autopilot.domain.cadence import Cadence, Overlap
from autopilot.domain.job import Job
from autopilot.domain.schedule import Schedule, ScheduleStatus
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import Ground
from tests.simulation.virtual.clock import at

CLOCK_OFF_S = 125.0
"""By which a daemon's clock may be ahead."""


class Firings:
    """Reads jobs as they are committed, and what the machines of firings bill, excuses apart."""

    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation
        self._told: set[tuple[str, str]] = set()

    def change_job(self, before: Job | None, after: Job, tables: MemoryTables) -> None:
        if before is not None or after.schedule_id is None or after.array_id is not None:
            return
        committed, what = self._ground.committed, f"job {after.id[-1]}, due {after.due_at},"
        schedule: Schedule = committed["schedules"][after.schedule_id]
        jobs = [
            job for job in committed.get("jobs", {}).values() if job.array_id is None and job.schedule_id == schedule.id
        ]
        if after.due_at in [job.due_at for job in jobs]:
            self._add_violation("S29", f"{what} is there a second time")
        if after.due_at is None or not _is_due(schedule.cadence, after):
            self._add_violation("S29", f"{what} is no firing of {schedule.cadence.cron!r}")
        elif (after.due_at - at(self._ground.now_s)).total_seconds() > CLOCK_OFF_S:
            self._add_violation("S29", f"{what} is made before")
        if schedule.status is not ScheduleStatus.ACTIVE:
            self._add_violation("S29", f"{what} is made of a schedule that is {schedule.status}")
        changed = {id_: job for id_, job in tables.jobs.changes.items() if job is not None}
        still = [job for job in (changed.get(job.id, job) for job in jobs) if not job.status.is_final]
        most = 0 if schedule.cadence.overlap is Overlap.SKIP else 1
        if len(still) > most or (still and not after.waits_for_jobs):
            self._add_violation("S29", f"{what} begins beside {len(still)} earlier ones that are not over")

    def look(self) -> None:
        for schedule, period, spent in self.spent():
            assert schedule.budget is not None, "others have no period"
            if spent > schedule.budget and (schedule.id, period) not in self._told:
                self._told.add((schedule.id, period))
                self._add_violation("S30", f"{schedule.id}, {period}: {spent:.6f} of {schedule.budget}")

    def spent(self) -> Iterator[tuple[Schedule, str, Decimal]]:
        """Of each schedule that has a budget, for each of its periods: dollars."""
        committed, books = self._ground.committed, self._ground.books
        for schedule in committed.get("schedules", {}).values():
            if schedule.budget is None:
                continue
            ids = {job.id for job in committed["jobs"].values() if job.schedule_id == schedule.id}
            if not schedule.cadence.is_monthly:
                yield schedule, "ever", dollars(sum(books.by_job[job_id] for job_id in ids))
                continue
            by_month = defaultdict[str, int](int)
            for (job_id, year, month), amount in list(books.by_job_month.items()):
                if job_id in ids:
                    by_month[f"{year}-{month:02}"] += amount
            for period, amount in by_month.items():
                yield schedule, period, dollars(amount)


def _is_due(cadence: Cadence, job: Job) -> bool:
    """Of those that seeds and stories have: at a minute, or each so many, of each so-many-th hour, UTC."""
    (minute, hours), due = cadence.cron.split()[:2], job.due_at
    assert due is not None, "it was looked at before"
    step = minute.removeprefix("*/")
    is_minute = due.minute == int(minute) if step == minute else due.minute % int(step) == 0
    return is_minute and due.hour % int(hours.removeprefix("*/")) == 0 and due.second == 0
