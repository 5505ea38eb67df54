"""Checkpoints from a machine's disk to a real S3 server and back, despite faults on the way."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from autopilot.agent.shipped.chunks import SMALLEST_PART_BYTES
from autopilot.agent.shipped.transfer import Abandoned
from autopilot.agent.shipped.tree import Corrupt
from autopilot.mailbox import orders
from autopilot.mailbox.checkpoints import kept_manifest
from tests.integration.s3.keepers import JOB, Machine, content, until
from tests.s3_server import BUCKET, S3Server
from tests.variants import first_of

PART = SMALLEST_PART_BYTES


def part_keys(s3: S3Server) -> list[str]:
    return [key for key in s3.objects("jobs") if "/part-" in key]


@pytest.fixture
def machine(s3: S3Server, tmp_path: Path) -> Machine:
    machine = Machine(s3.store(), tmp_path / "disk", "a")
    machine.files.mkdir()
    (machine.files / "optimizer").write_bytes(os.urandom(4 * PART))
    (machine.files / "weights").write_bytes(os.urandom(PART + 12_345))
    (machine.files / "state.json").write_text('{"step": 1}')
    return machine


@pytest.fixture
def another(s3: S3Server, tmp_path: Path) -> Callable[[str], Machine]:
    return lambda lease: Machine(s3.store(), tmp_path / f"disk-{lease}", lease)


@pytest.mark.slow
async def test_what_did_not_change_is_not_sent_again(s3: S3Server, machine: Machine) -> None:
    whole = sum(len(data) for data in content(machine.files).values())
    first = await machine.checkpoint()
    assert whole < first < whole * 1.01
    assert await machine.verify() is not None
    (machine.files / "state.json").write_text('{"step": 2}')
    second = await machine.checkpoint()
    assert second < 10_000
    manifest = await machine.verify()
    assert manifest is not None
    assert manifest.size > whole
    assert len(part_keys(s3)) == len(manifest.parts) + 2


@pytest.mark.slow
async def test_another_machine_restores_it_and_sends_only_its_own_changes(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    await machine.checkpoint()
    await machine.verify()
    other = another("b")
    other.newest, other.run_epoch = machine.newest, 2
    await other.restore()
    assert content(other.files) == content(machine.files)
    with (other.files / "weights").open("r+b") as file:
        file.write(b"trained on")
    assert await other.checkpoint() < 1.1 * PART
    assert await other.verify() is not None
    third = another("c")
    third.newest = other.newest
    await third.restore()
    assert content(third.files) == content(other.files)
    # The machine that prefetched an older one fetches what is new.
    machine.newest = other.newest
    seen = len(s3.trouble.seen)
    shutil.rmtree(machine.files)
    await machine.restore()
    fetched = [path for method, path, _ in s3.trouble.seen[seen:] if method == "GET" and "part-" in path]
    assert len(fetched) == 2
    assert content(machine.files) == content(other.files)


@pytest.mark.slow
async def test_a_checkpoint_larger_than_one_window_of_urls(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "PARTS_AT_ONCE", 1)
    monkeypatch.setattr(orders, "PARTS_IN_WINDOW", 2)
    await machine.checkpoint()
    assert await machine.verify() is not None
    other = another("b")
    other.newest = machine.newest
    await other.restore()
    assert content(other.files) == content(machine.files)


@pytest.mark.slow
async def test_cut_connections_and_passing_refusals_are_overcome(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    s3.trouble.only = "part-"
    s3.trouble.cut_uploads, s3.trouble.refuse = 1, {500: 1, 503: 1}
    await machine.checkpoint()
    assert await machine.verify() is not None
    s3.trouble.cut_downloads, s3.trouble.refuse = 1, {500: 1, 503: 1}
    other = another("b")
    other.newest = machine.newest
    await other.restore()
    assert s3.trouble.cut_downloads == s3.trouble.cut_uploads == 0
    assert content(other.files) == content(machine.files)


@pytest.mark.slow
async def test_expired_urls_are_replaced_by_those_of_newer_orders(
    s3: S3Server, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "URL_VALID_FOR", timedelta(seconds=1))
    monkeypatch.setattr(orders, "BEYOND_PERMIT", timedelta(seconds=-900))
    machine.renew()
    await asyncio.sleep(2.1)  # the server counts whole seconds
    checkpoint = asyncio.create_task(asyncio.to_thread(machine.keeper.checkpoint, str(machine.files), 1, None))
    await until(lambda: any(status >= 400 for _, _, status in s3.trouble.seen))
    monkeypatch.setattr(orders, "URL_VALID_FOR", timedelta(hours=1))
    async with machine.in_orders():
        await checkpoint
    assert await machine.verify() is not None


@pytest.mark.slow
async def test_a_full_store_is_said_and_what_was_sent_is_not_sent_again(s3: S3Server, machine: Machine) -> None:
    machine.renew()
    s3.trouble.only, s3.trouble.refuse = "part-4", {507: 1000}
    with pytest.raises(OSError, match="507"):
        await machine.checkpoint()
    assert not [key for key in s3.objects("jobs") if key.endswith("manifest.json")]
    sent = machine.web.bytes_sent
    assert sent > 3 * PART
    machine.reboot()
    s3.trouble.refuse = {}
    assert await machine.checkpoint() < 7 * PART - sent
    assert await machine.verify() is not None


@pytest.mark.slow
async def test_killed_at_any_request_the_next_boot_completes_it(s3: S3Server, machine: Machine) -> None:
    """A machine that dies sends nothing more: here the store takes nothing more from it."""

    def is_cut(seen: int, checkpoint: asyncio.Task[int]) -> bool:
        return len(s3.trouble.seen) >= seen or checkpoint.done()

    for answered in range(0, 8, 2):
        machine.reboot()
        (machine.files / "weights").write_bytes(os.urandom(PART))
        (machine.files / "state.json").write_text(f'{{"step": {answered}}}')
        expected, seen = content(machine.files), len(s3.trouble.seen)
        cut = asyncio.create_task(machine.checkpoint())
        await until(partial(is_cut, seen + answered, cut))
        s3.trouble.refuse = {500: 1000}
        with contextlib.suppress(OSError):  # the last one may be through by now
            await cut
        s3.trouble.refuse = {}
        machine.reboot()
        await machine.checkpoint()
        manifest = await machine.verify()
        assert manifest is not None
        shutil.rmtree(machine.files)
        machine.reboot()
        await machine.restore()
        assert content(machine.files) == expected


@pytest.mark.slow
async def test_an_abandoned_upload_is_the_base_of_the_next(s3: S3Server, machine: Machine) -> None:
    s3.trouble.bytes_per_s = 40_000_000
    upload = asyncio.create_task(machine.checkpoint())
    await until(lambda: len(part_keys(s3)) >= 3)
    machine.keeper.abandon()
    with pytest.raises(Abandoned):
        await upload
    (machine.files / "state.json").write_text('{"step": 2}')
    sent = machine.web.bytes_sent
    assert sent > 2 * PART
    assert await machine.checkpoint() < 6 * PART - sent
    manifest = await machine.verify()
    assert manifest is not None
    assert len({key for part in manifest.parts for key in [part.key]}) == len(manifest.parts)


async def with_a_download_cut_off(s3: S3Server, machine: Machine, another: Callable[[str], Machine]) -> Machine:
    """A second machine that has fetched the first one's checkpoint but for one part, which is refused."""
    await machine.checkpoint()
    await machine.verify()
    other = another("b")
    other.newest = machine.newest
    s3.trouble.only, s3.trouble.refuse = "part-5", {500: 1000}
    with pytest.raises(OSError, match="500"):
        await other.restore()
    return other


