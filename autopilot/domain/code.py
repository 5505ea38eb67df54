"""The user's code: what a job file says of it, the copies of it that are kept, and the one that a job runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MOST_BYTES = 2_000_000_000
"""Limit for one copy; and for all copies of one owner without a job."""
UNUSED_FOR = timedelta(hours=1)
"""A copy without a job can be taken for so long."""
DELETED_AFTER = timedelta(days=1)
"""From then until its objects are deleted."""


@dataclass(frozen=True, slots=True)
class CodeSpec:
    """``[code]`` of a job file: which files of the user's directory are sent."""

    path: str = "."
    """From the directory of the job file."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    most_bytes: int = 500_000_000


@dataclass(frozen=True, slots=True)
class CodeCopy:
    """One owner's copy in the store, by the hash of its index; ``id`` names its objects."""

    id: str
    owner: int
    """The uid that sent it."""
    sha256: str
    files: int
    size_bytes: int
    """Size of its files."""
    part_count: int
    index_bytes: int
    sent_at: datetime
    withdrawn_at: datetime | None = None
    """Since then no job can take it; its objects are still there for a day."""


@dataclass(frozen=True, slots=True)
class JobCode:
    """The copy that a job runs; ``sha256`` is empty if its job file has no ``[code]``."""

    copy_id: str = ""
    sha256: str = ""
    files: int = 0
    size_bytes: int = 0
    part_count: int = 0
    index_bytes: int = 0
    commit: str = ""
    """Commit of the Git work tree that it was taken from; empty if that is not known."""
    is_dirty: bool = False
    """Its files differed from the commit's."""


NO_CODE = JobCode()
