"""What orders tell an agent: how often to save, what the job is given, and from where it goes on."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.agent_state import AgentState
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.lease import LeaseState, Role
from autopilot.engine.checkpoint_retention import Doubt
from autopilot.engine.mailbox import MOST_REJECTED, Mailbox
from autopilot.mailbox.checkpoints import keep_verified
from autopilot.mailbox.keys import heartbeat_key, manifest_key, orders_key, part_key
from autopilot.mailbox.report_shapes import Heartbeat, Manifest, Part
from autopilot.ports.blobs import BlobUnavailable
from tests.builders import START, a_checkpoint, a_job, a_lease, a_spec, no_hosts
from tests.checkpoint_data import a_part, an_index

SECRETS = {"hf": "sentinel-token"}
BEAT = Heartbeat(boot=1, seq=1, run_epoch=1, orders_seq_seen=1, state=AgentState.RUNNING)


def secret(name: str) -> str:
    if name not in SECRETS:
        raise UserError(f"there is no secret named {name!r}")
    return SECRETS[name]


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path, b"k" * 32, "http://store")


@pytest.fixture
def mailbox(blobs: LocalBlobStore) -> Mailbox:
    return Mailbox(blobs, 900, lambda lease: 0.5, secret, AgentUnpacker(), no_hosts())


async def orders(mailbox: Mailbox, blobs: LocalBlobStore, job: Job, beat: Heartbeat = BEAT) -> dict[str, Any] | None:
    lease = job.leases[0]
    await blobs.put(heartbeat_key(job.id, lease.id), beat.to_json())
    await mailbox.read(job, lease, START)
    await mailbox.write_orders(job, lease)
    data = await blobs.get(orders_key(job.id, lease.id))
    body: dict[str, Any] | None = None if data is None else json.loads(data)
    return body


class SlowBlobs(LocalBlobStore):
    """Its first put of orders lasts until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, b"k" * 32, "http://store")
        self.is_put, self.may_end = asyncio.Event(), asyncio.Event()

    async def put(self, key: str, data: bytes) -> None:
        if not self.is_put.is_set():
            self.is_put.set()
            await self.may_end.wait()
        await super().put(key, data)


async def test_orders_that_are_slow_to_write_never_replace_newer_ones(tmp_path: Path) -> None:
    """A command that goes out between two ticks is written with what the tick before it has committed."""
    blobs = SlowBlobs(tmp_path)
    mailbox = Mailbox(blobs, 900, lambda lease: 0.5, secret, AgentUnpacker(), no_hosts())
    older, newer = a_job(a_lease(permit_seq=1)), a_job(a_lease(permit_seq=2, role=Role.SAVE_AND_STOP))
    first = asyncio.create_task(mailbox.write_orders(older, older.leases[0]))
    await blobs.is_put.wait()
    second = asyncio.create_task(mailbox.write_orders(newer, newer.leases[0]))
    await asyncio.wait({second}, timeout=0.2)  # without order it would be done long before
    blobs.may_end.set()
    await asyncio.gather(first, second)
    body = json.loads(await blobs.get(orders_key("job-1", "lease-1")) or b"{}")
    assert (body["seq"], body["role"], body["exec"]) == (2, "save_and_stop", None)


@pytest.mark.parametrize(
    ("spec", "measured", "expected_s"),
    [
        ({"checkpoint_interval": timedelta(minutes=7), "interval_is_fixed": True}, (20.0, 60.0), 420),
        ({}, (None, None), 600),
        ({"max_loss": timedelta(minutes=5)}, (None, None), 300),
        ({}, (20.0, 60.0), round((2 * (20 + 0.05 * 60) * 7200) ** 0.5)),
        ({"max_loss": timedelta(minutes=5)}, (20.0, 60.0), 220),
        ({"deadline": START + timedelta(hours=9)}, (200.0, 60.0), 600),
        ({"deadline": START + timedelta(hours=9)}, (2.0, 60.0), round((2 * (2 + 0.05 * 60) * 7200) ** 0.5)),
        (
            {"checkpoint_interval": timedelta(minutes=2), "interval_is_fixed": True, "max_loss": timedelta(hours=1)},
            (20.0, 60.0),
            120,
        ),
    ],
)
async def test_the_interval_follows_what_was_measured(
    mailbox: Mailbox,
    blobs: LocalBlobStore,
    spec: dict[str, Any],
    measured: tuple[float | None, float | None],
    expected_s: int,
) -> None:
    job = a_job(a_lease(), spec=a_spec(checkpoint_path="ckpt", **spec))
    beat = replace(BEAT, save_s=measured[0], upload_s=measured[1])
    body = await orders(mailbox, blobs, job, beat)
    assert body is not None
    assert body["checkpoint_interval_s"] == expected_s


