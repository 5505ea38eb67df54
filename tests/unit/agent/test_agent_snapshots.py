"""Copies of the checkpoint: whole or not at all, and nothing in a stranger's archive leads elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
from pathlib import Path

import pytest

from autopilot.agent.agent import Corrupt, Snapshots, extract, fingerprint

META = {"run_epoch": 1, "n": 0, "step": None, "uploaded": False}


def test_a_directory_comes_back_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "ckpt"
    (source / "deep/empty").mkdir(parents=True)
    (source / "deep/weights").write_bytes(os.urandom(3_000_000))
    (source / "run.sh").write_text("x")
    (source / "run.sh").chmod(0o755)
    (source / "twin").hardlink_to(source / "run.sh")
    (source / "latest").symlink_to("deep/weights")
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    snapshots.take(str(source), META, None)
    weights = (source / "deep/weights").read_bytes()
    (source / "deep/weights").write_bytes(b"newer")
    (source / "stray").write_text("not in the checkpoint")

    snapshots.unpack(snapshots.newest_first()[0], str(source))
    assert (source / "deep/weights").read_bytes() == weights
    assert (source / "latest").read_bytes() == weights
    assert (source / "twin").read_text() == "x"
    assert (source / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (source / "deep/empty").is_dir()
    assert not (source / "stray").exists()


def test_what_did_not_change_is_not_copied_again(tmp_path: Path) -> None:
    source = tmp_path / "state"
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    assert snapshots.take(str(source), META, None) is None
    source.write_text("one")
    seen = snapshots.take(str(source), META, None)
    assert snapshots.take(str(source), {**META, "n": 1}, seen) == seen
    assert [meta["n"] for meta in snapshots.newest_first()] == [0]
    for n in (1, 2, 3):
        source.write_text(f"state {n}")
        seen = snapshots.take(str(source), {**META, "n": n}, seen)
    assert [meta["n"] for meta in snapshots.newest_first()] == [3, 2]


def test_a_file_that_changes_while_it_is_copied_is_copied_again(tmp_path: Path) -> None:
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
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    for n in range(10):
        with contextlib.suppress(OSError):  # it may never have kept still
            snapshots.take(str(source), {**META, "n": n}, None)
        for meta in snapshots.newest_first():
            snapshots.unpack(meta, str(tmp_path / "back"))
            content = (tmp_path / "back").read_bytes()
            assert content == content[:8] * 200_000
        if n == 3:
            stop.set()
            writer.join()
    assert snapshots.newest_first()


def test_a_directory_that_never_keeps_still_is_no_checkpoint(tmp_path: Path) -> None:
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
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    try:
        with pytest.raises(OSError, match="kept changing"):
            snapshots.take(str(source), META, None)
    finally:
        stop.set()
        writer.join()
    assert snapshots.newest_first() == []
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_an_incomplete_or_changed_copy_is_not_restored(tmp_path: Path) -> None:
    source = tmp_path / "state"
    source.write_text("precious")
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    snapshots.take(str(source), META, None)
    (tmp_path / "snapshots/1-7.tar").write_bytes(b"cut off before its record was written")
    [meta] = snapshots.newest_first()
    archive = Path(snapshots.tar(meta))
    archive.write_bytes(archive.read_bytes()[:-1] + b"!")
    with pytest.raises(Corrupt):
        snapshots.unpack(meta, str(source))
    assert source.read_text() == "precious"


def hostile(tmp_path: Path, *members: tarfile.TarInfo) -> str:
    path = tmp_path / "hostile.tar"
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return str(path)


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, size
    return member


@pytest.mark.parametrize(
    "members",
    [
        [entry("/etc/passwd", size=1)],
        [entry("checkpoint/../../evil", size=1)],
        [entry("elsewhere", size=1)],
        [entry("checkpoint/link", tarfile.SYMTYPE, "/etc")],
        [entry("checkpoint/link", tarfile.SYMTYPE, "../../evil")],
        [entry("checkpoint/hard", tarfile.LNKTYPE, "/etc/passwd")],
        [entry("checkpoint/device", tarfile.CHRTYPE)],
        [entry("checkpoint/pipe", tarfile.FIFOTYPE)],
        [],
    ],
)
def test_an_archive_that_leads_elsewhere_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "target").write_text("as it was")
    with pytest.raises(Corrupt):
        extract(hostile(tmp_path, *members), str(inside / "target"))
    assert (inside / "target").read_text() == "as it was"
    assert not (tmp_path / "evil").exists()


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    members = [entry("checkpoint", tarfile.DIRTYPE), entry("checkpoint/a", tarfile.SYMTYPE, "b")]
    members += [entry("checkpoint/b", tarfile.SYMTYPE, "a"), entry("checkpoint/a/file", size=1)]
    with pytest.raises((Corrupt, OSError)):
        extract(hostile(tmp_path, *members), str(tmp_path / "target"))
    assert list(outside.iterdir()) == []


def test_noise_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(20_000))
    with pytest.raises(Corrupt):
        extract(str(tmp_path / "noise"), str(tmp_path / "target"))


def test_a_fingerprint_sees_a_file_renamed_into_place(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert fingerprint(str(path)) is None
    path.write_text("one")
    before = fingerprint(str(path))
    (tmp_path / "aside").write_text("two")
    os.utime(tmp_path / "aside", ns=(path.stat().st_mtime_ns,) * 2)
    (tmp_path / "aside").replace(path)
    assert fingerprint(str(path)) != before
