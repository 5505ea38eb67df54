"""A look for checkpoints takes longer than a tick may, and the run may end while it lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.engine import mailbox as module
from autopilot.engine.mailbox import Mailbox
from autopilot.mailbox.keys import exit_key, heartbeat_key
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat
from tests.builders import START, a_job, a_lease


class SlowStore(LocalBlobStore):
    """Says how large an object is only once ``answers`` is set."""

    answers: asyncio.Event

    async def size(self, key: str) -> int | None:
        await self.answers.wait()
        return await super().size(key)


async def test_an_exit_waits_for_a_look_that_began_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEARCH_WAIT_REAL_S", 0.01)
    store = SlowStore(tmp_path, b"k" * 32, "http://store")
    store.answers = asyncio.Event()
    lease = a_lease(run_epoch=1)
    job = a_job(lease, run_epoch=1)
    beat = Heartbeat(boot=1, seq=1, run_epoch=1, orders_seq_seen=1, state="running", last_checkpoint=0)
    await store.put(heartbeat_key(job.id, lease.id), beat.to_json())
    mailbox = Mailbox(store, 900, lambda held: 0.5, lambda name: "", AgentUnpacker())

    assert (await mailbox.read(job, lease, START)).exit is None, "a look is under way"
    await store.put(exit_key(job.id, lease.id), ExitRecord(run_epoch=1, exit_code=0).to_json())
    assert (await mailbox.read(job, lease, START)).exit is None
    store.answers.set()
    monkeypatch.setattr(module, "SEARCH_WAIT_REAL_S", 10)
    assert (await mailbox.read(job, lease, START)).exit is None, "what it found says nothing of the last checkpoint"
    assert (await mailbox.read(job, lease, START)).exit is not None
