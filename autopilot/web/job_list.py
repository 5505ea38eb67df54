"""Which jobs the Overview lists: by name and status, in an order, page by page. All of it is in the page's address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from autopilot.answers.jobs import Job
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.web.shapes import spent_of

A_PAGE = 50
LONGEST_NAME = 100
LAST_PAGE = 10_000
STATUSES = ("", *JobStatus)
NAMES = ("name", "status", "sort", "page")


def urgency(job: Job) -> tuple[int, datetime]:
    late = {"will_miss": 0, "tight": 2}.get(job.verdict or "", 3)
    return 1 if job.status == "parked" and late else late, job.submitted_at


SORTS: Mapping[str, tuple[str, Callable[[Job], Any], bool]] = {
    "": ("most urgent first", urgency, False),
    "newest": ("newest first", lambda job: job.submitted_at, True),
    "name": ("by name", lambda job: job.name, False),
    "spent": ("most expensive first", lambda job: spent_of(job), True),
    "deadline": ("by deadline", lambda job: (job.deadline is None, job.deadline or job.submitted_at), False),
}
"""By the word in the address: its name, what is compared, and whether the greatest comes first."""


class ListChoice(NamedTuple):
    name: str = ""
    """Part of the job's name, in any case."""
    status: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> ListChoice:
        """Raises ``UserError``."""
        name, status, sort = (query.get(key, "").strip() for key in NAMES[:3])
        number = query.get("page", "1")
        if len(name) > LONGEST_NAME:
            raise UserError(f"the name is longer than {LONGEST_NAME} characters", hint="a part of it is enough")
        if status not in STATUSES:
            raise UserError(f"no status {status[:60]!r}", hint=f"one of: {', '.join(STATUSES[1:])}")
        if sort not in SORTS:
            raise UserError(f"no order {sort[:60]!r}", hint=f"one of: {', '.join(filter(None, SORTS))}")
        if not (number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= LAST_PAGE):
            raise UserError(f"no page {number[:60]!r}", hint=f"a number from 1 to {LAST_PAGE:,}")
        return cls(name, status, sort, int(number))

    @property
    def is_narrowed(self) -> bool:
        return bool(self.name or self.status)

    def matches(self, job: Job) -> bool:
        return self.name.casefold() in job.name.casefold() and self.status in ("", job.status)

    def query(self, page: int = 0) -> str:
        """For an address; empty for the list as it is without any wish."""
        values = {"name": self.name, "status": self.status, "sort": self.sort}
        number = page or self.page
        told = {key: value for key, value in values.items() if value} | ({"page": str(number)} if number > 1 else {})
        return urlencode(told)


@dataclass(frozen=True)
class JobList:
    asked: ListChoice
    jobs: Sequence[Job]
    """Those of this page."""
    matching: int
    total: int
    earlier: str | None
    """The query of the page before; None: there is none."""
    later: str | None

    @property
    def first(self) -> int:
        return (self.asked.page - 1) * A_PAGE + 1

    @property
    def sorts(self) -> list[tuple[str, str]]:
        return [(key, name) for key, (name, *_) in SORTS.items()]

    @property
    def statuses(self) -> Sequence[str]:
        return STATUSES


def choose(asked: ListChoice, jobs: Sequence[Job]) -> JobList:
    _, key, is_descending = SORTS[asked.sort]
    found = sorted((job for job in jobs if asked.matches(job)), key=key, reverse=is_descending)
    start = (asked.page - 1) * A_PAGE
    is_last = start + A_PAGE >= len(found)
    last = max((len(found) - 1) // A_PAGE + 1, 1)
    earlier = None if asked.page == 1 else asked.query(min(asked.page - 1, last))
    later = None if is_last else asked.query(asked.page + 1)
    return JobList(asked, found[start : start + A_PAGE], len(found), len(jobs), earlier, later)
