"""How often the daemon asks the store for one machine: counted over an hour of ticks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.domain.agent_state import AgentState
from autopilot.engine.mailbox import Mailbox
from autopilot.mailbox.keys import heartbeat_key, log_key
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.mailbox.wire import ABILITIES
from tests.builders import START, a_job, a_lease, no_hosts
from tests.memory_blobs import MemoryBlobs

TICKS, TICK_S = 240, 15


class CountedBlobs(MemoryBlobs):
    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    async def put(self, key: str, data: bytes) -> None:
        self.count["put"] += 1
        await super().put(key, data)

    async def get(self, key: str, most_bytes: int = 2_000_000) -> bytes | None:
        self.count["get"] += 1
        return await super().get(key, most_bytes)

    async def size(self, key: str) -> int | None:
        self.count["size"] += 1
        return await super().size(key)


async def an_hour(can: tuple[str, ...], chunk_s: int, beat_s: int) -> Counter[str]:
    """Of a machine at work, whose permit is renewed each minute, and that prints all the time."""
    blobs = CountedBlobs()
    mailbox = Mailbox(blobs, 900, lambda lease: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    lease = a_lease(run_epoch=1)
    for tick in range(TICKS):
        now_s = tick * TICK_S
        lease = replace(lease, permit=replace(lease.permit, seq=1 + now_s // 60))
        job = a_job(lease, run_epoch=1)
        logs = now_s // chunk_s
        if now_s % chunk_s == 0:
            blobs.kept[log_key(job.id, lease.id, 1, logs)] = b"output"
        if now_s % beat_s == 0:
            beat = Heartbeat(1, tick, 1, tick, AgentState.RUNNING, next_log=logs + 1, can=can)
            blobs.kept[heartbeat_key(job.id, lease.id)] = beat.to_json()
        await mailbox.read(job, lease, START + timedelta(seconds=now_s))
        await mailbox.write_orders(job, lease)
    return blobs.count


@pytest.mark.parametrize(
    ("can", "chunk_s", "beat_s", "most"),
    [
        pytest.param(ABILITIES, 30, 60, {"get": 250, "put": 100, "size": 140}, id="new"),
        pytest.param(ABILITIES[:3], 15, 15, {"get": 490, "put": 130, "size": 260}, id="of-the-version-before"),
    ],
)
async def test_requests_of_an_hour(can: tuple[str, ...], chunk_s: int, beat_s: int, most: dict[str, int]) -> None:
    count = await an_hour(can, chunk_s, beat_s)
    assert {name: count[name] for name in most if count[name] > most[name]} == {}
