"""Copies of the users' code: sent in parts over the control socket, kept in the store, taken by jobs.

A copy belongs to the uid that sent it. Everything is asked per owner: the hash of somebody else's code gives nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass, replace

from autopilot import render
from autopilot.answers.models import jobs as models
from autopilot.api.uploads import Upload
from autopilot.domain.code import MOST_BYTES, CodeCopy, JobCode
from autopilot.domain.errors import UserError
from autopilot.mailbox.keys import code_key, code_prefix
from autopilot.mailbox.wire import MAX_INDEX_BYTES
from autopilot.ports.blobs import BlobStore
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import Store, UnitOfWork
from autopilot.ports.unpacking import CodeContents, Unpacker, Unrestorable

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CONTENTS_KNOWN = 8
"""Copies on their way at once, whose index is not read again for each part."""


class SendAgain(UserError):
    """The copy that a job is to take is not there, or not all of it."""


@dataclass(frozen=True, slots=True)
class SentCode:
    """What a submit says of its code: a claim, but for what the hash proves."""

    sha256: str
    files: int
    size_bytes: int
    commit: str
    is_dirty: bool

    @classmethod
    def of(cls, said: models.SentCode) -> SentCode:
        return cls(said.sha256, said.files, said.size_bytes, said.commit, said.is_dirty)

    def as_planned(self) -> JobCode:
        """For a plan, before anything is sent."""
        return JobCode("", self.sha256, self.files, self.size_bytes, commit=self.commit, is_dirty=self.is_dirty)

    def as_taken(self, copy: CodeCopy) -> JobCode:
        of_copy = (copy.id, copy.sha256, copy.files, copy.size_bytes, copy.part_count, copy.index_bytes)
        return JobCode(*of_copy, commit=self.commit, is_dirty=self.is_dirty)


class CodeService:
    def __init__(self, store: Store, blobs: BlobStore, unpacker: Unpacker, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._blobs = blobs
        self._unpacker = unpacker
        self._clock = clock
        self._ids = ids
        self._contents: OrderedDict[str, CodeContents] = OrderedDict()
        self._publishing = asyncio.Lock()

    async def look(self, owner: int, sha256: str) -> render.Json:
        """Whether the owner's copy is there for a job to take; ``missing``: numbers of parts that are yet to come."""
        copy = await self._find(owner, sha256)
        missing = None if copy is None else await self._missing(copy)
        return {"there": missing == [], "missing": missing}

    async def begin(self, owner: int, sha256: str, upload: Upload) -> render.Json:
        """Take in an index; answers which parts are yet to come. Raises ``UserError``."""
        async with upload(MAX_INDEX_BYTES) as received:
            data = await asyncio.to_thread(received.file.read)
        if received.sha256 != sha256:
            raise UserError("the index does not match its SHA-256")
        try:
            contents = await self._unpacker.read_code(data)
        except Unrestorable as problem:
            raise UserError(f"the code cannot be accepted: {problem}") from None
        copy = await self._enter(owner, sha256, contents, len(data))
        self._remember(copy, contents)
        async with self._publishing:
            await self._blobs.put(code_key(copy.id, 0), data)
        return {"missing": await self._missing(copy)}

    async def add_part(self, owner: int, sha256: str, number: int, upload: Upload) -> None:
        """Take in part ``number``, counted from 1. Raises ``SendAgain``, ``UserError``."""
        copy = await self._find(owner, sha256)
        if copy is None:
            raise _send_again()
        contents = await self._contents_of(copy)
        if not 1 <= number <= len(contents.parts):
            raise UserError(f"the code has {len(contents.parts)} parts; there is no part {number}")
        expected = contents.parts[number - 1]
        async with upload(expected[0]) as received:
            if (received.size, received.sha256) != expected:
                raise UserError(
                    f"part {number} of the code is not what its index says",
                    hint="a file changed while it was sent: submit again",
                )
            async with self._publishing:  # one at a time is in memory
                await self._blobs.put(code_key(copy.id, number), await asyncio.to_thread(received.file.read))

    async def require(self, owner: int, sha256: str) -> CodeCopy:
        """The owner's copy, all of which is there. Raises ``SendAgain``."""
        copy = await self._find(owner, sha256)
        if copy is None or await self._missing(copy):
            raise _send_again()
        return copy

    async def _find(self, owner: int, sha256: str) -> CodeCopy | None:
        if not _SHA256.fullmatch(sha256):
            raise UserError("code is named by the SHA-256 of its index: 64 digits and letters from a to f")
        async with self._store.snapshot() as uow:
            return await uow.code_copies.find(owner, sha256)

    async def _enter(self, owner: int, sha256: str, contents: CodeContents, index_bytes: int) -> CodeCopy:
        """The owner's copy in the ledger, new or known: it is there before any of its objects. Raises ``UserError``."""
        now = self._clock.now()
        async with self._store.transaction() as uow:
            copy = await uow.code_copies.find(owner, sha256)
            if copy is None:
                await _check_room(uow, owner, contents.size_bytes)
                of_contents = (contents.files, contents.size_bytes, len(contents.parts), index_bytes)
                copy = CodeCopy(self._ids.new(), owner, sha256, *of_contents, sent_at=now)
            copy = replace(copy, sent_at=now)
            await uow.code_copies.save(copy)
        return copy

    async def _missing(self, copy: CodeCopy) -> list[int]:
        there = set(await self._blobs.sizes(code_prefix(copy.id)))
        return [i for i in range(copy.part_count + 1) if code_key(copy.id, i) not in there]

    async def _contents_of(self, copy: CodeCopy) -> CodeContents:
        known = self._contents.get(copy.id)
        if known is None:
            try:
                known = await self._unpacker.read_code(
                    await self._blobs.get(code_key(copy.id, 0), MAX_INDEX_BYTES) or b""
                )
            except Unrestorable:
                raise _send_again() from None
        self._remember(copy, known)
        return known

    def _remember(self, copy: CodeCopy, contents: CodeContents) -> None:
        self._contents[copy.id] = contents
        self._contents.move_to_end(copy.id)
        while len(self._contents) > _CONTENTS_KNOWN:
            self._contents.popitem(last=False)


async def take(uow: UnitOfWork, copy: CodeCopy) -> None:
    """In the transaction that makes the job. Raises ``SendAgain`` if the copy was withdrawn meanwhile."""
    found = await uow.code_copies.find(copy.owner, copy.sha256)
    if found is None or found.id != copy.id:
        raise _send_again()


async def _check_room(uow: UnitOfWork, owner: int, size_bytes: int) -> None:
    unused = [copy for copy in await uow.code_copies.list_unused() if copy.owner == owner and not copy.withdrawn_at]
    kept = sum(copy.size_bytes for copy in unused)
    if kept + size_bytes > MOST_BYTES:
        raise UserError(
            f"you have sent {kept / 10**6:,.0f} MB of code without a job; the limit is 2 GB",
            hint="submit a job with it, or wait: it is deleted an hour after the upload",
        )


def _send_again() -> SendAgain:
    return SendAgain("the code is not there, or not all of it: send the code again", hint="submit once more")
