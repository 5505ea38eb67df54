"""Copies of the checkpoint: whole or not at all, cut into parts that stay the same where the content does."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import snapshots as module
from autopilot.agent.shipped.chunks import SMALLEST_PART_BYTES, PartReader, PartWriter
from autopilot.agent.shipped.disk import LINK_FROM_BYTES, keep_copy
from autopilot.agent.shipped.snapshots import Everything, Snapshots, TooMany, check_index, copy_part
from autopilot.agent.shipped.tree import Corrupt, Entry, check_entries, fingerprint, lay_out, links_out, scan

META = {"run_epoch": 1, "n": 0, "step": None, "uploaded": False}


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(str(tmp_path / "snapshots"))


def hashes(record: dict[str, Any]) -> list[str]:
    return [part["sha256"] for part in record["parts"]]


def test_a_directory_comes_back_as_it_was(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "ckpt"
    (source / "deep/empty").mkdir(parents=True)
    (source / "deep/weights").write_bytes(os.urandom(30_000_000))
    (source / "deep/nothing").write_bytes(b"")
    (source / "run.sh").write_text("x")
    (source / "run.sh").chmod(0o755)
    (source / "duplicate").hardlink_to(source / "run.sh")
    (source / "latest").symlink_to("deep/weights")
    saved_at = (source / "deep/weights").stat().st_mtime_ns
    snapshots.take(str(source), META)
    weights = (source / "deep/weights").read_bytes()
    (source / "deep/weights").write_bytes(b"newer")
    (source / "stray").write_text("not in the checkpoint")

    snapshots.restore(snapshots.newest_first()[0], str(source))
    assert (source / "deep/weights").read_bytes() == weights
    assert (source / "deep/weights").stat().st_mtime_ns == saved_at
    assert (source / "latest").read_bytes() == weights
    assert (source / "deep/nothing").read_bytes() == b""
    assert (source / "duplicate").read_text() == "x"
    assert (source / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (source / "deep/empty").is_dir()
    assert not (source / "stray").exists()


def test_links_are_saved_so_that_any_machine_can_restore_them(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "ckpt"
    (source / "step-10").mkdir(parents=True)
    (source / "step-10/weights").write_text("w")
    (source / "latest").symlink_to(source / "step-10")
    (source / "step-10/best").symlink_to(source / "step-10/weights")
    (source / "absent").symlink_to(source / "step-11")
    (source / "data").symlink_to("/datasets/c4")
    (source / "step-10/up").symlink_to("../../elsewhere")
    snapshots.take(str(source), META)
    (record,) = snapshots.newest_first()
    entries = check_entries(snapshots.entries(record))
    assert {entry.name.partition("/")[2]: entry.link for entry in entries if entry.kind == "link"} == {
        "absent": "step-11",
        "latest": "step-10",
        "step-10/best": "weights",
    }
    assert links_out(str(source)) == [str(source / "data"), str(source / "step-10/up")]
    snapshots.restore(record, str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere/latest/best").read_text() == "w"


def index_of(*rows: tuple[str, str, str]) -> list[Entry]:
    return [Entry(name, kind, 0o755, 0, link=link) for name, kind, link in rows]


def test_a_link_may_lead_through_another_if_both_stay_inside() -> None:
    dirs = [("checkpoint", "dir", ""), ("checkpoint/x", "dir", ""), ("checkpoint/x/y", "dir", "")]
    good = index_of(*dirs, ("checkpoint/latest", "link", "x/y"), ("checkpoint/best", "link", "latest/../model"))
    assert check_entries(good) == good
    for link in ("x/y/l/../../../.ssh/id_rsa", "x/y/l/../../home", "../checkpoint/x"):
        with pytest.raises(Corrupt, match="leads elsewhere"):
            check_entries(
                index_of(*dirs, ("checkpoint/x/y/l", "link", "../.."), ("checkpoint/model.bin", "link", link))
            )
    with pytest.raises(Corrupt, match="leads elsewhere"):
        check_entries(index_of(*dirs, ("checkpoint/a", "link", "b"), ("checkpoint/b", "link", "a")))
    for link in ("x/y", ".."):
        with pytest.raises(Corrupt, match="leads elsewhere"):
            check_entries(index_of(("checkpoint", "link", link)))
    with pytest.raises(Corrupt, match="too long"):
        check_entries(index_of(*dirs, ("checkpoint/" + "x/" * 100_000 + "y", "file", "")))


def test_files_behind_a_link_to_a_directory_are_saved_at_its_place(tmp_path: Path, snapshots: Snapshots) -> None:
    pattern = str(tmp_path / "out/**")
    (tmp_path / "out/step-100").mkdir(parents=True)
    (tmp_path / "out/step-100/weights").write_text("w")
    (tmp_path / "out/latest").symlink_to("step-100")
    snapshots.take(pattern, META)
    (record,) = snapshots.newest_first()
    names = [entry.name for entry in check_entries(snapshots.entries(record))]
    assert names == ["checkpoint/latest", "checkpoint/step-100", "checkpoint/step-100/weights"]
    snapshots.restore(record, str(tmp_path / "elsewhere/**"))
    assert (tmp_path / "elsewhere/latest/weights").read_text() == "w"


def test_what_a_pattern_finds_behind_a_link_that_leads_out_is_saved_as_files(
    tmp_path: Path, snapshots: Snapshots
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/weights").write_text("w")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/run").symlink_to(tmp_path / "disk")
    found = [each.entry.name for each in scan(str(tmp_path / "out/**"))]
    assert found == ["checkpoint/run/weights"]
    snapshots.take(str(tmp_path / "out/**"), META)
    snapshots.restore(snapshots.newest_first()[0], str(tmp_path / "elsewhere/**"))
    assert (tmp_path / "elsewhere/run/weights").read_text() == "w"


def test_a_pattern_for_all_beneath_does_not_take_the_directory_itself(tmp_path: Path, snapshots: Snapshots) -> None:
    pattern = str(tmp_path / "out/**")
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/deep/weights").write_text("w")
    snapshots.take(pattern, META)
    (record,) = snapshots.newest_first()
    assert [entry.name for entry in check_entries(snapshots.entries(record))] == [
        "checkpoint/deep",
        "checkpoint/deep/weights",
    ]
    (tmp_path / "out/deep/weights").write_text("newer")
    snapshots.restore(record, pattern)
    assert (tmp_path / "out/deep/weights").read_text() == "w"
    assert os.listdir(tmp_path / "out") == ["deep"]


def test_a_pattern_takes_all_that_matches_and_replaces_all_that_matches(tmp_path: Path, snapshots: Snapshots) -> None:
    pattern = str(tmp_path / "out/checkpoint-*")
    for step in (100, 200):
        (tmp_path / f"out/checkpoint-{step}").mkdir(parents=True)
        (tmp_path / f"out/checkpoint-{step}/model").write_text(f"step {step}")
    (tmp_path / "out/log.txt").write_text("beside it")
    snapshots.take(pattern, META)
    (tmp_path / "out/checkpoint-200/model").write_text("half writ")
    (tmp_path / "out/checkpoint-300").mkdir()

    snapshots.restore(snapshots.newest_first()[0], pattern)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["checkpoint-100", "checkpoint-200", "log.txt"]
    assert (tmp_path / "out/checkpoint-200/model").read_text() == "step 200"
    elsewhere = tmp_path / "new/machine/out"
    snapshots.restore(snapshots.newest_first()[0], str(elsewhere / "checkpoint-*"))
    assert (elsewhere / "checkpoint-100/model").read_text() == "step 100"


def test_what_did_not_change_is_not_copied_again(tmp_path: Path, snapshots: Snapshots) -> None:
    source, judge = tmp_path / "state", Everything()
    assert not snapshots.take(str(source), META, judge)
    source.write_text("one")
    assert snapshots.take(str(source), META, judge)
    assert not snapshots.take(str(source), {**META, "n": 1}, Everything(judge.identities))
    assert [record["n"] for record in snapshots.newest_first()] == [0]
    for n in (1, 2, 3):
        source.write_text(f"state {n}")
        assert snapshots.take(str(source), {**META, "n": n}, Everything(judge.identities))
    assert [record["n"] for record in snapshots.newest_first()] == [3, 2]
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir()) == ["1-2", "1-2.json", "1-3", "1-3.json"]


def test_a_change_in_one_place_changes_one_part(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "ckpt"
    source.mkdir()
    (source / "optimizer").write_bytes(os.urandom(5 * SMALLEST_PART_BYTES))
    for i in range(50):
        (source / f"small-{i}").write_bytes(os.urandom(1000))
    (source / "weights").write_bytes(os.urandom(3 * SMALLEST_PART_BYTES))
    snapshots.take(str(source), META)
    with (source / "optimizer").open("r+b") as file:
        file.seek(2 * SMALLEST_PART_BYTES + 5)
        file.write(b"changed")
    snapshots.take(str(source), {**META, "n": 1})
    new, old = snapshots.newest_first()
    assert len(hashes(new)) == 5 + 1 + 3
    assert sum(a != b for a, b in zip(hashes(new), hashes(old), strict=True)) == 1


def test_files_of_old_are_not_read_again(tmp_path: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "ckpt"
    source.mkdir()
    (source / "optimizer").write_bytes(os.urandom(2 * SMALLEST_PART_BYTES))
    (source / "weights").write_bytes(os.urandom(SMALLEST_PART_BYTES))
    snapshots.take(str(source), META)
    (source / "weights").write_bytes(os.urandom(SMALLEST_PART_BYTES))
    read: list[int] = []

    class Counting(PartReader):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            read.append(len(data))
            return data

    monkeypatch.setattr(module, "PartReader", Counting)
    snapshots.take(str(source), {**META, "n": 1})
    assert sum(read) == SMALLEST_PART_BYTES


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_copied_is_copied_again(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "state"
    stop = threading.Event()

    def rewrite() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            scratch = tmp_path / "state.tmp"
            scratch.write_bytes(f"{n:08}".encode() * 200_000)
            scratch.replace(source)

    source.write_bytes(b"00000000" * 200_000)
    writer = threading.Thread(target=rewrite)
    writer.start()
    for n in range(10):
        with contextlib.suppress(OSError):  # it may never have kept still
            snapshots.take(str(source), {**META, "n": n})
        for record in snapshots.newest_first():
            snapshots.restore(record, str(tmp_path / "back"))
            content = (tmp_path / "back").read_bytes()
            assert content == content[:8] * 200_000
        if n == 3:
            stop.set()
            writer.join()
    assert snapshots.newest_first()


def test_a_directory_that_never_keeps_still_is_no_checkpoint(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "ckpt"
    source.mkdir()
    (source / "large").write_bytes(bytes(20_000_000))
    stop = threading.Event()

    def append() -> None:
        with (source / "log").open("ab", buffering=0) as log:
            while not stop.wait(0.0005):
                log.write(b"line\n")

    writer = threading.Thread(target=append)
    writer.start()
    try:
        with pytest.raises(OSError, match="kept changing"):
            snapshots.take(str(source), META)
    finally:
        stop.set()
        writer.join()
    assert snapshots.newest_first() == []
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_a_large_file_is_linked_until_the_job_writes_into_it(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "state"
    source.write_bytes(b"1" * LINK_FROM_BYTES)
    snapshots.take(str(source), META)
    [first] = snapshots.newest_first()
    copy = Path(snapshots.place(first)) / "checkpoint"
    if not copy.samefile(source):
        pytest.skip("this disk makes clones, which need no links")
    with source.open("r+b") as file:
        file.write(b"2")
    with pytest.raises(Corrupt):
        snapshots.restore(first, str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()
    snapshots.links = False
    snapshots.take(str(source), {**META, "n": 1})
    second = snapshots.newest_first()[0]
    with source.open("r+b") as file:
        file.write(b"3")
    snapshots.restore(second, str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes()[:2] == b"21"


def test_an_incomplete_or_changed_copy_is_not_restored(tmp_path: Path, snapshots: Snapshots) -> None:
    source = tmp_path / "state"
    source.write_text("precious")
    snapshots.take(str(source), META)
    (tmp_path / "snapshots/1-7").mkdir()  # cut off before its record was written
    [record] = snapshots.newest_first()
    copy = Path(snapshots.place(record)) / "checkpoint"
    copy.write_text("preciouS")
    with pytest.raises(Corrupt):
        snapshots.restore(record, str(source))
    copy.unlink()
    with pytest.raises(Corrupt):
        snapshots.restore(record, str(source))
    assert source.read_text() == "precious"


def test_on_a_full_disk_what_the_store_has_makes_room(
    tmp_path: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "state"
    for n in range(2):
        source.write_text(f"state {n}")
        snapshots.take(str(source), {**META, "n": n, "uploaded": True})
    source.write_text("state 2")
    real, full = keep_copy, [True]

    def copy(*args: Any) -> bool:
        if full.pop() if full else False:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(module, "keep_copy", copy)
    snapshots.take(str(source), {**META, "n": 2})
    assert [record["n"] for record in snapshots.newest_first()] == [2, 1]
    full += [True] * 9
    with pytest.raises(
        OSError, match=r"No space left on device: the checkpoint has 0.0 MB and .* MB of the disk are free"
    ):
        snapshots.take(str(source), {**META, "n": 3})
    assert snapshots.newest_first()[0]["n"] == 2
    assert len(full) == 8, "it is said at once: what cannot be had is not tried again and again"


def test_a_fingerprint_sees_a_file_renamed_into_place(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert fingerprint(str(path)) is None
    path.write_text("one")
    before = fingerprint(str(path))
    (tmp_path / "aside").write_text("two")
    os.utime(tmp_path / "aside", ns=(path.stat().st_mtime_ns,) * 2)
    (tmp_path / "aside").replace(path)
    assert fingerprint(str(path)) != before


@pytest.mark.slow
def test_more_files_than_a_checkpoint_can_name_are_refused_before_any_is_copied() -> None:
    entries = [
        Entry(f"checkpoint/{i:06}-of-a-data-set-of-small-files.json", "file", 0o644, 10**18, 9) for i in range(200_000)
    ]
    with pytest.raises(
        TooMany, match=r"there are 200000 files, whose names take \d\d\.\d MB.*16\.8 MB.*pack them into fewer"
    ):
        check_index(entries)
    check_index(entries[:1000])


@pytest.mark.slow
def test_holes_stay_holes(tmp_path: Path, snapshots: Snapshots) -> None:
    """Also in the copy, where it is put back, and where it is laid out from parts; the content is hashed in full."""
    source = tmp_path / "state"
    with source.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(300 << 20)
        file.write(b"data")
    snapshots.links = False
    assert snapshots.take(str(source), META)
    (record,) = snapshots.newest_first()
    assert (Path(snapshots.place(record)) / "checkpoint").stat().st_blocks * 512 < 1 << 20
    snapshots.restore(record, str(tmp_path / "back"), is_verified=True)
    assert (tmp_path / "back").stat().st_blocks * 512 < 1 << 20
    with (tmp_path / "back").open("rb") as file:
        file.seek((300 << 20) - 1)
        assert file.read(6) == b"\0data\0"
    entries = snapshots.entries(record)
    (tmp_path / "laid").mkdir()
    lay_out(entries, str(tmp_path / "laid"))
    part = next(i for i, slices in enumerate(record["slices"]) if slices[0][1] == 296 << 20)
    writer = PartWriter(str(tmp_path / "laid"), entries, record["slices"][part])
    copy_part(snapshots.reader(record, part), writer, record["parts"][part])
    laid = tmp_path / "laid/checkpoint"
    assert laid.stat().st_blocks * 512 < 1 << 20
    with laid.open("r+b") as file:  # as after a part that was not what its manifest says
        file.seek(297 << 20)
        file.write(b"junk")
    writer.restart()
    copy_part(snapshots.reader(record, part), writer, record["parts"][part])
    with laid.open("rb") as file:
        file.seek(297 << 20)
        assert file.read(4) == bytes(4)
