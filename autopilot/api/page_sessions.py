"""Access to the page: by a single-use link, then by a secret that the browser keeps for some hours.

A session never gives more than the rights of the caller who asked for its link. It outlives the daemon: the page keeps
working after a restart.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from autopilot.api.bearer import hash_token
from autopilot.domain.errors import UserError
from autopilot.domain.token import PageSession
from autopilot.ids import new_name, new_secret
from autopilot.ports.clock import Clock

log = structlog.get_logger(__name__)

LINK_GOOD_FOR = timedelta(minutes=5)
SESSION_GOOD_FOR = timedelta(hours=12)
"""Both as people count time, however fast the daemon's clock goes."""
MOST_SESSIONS = 200
"""And as many links. No link ends a session."""
MOST_OF_AN_OWNER = 20
"""Sessions, and links, of one owner: the oldest ends for one more."""
_PREFIX = "appg_"

Announce = Callable[[Collection[str]], Awaitable[None]]
"""Takes the hashes of all links and sessions."""


class PageSessions:
    """Kept in a file that the daemon alone can read."""

    def __init__(self, path: Path, clock: Clock, announce: Announce) -> None:
        self._path = path
        self._clock = clock
        self._announce = announce
        self._known: dict[str, PageSession] = {}
        self._ending: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take up what a daemon before this has kept."""
        for session in await asyncio.to_thread(_read, self._path):
            self._known[session.sha256] = session
        self._forget_ended()
        await self._tell()

    def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()

    async def invite(self, owner: int, token_sha256: str, *, is_limited: bool = False) -> str:
        """The secret of a link. Raises ``UserError`` if it cannot be kept."""
        return await self._add(owner, token_sha256, LINK_GOOD_FOR, is_link=True, is_limited=is_limited)

    async def enter(self, link: PageSession) -> tuple[str, PageSession]:
        """A session in the place of its link: its secret, and what it is. Raises ``UserError``."""
        self._known.pop(link.sha256, None)
        more = {"is_link": False, "is_limited": link.is_limited}
        secret = await self._add(link.owner, link.token_sha256, SESSION_GOOD_FOR, **more)
        return secret, self._known[hash_token(secret)]

    async def end(self, session: PageSession) -> None:
        """Raises ``UserError`` if that cannot be kept."""
        self._known.pop(session.sha256, None)
        await self._keep()

    def find(self, sha256: str) -> PageSession | None:
        """The link or session of that hash, while it is good."""
        found = self._known.get(sha256)
        return found if found is not None and self._clock.now() < found.expires_at else None

    async def _add(self, owner: int, token_sha256: str, good_for: timedelta, *, is_link: bool, is_limited: bool) -> str:
        secret = _PREFIX + new_secret()
        expires_at = self._clock.now() + good_for * self._clock.speed
        session = PageSession(hash_token(secret), owner, token_sha256, expires_at, is_link, is_limited)
        self._forget_ended()
        self._make_room(session)
        self._known[session.sha256] = session
        await self._keep()
        return secret

    def _make_room(self, new: PageSession) -> None:
        """A link replaces a link, and a session a session: its owner's, or one of the owner with the most."""
        alike = [each for each in self._known.values() if each.is_link == new.is_link]
        counts = Counter(each.owner for each in alike)
        if counts[new.owner] >= MOST_OF_AN_OWNER:
            del self._known[next(each.sha256 for each in alike if each.owner == new.owner)]
        elif len(alike) >= MOST_SESSIONS:
            del self._known[max(alike, key=lambda each: counts[each.owner]).sha256]

    async def _keep(self) -> None:
        try:
            await asyncio.to_thread(_write, self._path, list(self._known.values()))
        except OSError as problem:
            hint = "the log has more; mend the directory's owner or mode, or free some space"
            raise UserError(f"{self._path} cannot be written: {problem.strerror}", hint=hint) from None
        await self._tell()

    async def _tell(self) -> None:
        """To the listener, which opens a port for as long as anybody may come."""
        await self._announce(list(self._known))
        self.close()
        if self._known:
            self._ending = asyncio.create_task(self._end_next(), name="page sessions")

    async def _end_next(self) -> None:
        first = min(session.expires_at for session in self._known.values())
        await self._clock.sleep(max((first - self._clock.now()).total_seconds(), 0))
        self._ending = None
        self._forget_ended()
        try:
            await self._keep()
        except UserError as problem:
            log.warning("page.sessions_not_kept", reason=problem.message)

    def _forget_ended(self) -> None:
        now = self._clock.now()
        self._known = {sha256: each for sha256, each in self._known.items() if now < each.expires_at}


def _read(path: Path) -> list[PageSession]:
    """Nothing if there is no such file, or it holds something else."""
    try:
        return [_session(row) for row in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _session(row: dict[str, Any]) -> PageSession:
    return PageSession(**row | {"expires_at": datetime.fromisoformat(row["expires_at"])})


def _write(path: Path, sessions: list[PageSession]) -> None:
    rows = [asdict(each) | {"expires_at": each.expires_at.isoformat()} for each in sessions]
    scratch = path.with_name(f"{path.name}.{new_name()}.new")
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(rows, file)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
