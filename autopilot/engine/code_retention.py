"""Which copies of the users' code stay in the store: those that jobs have. The others go in two steps, a day apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from autopilot.domain.code import DELETED_AFTER, UNUSED_FOR, CodeCopy
from autopilot.mailbox.keys import code_prefix
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)


class CodeRetention:
    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs

    async def retire(self, unused: Sequence[CodeCopy], now: datetime) -> None:
        """``unused``: the copies that no job has. An hour after it was sent such a copy is withdrawn, so that no job
        can take it any more; a day later its objects are deleted. Failures are logged and tried again."""
        forsaken = [copy for copy in unused if copy.withdrawn_at is None and now - copy.sent_at >= UNUSED_FOR]
        if forsaken:
            await self._withdraw(forsaken, now)
        for copy in unused:
            if copy.withdrawn_at is not None and now - copy.withdrawn_at >= DELETED_AFTER:
                await self._delete(copy)

    async def _withdraw(self, forsaken: Sequence[CodeCopy], now: datetime) -> None:
        async with self._store.transaction() as uow:
            # A job may have taken it since it was listed, or its owner sent it once more.
            for copy in set(forsaken) & set(await uow.code_copies.list_unused()):
                await uow.code_copies.save(replace(copy, withdrawn_at=now))
                log.info("code.withdrawn", copy=copy.id, owner=copy.owner, sha256=copy.sha256)

    async def _delete(self, copy: CodeCopy) -> None:
        try:
            await self._blobs.delete_prefix(code_prefix(copy.id))
        except BlobUnavailable as problem:
            log.warning("code.undeleted", copy=copy.id, reason=str(problem))
            return
        async with self._store.transaction() as uow:
            await uow.code_copies.remove(copy)
        log.info("code.deleted", copy=copy.id, owner=copy.owner, sha256=copy.sha256)
