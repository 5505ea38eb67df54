"""The simulated agent answers its orders as a real one does, over the real mailbox."""

from __future__ import annotations

from dataclasses import replace

from autopilot.providers.paper.agent import UNKNOWN_ESTIMATE_S
from tests.unit.providers_paper.paper_mailbox import WORK, PaperMailbox, at


async def test_it_works_checkpoints_and_reports_its_end(mailbox: PaperMailbox) -> None:
    await mailbox.order()
    first = await mailbox.turn(0)
    assert (first.state, first.progress, first.orders_seq_seen) == ("running", 0, 1)
    assert (await mailbox.turn(59)).last_checkpoint is None
    beat = await mailbox.turn(60)
    assert (beat.step, beat.progress, beat.last_checkpoint, beat.next_checkpoint) == (60, 0.1, 0, 1)
    manifest = await mailbox.checkpoint(0)
    assert manifest is not None
    assert (manifest.run_epoch, manifest.step) == (1, 60)
    await mailbox.turn(599)
    assert await mailbox.exit() is None
    await mailbox.order()
    last = await mailbox.turn(615)
    assert (last.state, last.progress, last.step) == ("finished", 1, 600)
    record = await mailbox.exit()
    assert record is not None
    assert (record.run_epoch, record.exit_code) == (1, 0)
    newest = await mailbox.checkpoint(last.last_checkpoint or 0)
    assert newest is not None
    assert newest.step == 600
    sent = (await mailbox.turn(700)).last_checkpoint
    assert sent == last.last_checkpoint


async def test_while_it_waits_it_does_no_work(mailbox: PaperMailbox) -> None:
    await mailbox.order("wait", run_epoch=0)
    assert (await mailbox.turn(0)).state == "waiting"
    assert (await mailbox.turn(300)).progress is None
    await mailbox.order("run")
    await mailbox.turn(315)
    assert (await mailbox.turn(330)).step == 15


async def test_told_to_stop_it_saves_first(mailbox: PaperMailbox) -> None:
    await mailbox.order()
    await mailbox.turn(0)
    await mailbox.order("save_and_stop")
    beat = await mailbox.turn(30)
    assert (beat.saved, beat.state, beat.step, beat.orders_seq_seen) == (True, "saving", 30, 2)
    manifest = await mailbox.checkpoint(0)
    assert manifest is not None
    assert manifest.step == 30
    assert (await mailbox.turn(300)).step == 30


async def test_another_machine_goes_on_from_the_checkpoint_in_its_orders(mailbox: PaperMailbox) -> None:
    await mailbox.order()
    await mailbox.turn(0)
    await mailbox.turn(90)
    manifest = await mailbox.checkpoint(0)
    assert manifest is not None
    other = PaperMailbox(mailbox.store, lease="other")
    await other.order(run_epoch=2, restore=mailbox.ref(manifest))
    assert (await other.turn(200)).step == 90
    assert (await other.turn(300)).step == 190
    await other.agents.close()


async def test_after_a_pause_it_goes_on_from_its_own_disk(mailbox: PaperMailbox) -> None:
    await mailbox.order()
    await mailbox.turn(0)
    await mailbox.turn(60)
    await mailbox.turn(110)
    mailbox.boot(mailbox.memory, 2, 500)
    beat = await mailbox.turn(500)
    assert (beat.boot, beat.step, beat.seq) == (2, 60, 1)
    mailbox.boot(mailbox.memory, 3, 600, keeps_disk=False)
    assert (await mailbox.turn(600)).step == 0


async def test_a_new_run_epoch_starts_over_from_the_newest_checkpoint(mailbox: PaperMailbox) -> None:
    await mailbox.order()
    await mailbox.turn(0)
    await mailbox.turn(60)
    await mailbox.order(run_epoch=2)
    beat = await mailbox.turn(100)
    assert (beat.run_epoch, beat.step) == (2, 60)
    assert mailbox.memory.run_epoch == 2


async def test_only_newer_orders_renew_the_permit(mailbox: PaperMailbox) -> None:
    await mailbox.order(permit_ttl_s=100)
    await mailbox.turn(10)
    assert mailbox.memory.permit_until == at(110)
    await mailbox.turn(50)
    assert mailbox.memory.permit_until == at(110)
    await mailbox.order(permit_ttl_s=100)
    await mailbox.turn(60)
    assert mailbox.memory.permit_until == at(160)


async def test_without_a_checkpoint_path_nothing_is_saved(mailbox: PaperMailbox) -> None:
    await mailbox.order(work=replace(WORK, checkpoint_path="", estimate_s=None))
    await mailbox.turn(0)
    assert (await mailbox.turn(UNKNOWN_ESTIMATE_S / 2)).progress == 0.5
    assert (await mailbox.turn(UNKNOWN_ESTIMATE_S)).state == "finished"
    assert await mailbox.exit() is not None
    assert await mailbox.checkpoint(0) is None


async def test_a_mailbox_that_fails_is_asked_again(mailbox: PaperMailbox) -> None:
    mailbox.memory = await mailbox.agents.turn(mailbox.memory, at(0))
    assert await mailbox.heartbeat() is None
    await mailbox.order()
    assert (await mailbox.turn(15)).state == "running"