@pytest.mark.slow
async def test_a_download_goes_on_where_it_was_cut_off(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    other = await with_a_download_cut_off(s3, machine, another)
    assert not other.files.exists()
    seen = len(s3.trouble.seen)
    s3.trouble.refuse = {}
    other.reboot()
    await other.restore()
    fetched = [path for method, path, status in s3.trouble.seen[seen:] if method == "GET" and "part-" in path]
    assert len(fetched) < len(part_keys(s3))
    assert content(other.files) == content(machine.files)


@pytest.mark.slow
async def test_holes_that_a_crash_left_in_a_download_are_found(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    """The note that a part is here may outlive a power cut that its bytes did not."""
    other = await with_a_download_cut_off(s3, machine, another)
    s3.trouble.refuse = {}
    for file in (other.disk / "snapshots/fetching").rglob("*"):
        if file.is_file():
            file.write_bytes(bytes(file.stat().st_size))
    other.reboot()
    with pytest.raises(Corrupt):
        await other.restore()
    await other.restore()
    assert content(other.files) == content(machine.files)


@pytest.mark.parametrize("harm", first_of(("wrong byte", "truncated", "longer", "gone")))
async def test_a_harmed_part_is_no_checkpoint_and_never_named_again(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine], harm: str
) -> None:
    await machine.checkpoint()
    before = await machine.verify()
    (machine.files / "weights").write_bytes(os.urandom(PART))
    await machine.checkpoint()
    [key] = [key for key in part_keys(s3) if "/ckpt/1/" in key and (s3.root / BUCKET / key).stat().st_size == PART]
    data = await s3.store().get(key)
    assert data is not None
    if harm == "gone":
        await s3.store().delete([key])
    else:
        changed = {"truncated": data[:-1], "wrong byte": data[:-1] + b"!", "longer": data + b"!"}[harm]
        await s3.store().put(key, changed)
    assert await machine.verify() is None
    assert machine.newest == ("a", before)
    (machine.files / "state.json").write_text('{"step": 3}')
    await machine.checkpoint()
    assert await machine.verify() is not None
    other = another("b")
    other.newest = machine.newest
    await other.restore()
    assert content(other.files) == content(machine.files)


@pytest.mark.slow
async def test_a_part_harmed_after_it_was_verified_is_refused_at_restore(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    await machine.checkpoint()
    await machine.verify()
    largest = max(part_keys(s3), key=lambda key: (s3.root / BUCKET / key).stat().st_size)
    data = await s3.store().get(largest)
    assert data is not None
    await s3.store().put(largest, data[:-1] + bytes([data[-1] ^ 1]))
    other = another("b")
    other.newest = machine.newest
    with pytest.raises(Corrupt, match="not what its manifest says"):
        await other.restore()
    assert not other.files.exists()


@pytest.mark.slow
async def test_a_manifest_written_over_after_its_verification_changes_nothing(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    await machine.checkpoint()
    await machine.verify()
    kept = await kept_manifest(s3.store(), JOB, "a", 0)
    assert kept is not None
    await s3.store().put(
        f"jobs/{JOB}/a/ckpt/0/manifest.json", dataclasses.replace(kept, parts=kept.parts[:1]).to_json()
    )
    other = another("b")
    other.newest = machine.newest
    await other.restore()
    assert content(other.files) == content(machine.files)


@pytest.mark.slow
async def test_a_job_that_writes_into_its_saved_files_is_copied_from_then_on(s3: S3Server, machine: Machine) -> None:
    """Large files are linked first, and what was linked changes with the file."""
    (machine.files / "optimizer").write_bytes(os.urandom(5 * PART))
    s3.trouble.bytes_per_s = 30_000_000
    upload = asyncio.create_task(machine.checkpoint())
    await until(lambda: part_keys(s3))
    with (machine.files / "optimizer").open("r+b") as file:
        for at in range(5):
            file.seek(at * PART)
            file.write(b"in place")
    try:
        await upload
    except OSError as error:
        assert "wrote into a file" in str(error)  # noqa: PT017 -- on a disk that makes clones all is well
        assert not machine.keeper.snapshots.links
    s3.trouble.bytes_per_s = 0
    await machine.checkpoint()
    manifest = await machine.verify()
    assert manifest is not None
    assert manifest.number == machine.memory["last_ckpt_n"]


@pytest.mark.slow
async def test_a_disk_that_has_forgotten_writes_over_nothing_that_is_verified(
    s3: S3Server, machine: Machine, another: Callable[[str], Machine]
) -> None:
    await machine.checkpoint()
    manifest = await machine.verify()
    blank = another("a")
    blank.newest = machine.newest
    await blank.restore()
    (blank.files / "state.json").write_text('{"step": 9}')
    await blank.checkpoint()
    assert blank.memory["last_ckpt_n"] == 1
    assert manifest is not None
    assert await kept_manifest(s3.store(), JOB, "a", 0) is not None
    assert await blank.verify() is not None
