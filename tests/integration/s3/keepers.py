"""The agent's half of checkpoints without its processes, and the daemon's half of its orders, against a real store."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from autopilot.agent.shipped.keeper import Keeper
from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.memory import Memory
from autopilot.agent.shipped.orders import parse_orders
from autopilot.agent.shipped.web import Web
from autopilot.agent.unpack import AgentUnpacker
from autopilot.mailbox.checkpoints import contents, keep_verified, kept_manifest, verified_manifest
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.mailbox.report_shapes import Manifest, Part
from autopilot.ports.blobs import BlobStore, Grant
from tests.patience import eventually

JOB = "job"
WORK = Work(run="train", checkpoint_path="ckpt")


class Machine:
    """A disk with a job's files in ``ckpt`` beneath it, a keeper, and orders that are renewed as a daemon does it."""

    def __init__(self, store: BlobStore, disk: Path, lease: str) -> None:
        self.store, self.disk, self.lease = store, disk, lease
        disk.mkdir(parents=True, exist_ok=True)
        self.orders: dict[str, Any] | None = None
        self.newest: tuple[str, Manifest] | None = None
        self.seq = 0
        self.grant: Grant | None = None
        self.run_epoch = 1
        self.state = "running"
        self.reboot()

    def reboot(self) -> None:
        """As after a kill: what is not on the disk is forgotten."""
        self.web = Web()
        self.memory = Memory(str(self.disk), str(self.disk / "container"))
        self.keeper = Keeper(str(self.disk), self.web, Log(1), self.memory, lambda: self.orders, 60)

    @property
    def files(self) -> Path:
        return self.disk / "ckpt"

    def renew(self) -> None:
        self.seq += 1
        beat = parse_heartbeat(
            json.dumps(
                {
                    **{"v": 1, "boot": 1, "seq": self.seq, "run_epoch": 1, "orders_seq_seen": self.seq},
                    **{"state": self.state, "next_ckpt_n": self.memory["next_ckpt_n"], **self.keeper.wants()},
                }
            ).encode()
        )
        restore = None
        if self.newest is not None:
            lease, manifest = self.newest
            keys = manifest.part_keys(JOB, lease)
            restore = CheckpointRef(lease, manifest.number, verified_key(JOB, lease, manifest.number), keys)
        built = build_orders(
            self.store,
            job_id=JOB,
            lease_id=self.lease,
            instance_id=None,
            run_epoch=self.run_epoch,
            seq=self.seq,
            permit_ttl_s=900,
            role="run",
            checkpoint_interval_s=60,
            work=WORK,
            restore=restore,
            heartbeat=beat,
            grant=self.grant,
        )
        self.orders = parse_orders(built.to_json())
        assert self.orders is not None

    @asynccontextmanager
    async def in_orders(self) -> AsyncIterator[None]:
        """Orders are renewed while the block runs."""

        async def again() -> None:
            while True:
                self.renew()
                await asyncio.sleep(0.05)

        renewing = asyncio.create_task(again())
        try:
            await asyncio.sleep(0)
            yield
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing

    async def checkpoint(self) -> int:
        """Take and send one; answers the bytes that it took."""
        before = self.web.bytes_sent
        async with self.in_orders():
            await asyncio.to_thread(self.keeper.checkpoint, str(self.files), self.run_epoch, None)
        return self.web.bytes_sent - before

    async def restore(self) -> None:
        self.state = "restoring"
        async with self.in_orders():
            await asyncio.to_thread(self.keeper.restore, str(self.files))
        self.state = "running"

    async def verify(self) -> Manifest | None:
        """What the daemon does with the newest one: on success the orders name it from then on."""
        number = self.memory["last_ckpt_n"]
        trusted: frozenset[Part] = frozenset()
        if self.newest is not None:
            kept = await kept_manifest(self.store, JOB, self.newest[0], self.newest[1].number)
            assert kept is not None
            trusted = contents(kept, JOB, self.newest[0])
        manifest = await verified_manifest(self.store, AgentUnpacker(), JOB, self.lease, number, trusted)
        if manifest is not None:
            await keep_verified(self.store, JOB, self.lease, manifest)
            self.newest = self.lease, manifest
        return manifest


def content(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


async def until(look: Callable[[], object]) -> None:
    await eventually(look)