async def test_the_job_gets_its_secrets_and_one_curve(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    job = a_job(a_lease(), spec=a_spec(secrets=(("HF_TOKEN", "hf"),), env=(("WANDB_RESUME", "must"),)))
    body = await orders(mailbox, blobs, job)
    assert body is not None
    assert body["work"]["env"] == {"WANDB_RUN_ID": job.id, "WANDB_RESUME": "must", "HF_TOKEN": "sentinel-token"}
    assert "sentinel-token" not in repr(job)


async def test_without_a_secret_that_it_names_nothing_is_ordered(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    job = a_job(a_lease(), spec=a_spec(secrets=(("X", "gone"),)))
    assert await orders(mailbox, blobs, job) is None


async def test_it_goes_on_from_the_daemon_s_own_manifest_or_not_at_all(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    lease = a_lease()
    checkpoint = a_checkpoint(lease, 3)
    job = a_job(lease, checkpoint=checkpoint)
    assert await orders(mailbox, blobs, job) is None, "a restart would throw the work away"
    parts = (Part("part-0", 1, "a" * 64), Part("older/ckpt/1/part-5", 1, "b" * 64))
    await keep_verified(blobs, job.id, lease.id, Manifest(1, 3, parts))
    body = await orders(mailbox, blobs, job, replace(BEAT, state=AgentState.RESTORING))
    assert body is not None
    restore = body["restore"]
    assert (restore["lease"], restore["n"], restore["first_part"]) == (lease.id, 3, 0)
    assert f"/jobs/{job.id}/verified/{lease.id}.3.json?" in restore["manifest_url"]
    assert [url.partition("?")[0].rpartition("/jobs/")[2] for url in restore["part_urls"]] == [
        f"{job.id}/{lease.id}/ckpt/3/part-0",
        f"{job.id}/older/ckpt/1/part-5",
    ]


@pytest.mark.parametrize("next_part", [100, 2749])
async def test_a_heartbeat_that_asks_for_parts_gets_a_window_of_them(
    mailbox: Mailbox, blobs: LocalBlobStore, next_part: int
) -> None:
    job = a_job(a_lease())
    beat = replace(BEAT, next_checkpoint=4, next_part=next_part, parts_wanted=1000)
    body = await orders(mailbox, blobs, job, beat)
    assert body is not None
    first, *others = body["put_urls"]["ckpt"]
    assert (first["n"], first["first_part"], len(first["part_urls"])) == (4, next_part, 264)
    assert f"/ckpt/4/part-{next_part}?" in first["part_urls"][0]
    assert {(slot["first_part"], len(slot["part_urls"])) for slot in others} == {(0, 8)}
    assert len(json.dumps(body)) < 1_000_000


@pytest.mark.parametrize(
    ("whole_parts", "slots", "whole", "other"),
    [(0, 8, 8, 8), (2, 16, 4, 4), (20, 16, 27, 8), (100, 10, 127, 8), (256, 10, 264, 8), (2000, 10, 264, 8)],
)
async def test_the_last_slots_have_addresses_for_a_whole_checkpoint_and_orders_stay_small(
    mailbox: Mailbox, blobs: LocalBlobStore, whole_parts: int, slots: int, whole: int, other: int
) -> None:
    blobs.base_url = "http://" + "long-address." * 60  # as long as the longest that a store signs
    body = await orders(mailbox, blobs, a_job(a_lease()), replace(BEAT, next_checkpoint=7, whole_parts=whole_parts))
    assert body is not None
    given = body["put_urls"]["ckpt"]
    assert [slot["n"] for slot in given] == list(range(7, 7 + slots))
    assert {slot["first_part"] for slot in given} == {0}
    counts = [len(slot["part_urls"]) for slot in given]
    assert counts == [whole, *[other] * (slots - 3), whole, whole]
    assert len(json.dumps(body)) < 1_000_000


@pytest.mark.parametrize(("permit_s", "valid_s"), [(900, 3600), (8 * 3600, 8 * 3600 + 1800), (30 * 86_400, 7 * 86_400)])
async def test_addresses_live_as_long_as_the_permit(blobs: LocalBlobStore, permit_s: int, valid_s: int) -> None:
    mailbox = Mailbox(blobs, permit_s, lambda lease: 0.5, secret, AgentUnpacker(), no_hosts())
    body = await orders(mailbox, blobs, a_job(a_lease()))
    assert body is not None
    put = body["put_urls"]
    urls = [put["heartbeat"], put["log"][0]["url"], put["ckpt"][-1]["manifest_url"], put["ckpt"][-1]["part_urls"][-1]]
    for url in urls:
        expires = int(url.partition("expires=")[2].partition("&")[0])
        assert expires - time.time() == pytest.approx(valid_s, abs=60)


async def test_a_machine_begins_only_once_it_is_known_which_one_it_is(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    known = a_lease(role=Role.RUN)
    unknown = replace(known, instance_id=None, state=LeaseState.INTENT)
    before = await orders(mailbox, blobs, a_job(unknown))
    assert before is not None
    assert (before["role"], before["instance"]) == ("wait", "")
    after = await orders(mailbox, blobs, a_job(known))
    assert after is not None
    assert (after["role"], after["instance"]) == ("run", known.instance_id)


async def test_a_machine_that_is_not_wanted_leaves_whether_it_is_known_or_not(
    mailbox: Mailbox, blobs: LocalBlobStore
) -> None:
    unknown = a_lease(role=Role.LEAVE, instance_id=None, state=LeaseState.INTENT)
    body = await orders(mailbox, blobs, a_job(unknown))
    assert body is not None
    assert body["role"] == "leave"


@pytest.mark.parametrize(("state", "doubted"), [("restoring", True), ("running", False)])
async def test_a_machine_at_work_casts_no_doubt(
    mailbox: Mailbox, blobs: LocalBlobStore, state: Any, doubted: bool
) -> None:
    lease = a_lease()
    job = a_job(lease, checkpoint=a_checkpoint(lease, 3))
    await blobs.put(heartbeat_key(job.id, lease.id), replace(BEAT, state=state, restore_failed=True).to_json())
    await mailbox.read(job, lease, START)
    assert mailbox.doubts([job]) == ((Doubt(a_checkpoint(lease, 3), lease.id, lease.machine_id),) if doubted else ())


async def test_orders_go_on_from_what_the_agent_has_seen_if_the_ledger_is_older(
    mailbox: Mailbox, blobs: LocalBlobStore
) -> None:
    lease = a_lease(permit_seq=5)
    assert mailbox.newest_seq(lease) == 5
    for seen, newest in ((3, 5), (90, 90), (10**9, 5)):
        await blobs.put(heartbeat_key("job-1", lease.id), replace(BEAT, orders_seq_seen=seen).to_json())
        await mailbox.read(a_job(lease), lease, START)
        assert mailbox.newest_seq(lease) == newest


async def test_of_a_machine_whose_checkpoints_are_never_whole_no_more_are_read(
    mailbox: Mailbox, blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them is at our cost."""
    lease = a_lease(run_epoch=1)
    job, read = a_job(lease, run_epoch=1), []
    index = an_index("", 5)
    parts = (a_part(0, index), Part("part-1", 5, "0" * 64))
    for number in range(MOST_REJECTED + 5):
        await blobs.put(part_key(job.id, lease.id, number, 0), index)
        await blobs.put(part_key(job.id, lease.id, number, 1), b"wrong")
        await blobs.put(manifest_key(job.id, lease.id, number), Manifest(1, number, parts).to_json())
    digest = blobs.sha256

    async def counted(key: str) -> str | None:
        nonlocal read
        read += [key] if key.endswith("part-1") else []
        return await digest(key)

    monkeypatch.setattr(blobs, "sha256", counted)
    await mailbox.read(job, lease, START)
    assert len(read) == MOST_REJECTED


async def test_orders_are_deleted_as_soon_as_their_lease_is_over(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    """They hold the job's secrets."""
    lease = a_lease()
    spec = a_spec(secrets=(("HF_TOKEN", "hf"),))
    assert await orders(mailbox, blobs, a_job(lease, spec=spec)) is not None
    await mailbox.admit([a_job(replace(lease, state=LeaseState.GONE), spec=spec)])
    assert await blobs.get(orders_key("job-1", lease.id)) is None


async def test_so_are_those_of_a_lease_that_a_call_has_ended(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    """The next tick does not see it any more."""
    lease = a_lease()
    assert await orders(mailbox, blobs, a_job(lease)) is not None
    mailbox.forget(frozenset(), frozenset())
    await mailbox.admit([])
    assert await blobs.get(orders_key("job-1", lease.id)) is None


async def test_what_cannot_be_deleted_now_is_deleted_later(
    mailbox: Mailbox, blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = a_lease()
    assert await orders(mailbox, blobs, a_job(lease)) is not None

    async def fail(keys: object) -> None:
        raise BlobUnavailable("503")

    with monkeypatch.context() as patch:
        patch.setattr(blobs, "delete", fail)
        await mailbox.admit([a_job(replace(lease, state=LeaseState.GONE))])
    await mailbox.admit([])
    assert await blobs.get(orders_key("job-1", lease.id)) is None


async def test_who_must_leave_gets_no_secrets(mailbox: Mailbox, blobs: LocalBlobStore) -> None:
    job = a_job(a_lease(role=Role.LEAVE), spec=a_spec(secrets=(("HF_TOKEN", "hf"),), env=(("A", "b"),)))
    body = await orders(mailbox, blobs, job)
    assert body is not None
    assert (body["role"], body["work"]["env"]) == ("leave", {})
