"""The daemon's side of one simulated agent's mailbox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import heartbeat_key, manifest_key, orders_key
from autopilot.mailbox.order_shapes import Role, Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest
from autopilot.providers.paper.agent import AgentMemory, PaperAgents
from autopilot.providers.paper.bootstrap import PaperBootstrap

JOB = "job"
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
WORK = Work(run="train", checkpoint_path="ckpt", estimate_s=600)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class PaperMailbox:
    """``turn`` is one look of the agent of ``lease``, at so many seconds after ``START``."""

    def __init__(self, store: LocalBlobStore, lease: str = "lease") -> None:
        self.store = store
        self.agents = PaperAgents()
        self.lease = lease
        self.seq = 0
        self.memory = self.boot(AgentMemory(PaperBootstrap(store).onstart(JOB, lease)), 1, 0)

    def boot(self, memory: AgentMemory, boot: int, seconds: float, *, keeps_disk: bool = True) -> AgentMemory:
        self.memory = memory.start(boot, at(seconds), keeps_disk=keeps_disk)
        return self.memory

    async def order(self, role: Role = "run", run_epoch: int = 1, **changes: Any) -> None:
        """New orders with a higher ``seq``."""
        self.seq += 1
        beat = await self.heartbeat()
        values: dict[str, Any] = {
            "permit_ttl_s": 900,
            "checkpoint_interval_s": 60,
            "work": WORK,
            "restore": None,
            "heartbeat": beat,
        }
        orders = build_orders(
            self.store,
            job_id=JOB,
            lease_id=self.lease,
            instance_id=None,
            run_epoch=run_epoch,
            seq=self.seq,
            role=role,
            **(values | changes),
        )
        await self.store.put(orders_key(JOB, self.lease), orders.to_json())

    async def turn(self, seconds: float) -> Heartbeat:
        self.memory = await self.agents.turn(self.memory, at(seconds))
        beat = await self.heartbeat()
        assert beat is not None
        return beat

    async def heartbeat(self) -> Heartbeat | None:
        return parse_heartbeat(await self.store.get(heartbeat_key(JOB, self.lease)) or b"")

    async def exit(self) -> ExitRecord | None:
        beat = await self.heartbeat()
        return beat.exit if beat else None

    async def checkpoint(self, n: int) -> Manifest | None:
        """As the daemon verifies it: every part with its size and SHA-256."""
        return await verified_manifest(self.store, AgentUnpacker(), JOB, self.lease, n)

    def ref(self, manifest: Manifest) -> CheckpointRef:
        key = manifest_key(JOB, self.lease, manifest.number)
        return CheckpointRef(self.lease, manifest.number, key, manifest.part_keys(JOB, self.lease))
