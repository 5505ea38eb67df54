"""A daemon's half of the mailbox, without a daemon: orders, and checkpoints that are verified as it verifies them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from aiohttp import web

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.mailbox.checkpoints import keep_verified, verified_manifest
from autopilot.mailbox.keys import heartbeat_key, orders_key, verified_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.mailbox.report_shapes import Heartbeat, Manifest

PERMIT_S = 7_200
"""Market seconds: where the rehearsal itself is killed, its agent ends the job after two real minutes."""
INTERVAL_S = 15
"""Market seconds between two uploads. What is saved counts as whole once it was quiet for as long: a quarter of a real
second, for programs whose saves follow closely."""
RENEW_S = 0.2
ORDERS_FOR = timedelta(days=1)


class RehearsalLease:
    """One machine's orders, from its start to its loss. A disk that is kept keeps its lease.

    ``run_epoch``: greater than that of any before, for of two checkpoints the agent restores that of the later run.
    """

    def __init__(
        self, store: LocalBlobStore, job: str, run_epoch: int, work: Work, restore: CheckpointRef | None
    ) -> None:
        self.store, self.job, self.work, self.restore = store, job, work, restore
        self.name, self.run_epoch, self.seq = f"lease-{run_epoch}", run_epoch, 0
        self.verified: dict[int, Manifest] = {}
        self.heartbeat: Heartbeat | None = None

    @property
    def orders_url(self) -> str:
        return self.store.sign_get(orders_key(self.job, self.name), ORDERS_FOR)

    async def renew(self) -> None:
        """Write the orders again, by what the agent told last, and verify what it has sent."""
        self.heartbeat = parse_heartbeat(await self.store.get(heartbeat_key(self.job, self.name)) or b"")
        self.seq += 1
        orders = build_orders(
            self.store,
            job_id=self.job,
            lease_id=self.name,
            instance_id=None,
            run_epoch=self.run_epoch,
            seq=self.seq,
            permit_ttl_s=PERMIT_S,
            role="run",
            checkpoint_interval_s=INTERVAL_S,
            work=self.work,
            restore=self.restore,
            heartbeat=self.heartbeat,
        )
        await self.store.put(orders_key(self.job, self.name), orders.to_json())
        await self.verify()

    async def verify(self) -> None:
        newest = self.heartbeat.last_checkpoint if self.heartbeat else None
        if newest is None or newest in self.verified:
            return
        manifest = await verified_manifest(self.store, AgentUnpacker(), self.job, self.name, newest)
        if manifest is None:
            return
        await keep_verified(self.store, self.job, self.name, manifest)
        self.verified[newest] = manifest
        key = verified_key(self.job, self.name, newest)
        self.restore = CheckpointRef(self.name, newest, key, manifest.part_keys(self.job, self.name))

    async def keep_renewed(self) -> None:
        while True:
            await self.renew()
            await asyncio.sleep(RENEW_S)


@asynccontextmanager
async def serve_store(root: Path) -> AsyncIterator[LocalBlobStore]:
    """The daemon's own store, which a listener serves on a port of this computer alone."""
    store = LocalBlobStore(root / "blobs", MailboxPlace(root).read_or_make_key(), "")
    quiet = logging.getLogger(__name__)
    quiet.setLevel(logging.CRITICAL)  # machines are killed in the midst of transfers: each would be a traceback
    runner = web.AppRunner(blob_listener(store), access_log=None, logger=quiet, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        store.base_url = "http://{}:{}".format(*runner.addresses[0][:2])
        yield store
    finally:
        await runner.cleanup()
