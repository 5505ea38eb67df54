"""What the images of jobs require of machines: read in the background, and known before anything is rented for them.

Kept in memory: what lies under a digest never changes, and a daemon that starts again asks again. What is not known
rules out nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.domain.errors import UserError
from autopilot.domain.image import ImageFacts
from autopilot.domain.job import Job, JobSpec
from autopilot.domain.registry import RegistryLogin
from autopilot.ports.clock import Clock
from autopilot.ports.images import ImageAnswer, ImageReader, NotRead

FRESH_FOR = timedelta(hours=1)
"""A tag may lead elsewhere then: its digest is asked for again."""
AGAIN_AFTER = timedelta(minutes=15)
"""The same for an image that could not be read, or that was not there."""
WAIT_REAL_S = 3.0
"""So long a submit, or the first tick that sees an image, waits for its registry."""

NOT_ASKED = NotRead("")

_Key = tuple[str, str, str]
"""Of what is asked: image, user and secret. Another user's login says nothing to those who do not have it."""


@dataclass(frozen=True, slots=True)
class _Known:
    answer: ImageAnswer
    at: datetime


class Images:
    def __init__(self, reader: ImageReader | None, login: Callable[[JobSpec], RegistryLogin], clock: Clock) -> None:
        """``reader``: None: nothing is asked. ``login``: that of a job which has one; raises ``UserError``."""
        self._reader = reader
        self._login = login
        self._clock = clock
        self._known: dict[_Key, _Known] = {}
        self._reading: dict[_Key, asyncio.Task[None]] = {}

    async def ask(self, spec: JobSpec) -> ImageAnswer:
        """The newest answer, after a bounded time; a read that takes longer goes on."""
        if self._reader is None:
            return NOT_ASKED
        key = _key_of(spec)
        if self._is_due(key, self._clock.now()):
            self._begin(key, spec)
        await self._wait({key})
        known = self._known.get(key)
        return NotRead("its registry has not answered yet") if known is None else known.answer

    async def prepare(self, jobs: Iterable[Job]) -> None:
        """Begin what is due, and wait a bounded time for images of which nothing was ever asked."""
        if self._reader is None:
            return
        now = self._clock.now()
        specs = {_key_of(job.spec): job.spec for job in jobs if job.status.wants_capacity and not job.certifies}
        self._known = {key: known for key, known in self._known.items() if key in specs or self._is_fresh(known, now)}
        new = {key for key in specs if key not in self._known and key not in self._reading}
        for key, spec in specs.items():
            if self._is_due(key, now):
                self._begin(key, spec)
        await self._wait(new)

    def facts_of(self, spec: JobSpec) -> ImageFacts | None:
        known = self._known.get(_key_of(spec))
        return known.answer if known is not None and isinstance(known.answer, ImageFacts) else None

    def _is_due(self, key: _Key, now: datetime) -> bool:
        known = self._known.get(key)
        return key not in self._reading and (known is None or not self._is_fresh(known, now))

    def _is_fresh(self, known: _Known, now: datetime) -> bool:
        lasts = FRESH_FOR if isinstance(known.answer, ImageFacts) else AGAIN_AFTER
        return now - known.at < lasts

    def _begin(self, key: _Key, spec: JobSpec) -> None:
        assert self._reader is not None, "else none is due"
        self._reading[key] = asyncio.create_task(self._read(self._reader, key, spec), name="image")

    async def _read(self, reader: ImageReader, key: _Key, spec: JobSpec) -> None:
        try:
            login = None if spec.registry is None else self._login(spec)
            answer = await reader.read(spec.image, login)
        except UserError as problem:
            answer = NotRead(problem.message)
        finally:
            del self._reading[key]
        before = self._known.get(key)
        if isinstance(answer, NotRead) and before is not None and isinstance(before.answer, ImageFacts):
            answer = before.answer  # what was known is not forgotten because a registry is silent now
        self._known[key] = _Known(answer, self._clock.now())

    async def _wait(self, keys: Iterable[_Key]) -> None:
        reading = [self._reading[key] for key in keys if key in self._reading]
        if reading:
            await asyncio.wait(reading, timeout=WAIT_REAL_S)


def _key_of(spec: JobSpec) -> _Key:
    registry = spec.registry
    return (spec.image, "", "") if registry is None else (spec.image, registry.user, registry.secret)
