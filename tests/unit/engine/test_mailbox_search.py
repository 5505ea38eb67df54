"""A look for checkpoints takes longer than a tick may, and the run may end while it lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain import events as e
from autopilot.domain.agent_state import AgentState
from autopilot.engine import mailbox as module
from autopilot.engine.mailbox import Mail, Mailbox, mail_events
from autopilot.mailbox.keys import exit_key, heartbeat_key, manifest_key, part_key
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest
from autopilot.mailbox.wire import EXIT_HERE
from tests.builders import START, a_job, a_lease, no_hosts
from tests.checkpoint_data import a_part, an_index
from tests.patience import PATIENCE_S


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
    beat = Heartbeat(boot=1, seq=1, run_epoch=1, orders_seq_seen=1, state=AgentState.RUNNING, last_checkpoint=0)
    await store.put(heartbeat_key(job.id, lease.id), beat.to_json())
    mailbox = Mailbox(store, 900, lambda held: 0.5, lambda name: "", AgentUnpacker(), no_hosts())

    assert (await mailbox.read(job, lease, START)).exit is None, "a look is under way"
    await store.put(exit_key(job.id, lease.id), ExitRecord(run_epoch=1, exit_code=0).to_json())
    assert (await mailbox.read(job, lease, START)).exit is None
    store.answers.set()
    monkeypatch.setattr(module, "SEARCH_WAIT_REAL_S", PATIENCE_S)
    assert (await mailbox.read(job, lease, START)).exit is None, "what it found says nothing of the last checkpoint"
    assert (await mailbox.read(job, lease, START)).exit is not None


async def test_no_look_at_the_end_of_the_first_run_counts_for_the_second(tmp_path: Path) -> None:
    """Both end between two ticks: nothing was looked for while the second one ran."""
    store = LocalBlobStore(tmp_path, b"k" * 32, "http://store")
    first, second = a_lease(run_epoch=1), a_lease(run_epoch=2)
    await store.put(exit_key("job-1", first.id), ExitRecord(run_epoch=1, exit_code=1).to_json())
    mailbox = Mailbox(store, 900, lambda held: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    assert (await mailbox.read(a_job(first), first, START)).exit is not None
    await _put_checkpoint(store, "job-1", second.id, number=0, run_epoch=2)
    await store.put(exit_key("job-1", second.id), ExitRecord(run_epoch=2, exit_code=0).to_json())
    mail = await mailbox.read(a_job(second), second, START)
    assert mail.checkpoint is not None
    assert mail.exit is None, "its last checkpoint comes first"
    assert (await mailbox.read(a_job(second, checkpoint=mail.checkpoint), second, START)).exit is not None


async def test_the_last_save_of_a_machine_whose_last_words_are_lost_is_found(tmp_path: Path) -> None:
    """It has left out a slot, and no heartbeat says which it took: the daemon that begins looks at all that it gave."""
    store = LocalBlobStore(tmp_path, b"k" * 32, "http://store")
    lease = a_lease(run_epoch=1)
    job = a_job(lease, run_epoch=1)
    beat = Heartbeat(boot=1, seq=1, run_epoch=1, orders_seq_seen=1, state=AgentState.RUNNING, last_checkpoint=3)
    await store.put(heartbeat_key(job.id, lease.id), beat.to_json())
    for number in (3, 9):
        await _put_checkpoint(store, job.id, lease.id, number, run_epoch=1)
    mailbox = Mailbox(store, 900, lambda held: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    mail = await mailbox.read(job, lease, START)
    assert mail.checkpoint is not None
    assert mail.checkpoint.number == 9


async def test_an_end_in_the_heartbeat_counts_and_nothing_else_is_read(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path, b"k" * 32, "http://store")
    lease = a_lease(run_epoch=1)
    job, ended = a_job(lease, run_epoch=1), ExitRecord(run_epoch=1, exit_code=3, reason="exited")
    beat = Heartbeat(1, 1, 1, 1, AgentState.FINISHED, can=(EXIT_HERE,), exit=ended)
    await store.put(heartbeat_key(job.id, lease.id), beat.to_json())
    await store.put(exit_key(job.id, lease.id), ExitRecord(run_epoch=1, exit_code=0).to_json())
    mailbox = Mailbox(store, 900, lambda held: 0.5, lambda name: "", AgentUnpacker(), no_hosts())
    assert (await mailbox.read(job, lease, START)).exit == ended


async def _put_checkpoint(store: LocalBlobStore, job_id: str, lease_id: str, number: int, run_epoch: int) -> None:
    contents = (an_index("model", 5), b"model")
    for i, content in enumerate(contents):
        await store.put(part_key(job_id, lease_id, number, i), content)
    manifest = Manifest(run_epoch, number, tuple(a_part(i, content) for i, content in enumerate(contents)))
    await store.put(manifest_key(job_id, lease_id, number), manifest.to_json())


@pytest.mark.parametrize(
    ("state", "run_epoch", "told"),
    [
        ("finished", 1, ("waiting", None, None)),
        ("running", 1, ("waiting", None, None)),
        ("saving", 1, ("waiting", None, None)),
        ("setting_up", 1, ("setting_up", 7, "0.5")),
        ("left", 1, ("left", 7, "0.5")),
        ("running", 2, ("running", 7, "0.5")),
    ],
)
def test_what_is_said_of_the_run_before_is_no_word_about_the_one_that_is_ordered(
    state: str, run_epoch: int, told: tuple[str, int | None, str | None]
) -> None:
    lease = a_lease(run_epoch=2)
    beat = Heartbeat(
        boot=1,
        seq=1,
        run_epoch=run_epoch,
        orders_seq_seen=1,
        state=AgentState(state),
        step=7,
        progress=0.5,
        can=("run_again",),
    )
    job = a_job(lease)
    (seen,) = mail_events(job, job, lease, Mail(beat), START)
    assert isinstance(seen, e.HeartbeatSeen)
    progress = None if seen.progress is None else str(seen.progress)
    assert (seen.agent_state, seen.step, progress) == told
    assert seen.can_run_again
