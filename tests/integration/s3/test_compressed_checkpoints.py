"""Checkpoints that zstd makes smaller: sent once, verified as they lie there, restored as they were."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import compress, transfer
from autopilot.agent.shipped.chunks import SMALLEST_PART_BYTES
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.shipped.web import Web
from autopilot.agent.unpack import unpack
from autopilot.mailbox.checkpoints import keep_verified
from tests.integration.s3.keepers import JOB, Machine, content
from tests.s3_server import BUCKET, S3Server
from tests.variants import first_of

PART = SMALLEST_PART_BYTES


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "RETRY_S", 0.01)


@pytest.fixture(params=first_of(("backports.zstd", "zstandard")))
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As on a machine that has only this one."""
    for name in {"compression.zstd", "backports.zstd", "zstandard"} - {request.param}:
        monkeypatch.setitem(sys.modules, name, None)
    assert compress.library().__name__ == request.param
    return str(request.param)


@pytest.fixture
def machine(s3: S3Server, tmp_path: Path) -> Machine:
    machine = Machine(s3.store(), tmp_path / "disk", "a")
    machine.files.mkdir()
    rng = random.Random(1)
    (machine.files / "weights").write_bytes(b"".join(rng.randbytes(6) + b"\0\0" for _ in range(PART // 4)))
    (machine.files / "noise").write_bytes(os.urandom(PART))
    return machine


def another(s3: S3Server, machine: Machine, tmp_path: Path) -> Machine:
    other = Machine(s3.store(), tmp_path / "other", "b")
    other.newest = machine.newest
    return other


@pytest.mark.slow
@pytest.mark.usefixtures("library")
async def test_less_is_sent_and_all_comes_back(s3: S3Server, machine: Machine, tmp_path: Path) -> None:
    machine.keeper.compresses = True
    sent = await machine.checkpoint()
    assert PART < sent < 2.8 * PART
    manifest = await machine.verify()
    assert manifest is not None
    assert {part.content_size for part in manifest.parts} == {None, PART}
    other = another(s3, machine, tmp_path)
    await other.restore()
    assert content(other.files) == content(machine.files)
    # What already exists is named again, compressed or not.
    (machine.files / "state.json").write_text("{}")
    assert await machine.checkpoint() < 10_000
    assert await machine.verify() is not None
    (other.files / "more").write_text("more")
    assert await other.checkpoint() < 10_000
    keys = manifest.part_keys(JOB, "a")
    target = tmp_path / "unpacked"
    target.mkdir()
    root = unpack(manifest.parts, lambda i: (s3.root / BUCKET / keys[i]).open("rb"), target)
    assert content(root) == {name: data for name, data in content(machine.files).items() if name != "state.json"}


@pytest.mark.slow
async def test_parts_are_sent_block_by_block(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout counts for one write: of the whole part at once, only a fast line would get it through in time."""
    send, in_one_piece = Web.send, list[int]()

    def noted(self: Web, url: str, body: Callable[[], Any], size: int, within_s: float | None = None) -> None:
        if not hasattr(body(), "read"):
            in_one_piece.append(size)
        send(self, url, body, size, within_s)

    monkeypatch.setattr(Web, "send", noted)
    machine.keeper.compresses = True
    assert await machine.checkpoint() < 2.8 * PART
    assert max(in_one_piece, default=0) < 10_000


@pytest.mark.slow
async def test_an_upload_that_was_cut_off_goes_on(s3: S3Server, machine: Machine) -> None:
    machine.keeper.compresses = True
    s3.trouble.only, s3.trouble.refuse = "part-3", {507: 1000}
    with pytest.raises(OSError, match="507"):
        await machine.checkpoint()
    sent = machine.web.bytes_sent
    s3.trouble.refuse = {}
    machine.reboot()
    machine.keeper.compresses = True
    assert await machine.checkpoint() < 2.8 * PART - sent
    assert await machine.verify() is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "evil",
    [
        lambda zstd: b"not zstd at all",
        lambda zstd: zstd(bytes(1 << 30)),
        lambda zstd: zstd(b"too short"),
        lambda zstd: zstd(bytes(PART)),
        lambda zstd: zstd(os.urandom(PART))[: PART // 2],
    ],
    ids=["noise", "a bomb", "too short", "other bytes", "cut off"],
)
async def test_what_a_stranger_has_compressed_is_not_trusted(
    s3: S3Server, machine: Machine, tmp_path: Path, evil: Callable[[Callable[[bytes], bytes]], bytes]
) -> None:
    """He wrote part and manifest: to the daemon they fit each other."""
    machine.keeper.compresses = True
    await machine.checkpoint()
    manifest = await machine.verify()
    assert manifest is not None
    data = evil(compress.library().compress)
    i = next(i for i, part in enumerate(manifest.parts) if part.content_sha256)
    await s3.store().put(manifest.part_keys(JOB, "a")[i], data)
    part = replace(manifest.parts[i], size=len(data), sha256=hashlib.sha256(data).hexdigest())
    forged = replace(manifest, parts=(*manifest.parts[:i], part, *manifest.parts[i + 1 :]))
    await keep_verified(s3.store(), JOB, "a", forged)
    other = another(s3, machine, tmp_path)
    with pytest.raises(Corrupt):
        await other.restore()
    assert not other.files.exists()


@pytest.mark.slow
async def test_without_zstd_it_says_so(
    s3: S3Server, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.keeper.compresses = True
    await machine.checkpoint()
    await machine.verify()
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(OSError, match="pip install zstandard"):
        await another(s3, machine, tmp_path).restore()
