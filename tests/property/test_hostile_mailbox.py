"""A machine may write anything where its agent writes: the daemon reads it without a fault, and believes what it may.

Each case puts hostile objects into a real store, lets the engine read, apply and answer them, and looks at what came
of it: the job's own rules hold, only this lease's objects and the daemon's own were touched, and the orders that go
back can be read by an agent.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot.agent.shipped.orders import parse_orders
from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import ZERO, to_nano
from autopilot.domain.params import Params
from autopilot.engine.event_log import EventLog
from autopilot.engine.mailbox import Mailbox, mail_events
from autopilot.mailbox.keys import exit_key, heartbeat_key, manifest_key, orders_key, part_key
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot.policy.decide import decide
from autopilot.ports.blobs import MAX_READ_BYTES
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import a_job, a_lease, a_market, a_spec, at, no_hosts

NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, -1, -(2**63), 10**30, 1e308, -1e308, 5e-324]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(["../../etc/passwd", "/etc/passwd", "part-0/../x", "a\0b", "\x1b[2J", "\ud800", "１", "x" * 5000]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)
RECOGNISED = {"form": "bar", "step": 45, "fraction": 0.45, "confidence": 0.9, "left_s": 660.0, "seen": 0.2}
HEARTBEAT: dict[str, Any] = {
    **{"v": 1, "boot": 1, "seq": 5, "run_epoch": 1, "orders_seq_seen": 1, "state": "running", "saved": False},
    **{"step": 7, "progress": 0.5, "last_ckpt_n": 0, "next_ckpt_n": 1, "next_part": 0, "parts_wanted": 1},
    **{"save_s": 1.0, "upload_s": 2.0, "restore_part": 0, "restore_failed": False, "next_log_n": 3},
    **{"bytes_sent": 12345, "error": ""},
    "readings": {
        "gpus": [{"busy": 0.5, "memory_used": 1, "memory_total": 2}],
        **{"load": 3.1, "still_s": 5.0, "recognised": RECOGNISED},
    },
}
EXIT: dict[str, Any] = {
    **{"v": 1, "run_epoch": 1, "exit_code": 0, "signal": None, "reason": "done"},
    "finished_at": "2026-01-01T00:00:00Z",
}
PART = {"key": "part-0", "size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
MANIFEST: dict[str, Any] = {"v": 1, "run_epoch": 1, "n": 0, "step": 7, "parts": [PART]}


@st.composite
def spoilt(draw: st.DrawFn, good: dict[str, Any]) -> bytes:
    """A good object with some fields gone, strange or new; or bytes that are no object at all."""
    how = draw(st.sampled_from(["fields", "fields", "fields", "bytes", "cut", "deep", "large", "good"]))
    body = dict(good)
    if how == "fields":
        for name in draw(st.lists(st.sampled_from(sorted(good)), min_size=1, max_size=4)):
            if draw(st.booleans()):
                body[name] = draw(NASTY)
            else:
                body.pop(name, None)
        body |= draw(st.dictionaries(st.text(max_size=8), NASTY, max_size=2))
    text = json.dumps(body).encode()
    if how == "bytes":
        return draw(st.binary(max_size=400))
    if how == "cut":
        return text[: draw(st.integers(0, len(text)))]
    if how == "deep":
        return b'{"v": 1, "parts": ' + b"[" * 100_000
    if how == "large":
        return text[:-1] + b', "more": "' + b"x" * draw(st.sampled_from([MAX_OBJECT_BYTES, MAX_READ_BYTES])) + b'"}'
    return text


@st.composite
def manifests(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return draw(spoilt(MANIFEST))
    keys = st.one_of(
        st.sampled_from(
            [
                *("part-0", "part-1", "part-0/x", "../orders.json", "lease-9/ckpt/0/part-0", "verified/x", "part--1"),
                *("lease-1/ckpt/0/part-0", "./part-0", "lease-1/ckpt/../../x/part-0", "part-0\n", "PART-0", ""),
            ]
        ),
        st.text(max_size=30),
    )
    part = st.fixed_dictionaries({"key": keys, "size": st.just(3) | NASTY, "sha256": st.just(PART["sha256"]) | NASTY})
    return json.dumps(MANIFEST | {"parts": draw(st.lists(part, max_size=4))}).encode()


class Watched(LocalBlobStore):
    """Remembers what was asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, b"k" * 32, "http://store")
        self.touched: set[str] = set()

    def path(self, key: str) -> Path:
        self.touched.add(key)
        return super().path(key)

    async def delete(self, keys: Collection[str]) -> None:
        raise AssertionError("nothing that a machine writes may make the daemon delete")


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


def a_running_job() -> Job:
    spec = a_spec(checkpoint_path="ckpt", outputs=("out",), budget=Decimal(5))
    return a_job(a_lease(), spec=spec, status=JobStatus.RUNNING)


async def one_tick(blobs: Watched, mailbox: Mailbox, job: Job, now: Any) -> Job:
    lease = job.leases[0]
    mail = await mailbox.read(job, lease, now)
    event_log = EventLog(job)
    for event in mail_events(job, job, lease, mail, now):
        event_log.apply(event)
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.jobs.save(event_log.job)
        await uow.events.add(event_log.records)
    decide(event_log.job, a_market(), now, Params())
    await mailbox.write_orders(event_log.job, event_log.job.leases[0])
    return event_log.job


def assert_sane(job: Job, lease: Lease, blobs: Watched) -> None:
    assert lease.state is LeaseState.ACTIVE
    assert job.progress is None or 0 <= job.progress <= 1
    assert 0 <= lease.agent.sent_bytes <= 2**53
    assert all(to_nano(amount) >= 0 for amount in (job.spent, lease.billing.reserved))
    assert job.spent == ZERO
    if job.checkpoint is not None:
        # The only bytes that are there are those of the good part.
        assert job.checkpoint.size_bytes % 3 == 0
        assert job.checkpoint.run_epoch == 1
    assert all(key.startswith(f"jobs/{job.id}/") for key in blobs.touched), "another job's objects were touched"
    orders = (blobs.root / orders_key(job.id, lease.id)).read_bytes()
    assert len(orders) <= MAX_OBJECT_BYTES
    read = parse_orders(orders)
    assert read is not None, "orders that no agent can read"
    assert read["checkpoint_interval_s"] >= 1


@settings(max_examples=120, deadline=None)
@given(
    heartbeats=st.lists(spoilt(HEARTBEAT), min_size=1, max_size=3),
    exits=st.none() | spoilt(EXIT),
    written=st.lists(manifests(), max_size=3),
)
def test_a_machine_may_write_anything(
    scratch: Path, heartbeats: list[bytes], exits: bytes | None, written: list[bytes]
) -> None:
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        asyncio.run(story(Path(name), heartbeats, exits, written))


async def story(root: Path, heartbeats: list[bytes], exits: bytes | None, written: list[bytes]) -> None:
    blobs = Watched(root)
    mailbox = Mailbox(blobs, 900, lambda lease: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    job = a_running_job()
    lease = job.leases[0]
    await blobs.put(part_key(job.id, lease.id, 0, 0), b"abc")
    for n, manifest in enumerate(written):
        await blobs.put(manifest_key(job.id, lease.id, n), manifest)
    for i, heartbeat in enumerate(heartbeats):
        await blobs.put(heartbeat_key(job.id, lease.id), heartbeat)
        if exits is not None and i:
            await blobs.put(exit_key(job.id, lease.id), exits)
        job = await one_tick(blobs, mailbox, job, at(15 * (i + 1)))
        if job.leases and not job.status.is_final and job.leases[0].is_wanted:
            assert_sane(job, job.leases[0], blobs)


async def test_a_claimed_checkpoint_larger_than_the_disk_is_not_even_read(tmp_path: Path) -> None:
    blobs, job = Watched(tmp_path), a_running_job()
    lease = job.leases[0]
    mailbox = Mailbox(blobs, 900, lambda lease: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    part = part_key(job.id, lease.id, 0, 0)
    path = tmp_path / part
    path.parent.mkdir(parents=True)
    size = int(lease.disk_gb * 3_000_000_000)
    with path.open("wb") as file:
        file.truncate(size)  # takes no room
    claim = MANIFEST | {"parts": [PART | {"size": size}]}
    await blobs.put(manifest_key(job.id, lease.id, 0), json.dumps(claim).encode())
    await blobs.put(heartbeat_key(job.id, lease.id), json.dumps(HEARTBEAT).encode())
    assert (await one_tick(blobs, mailbox, job, at(15))).checkpoint is None
    assert part not in blobs.touched


async def test_no_more_of_an_object_is_read_than_any_may_have(tmp_path: Path) -> None:
    blobs = Watched(tmp_path)
    path = tmp_path / "jobs/a/b/heartbeat.json"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(50 * 2**30)
    data = await blobs.get("jobs/a/b/heartbeat.json")
    assert data is not None
    assert len(data) == MAX_READ_BYTES
