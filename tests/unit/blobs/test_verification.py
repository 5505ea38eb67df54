"""Verification reads a checkpoint as a machine would that restores it: right hashes of junk are junk."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import compress
from autopilot.agent.shipped.tree import Entry
from autopilot.agent.unpack import AgentUnpacker, tame_mode
from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.checkpoints import (
    contents,
    is_still_whole,
    keep_verified,
    kept_manifest,
    verified_manifest,
    verified_outputs,
)
from autopilot.mailbox.keys import manifest_key, outputs_prefix, part_key
from autopilot.mailbox.report_shapes import Manifest, Part
from tests.checkpoint_data import a_part, an_index

JOB, LEASE, DATA = "job-1", "lease-1", b"weights"


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path, b"k" * 32, "http://store")


async def verify(blobs: LocalBlobStore, parts: list[Part], datas: list[bytes], **options: Any) -> Manifest | None:
    for i, data in enumerate(datas):
        await blobs.put(part_key(JOB, LEASE, 0, i), data)
    await blobs.put(manifest_key(JOB, LEASE, 0), Manifest(1, 0, tuple(parts)).to_json())
    return await verified_manifest(blobs, AgentUnpacker(), JOB, LEASE, 0, **options)


async def test_a_checkpoint_that_can_be_restored_is_taken(blobs: LocalBlobStore) -> None:
    datas = [an_index("", len(DATA)), DATA]
    assert await verify(blobs, [a_part(0, datas[0]), a_part(1, DATA)], datas) is not None


def index_of(entries: list[Any], slices: list[Any]) -> bytes:
    return json.dumps({"v": 1, "root": "checkpoint", "entries": entries, "slices": slices}).encode()


async def test_a_part_of_other_bytes_under_the_right_key_is_not_taken(blobs: LocalBlobStore) -> None:
    datas = [an_index("", len(DATA)), DATA]
    harmed = [datas[0], DATA[::-1]]
    assert len(harmed[1]) == len(DATA)
    assert await verify(blobs, [a_part(0, datas[0]), a_part(1, DATA)], harmed) is None


FILE = ["checkpoint", "file", 0o644, 0, len(DATA), ""]
WHOLE = [[[0, 0, len(DATA)]]]


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(b"junk", id="junk"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"[" * 200_000, id="recursion"),
        pytest.param(index_of([FILE], []), id="parts-that-it-does-not-name"),
        pytest.param(index_of([[*FILE[:4], 10**40, ""]], WHOLE), id="size-of-10^40"),
        pytest.param(index_of([["checkpoint/\0", *FILE[1:]]], WHOLE), id="nul"),
        pytest.param(index_of([["checkpoint/\ud800", *FILE[1:]]], WHOLE), id="surrogate"),
        pytest.param(index_of([["checkpoint/../x", *FILE[1:]]], WHOLE), id="leads-out"),
        pytest.param(index_of([FILE, ["checkpoint/l", "link", 0, 0, 0, "/etc"]], WHOLE), id="through-a-file"),
    ],
)
async def test_an_index_that_no_machine_can_use_is_not_verified(blobs: LocalBlobStore, index: bytes) -> None:
    assert await verify(blobs, [a_part(0, index), a_part(1, DATA)], [index, DATA]) is None


async def test_the_key_of_a_part_is_one_that_machines_ask_for(blobs: LocalBlobStore) -> None:
    """The mailbox knows keys of outputs as well; a restore refuses them."""
    index = an_index("", len(DATA))
    await blobs.put(f"jobs/{JOB}/{LEASE}/out/1/part-1", DATA)
    part = replace(a_part(1, DATA), key=f"{LEASE}/out/1/part-1")
    assert await verify(blobs, [a_part(0, index), part], [index]) is None


def compressed(content: bytes, claim: bytes) -> tuple[bytes, Part]:
    """zstd of ``content``, and a part that says that it is ``claim``."""
    compressor = compress.library().ZstdCompressor()
    data = compressor.compress(content) + compressor.flush()
    hashed = a_part(1, data)
    return data, replace(hashed, content_size=len(claim), content_sha256=hashlib.sha256(claim).hexdigest())


@pytest.mark.parametrize(
    ("content", "claim", "is_taken"),
    [(DATA, DATA, True), (b"other!!", DATA, False), (DATA * 1_000_000, DATA, False)],
    ids=["right", "other-content", "more-than-it-says"],
)
async def test_what_comes_out_of_a_compressed_part_counts(
    blobs: LocalBlobStore, content: bytes, claim: bytes, is_taken: bool
) -> None:
    data, part = compressed(content, claim)
    index = an_index("", len(claim))
    assert (await verify(blobs, [a_part(0, index), part], [index, data]) is not None) is is_taken


async def test_what_is_no_zstd_is_not_verified(blobs: LocalBlobStore) -> None:
    index = an_index("", len(DATA))
    part = replace(a_part(1, b"no zstd"), content_size=len(DATA), content_sha256=hashlib.sha256(DATA).hexdigest())
    assert await verify(blobs, [a_part(0, index), part], [index, b"no zstd"]) is None


async def test_an_index_is_never_compressed(blobs: LocalBlobStore) -> None:
    index = an_index("")
    data, part = compressed(index, index)
    assert await verify(blobs, [replace(part, key="part-0")], [data]) is None


async def test_what_was_verified_once_is_trusted_for_that_content_only(blobs: LocalBlobStore) -> None:
    data, part = compressed(DATA, DATA)
    index = an_index("", len(DATA))
    known = await verify(blobs, [a_part(0, index), part], [index, data])
    assert known is not None
    other = hashlib.sha256(b"another").hexdigest()
    lie = [a_part(0, index), replace(part, content_sha256=other)]
    assert await verify(blobs, lie, [], trusted=contents(known, JOB, LEASE)) is None


async def test_an_index_of_other_bytes_is_not_taken_even_where_it_is_trusted(blobs: LocalBlobStore) -> None:
    """A restore would refuse it, though it could be read."""
    index, other = index_of([FILE], WHOLE), index_of([[*FILE[:3], 9, *FILE[4:]]], WHOLE)
    assert len(index) == len(other)
    parts = [a_part(0, index), a_part(1, DATA)]
    known = await verify(blobs, parts, [index, DATA])
    assert known is not None
    trusted = contents(known, JOB, LEASE)
    assert await verify(blobs, parts, [index, DATA], trusted=trusted) is not None
    assert await verify(blobs, parts, [other, DATA], trusted=trusted) is None


async def test_a_compressed_part_of_other_bytes_is_not_taken_though_the_same_comes_out(blobs: LocalBlobStore) -> None:
    data, part = compressed(DATA, DATA)
    other = data[:4] + bytes([data[4] ^ 0x10]) + data[5:]  # a bit of the header that no decoder looks at
    assert compress.library().ZstdDecompressor().decompress(other) == DATA
    index = an_index("", len(DATA))
    assert await verify(blobs, [a_part(0, index), part], [index, data]) is not None
    assert await verify(blobs, [a_part(0, index), part], [index, other]) is None


async def test_what_was_verified_is_looked_at_again_by_the_daemon_s_own_manifest(blobs: LocalBlobStore) -> None:
    datas = [an_index("", len(DATA)), DATA]
    assert not await is_still_whole(blobs, AgentUnpacker(), JOB, LEASE, 0), "none was kept"
    manifest = await verify(blobs, [a_part(0, datas[0]), a_part(1, DATA)], datas)
    assert manifest is not None
    await keep_verified(blobs, JOB, LEASE, manifest)
    kept = await kept_manifest(blobs, JOB, LEASE, 0)
    assert kept is not None
    assert [part.key for part in kept.parts] == [f"{LEASE}/ckpt/0/part-{i}" for i in range(2)]
    assert await kept_manifest(blobs, JOB, LEASE, 1) is None
    assert await is_still_whole(blobs, AgentUnpacker(), JOB, LEASE, 0)
    await blobs.put(part_key(JOB, LEASE, 0, 1), DATA[::-1])
    assert not await is_still_whole(blobs, AgentUnpacker(), JOB, LEASE, 0)


async def test_four_parts_are_read_at_once(blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reading: list[int] = [0]
    most = 0
    size = blobs.size

    async def counted(key: str) -> int | None:
        nonlocal most
        reading[0] += 1
        most = max(most, reading[0])
        await asyncio.sleep(0)
        reading[0] -= 1
        return await size(key)

    files = [[f"checkpoint/{i}", "file", 0o644, 0, 1, ""] for i in range(12)]
    index = index_of(files, [[[i, 0, 1]] for i in range(12)])
    datas = [index, *(bytes([i]) for i in range(12))]
    monkeypatch.setattr(blobs, "size", counted)
    assert await verify(blobs, [a_part(i, data) for i, data in enumerate(datas)], datas) is not None
    assert most == 4


@pytest.mark.parametrize(
    ("kind", "mode", "tame"),
    [
        *[("dir", 0, 0o700), ("dir", 0o777, 0o755), ("dir", 0o007, 0o705), ("dir", 0o2070, 0o750)],
        *[("file", 0, 0o600), ("file", 0o777, 0o755), ("file", 0o444, 0o644), ("file", 0o4022, 0o600)],
    ],
)
def test_modes_on_the_user_s_own_disk_are_tame(kind: str, mode: int, tame: int) -> None:
    assert tame_mode(Entry("checkpoint", kind, mode, 0)) == tame


async def test_more_than_a_disk_holds_is_not_unpacked(blobs: LocalBlobStore) -> None:
    data, part = compressed(DATA * 100_000, DATA * 100_000)
    index = an_index("", len(DATA) * 100_000)
    assert await verify(blobs, [a_part(0, index), part], [index, data], most_bytes=100_000) is None


@pytest.mark.parametrize(("index", "is_taken"), [(an_index("", len(DATA)), True), (b"junk", False)])
async def test_outputs_are_read_as_well(blobs: LocalBlobStore, index: bytes, is_taken: bool) -> None:
    place = outputs_prefix(JOB, LEASE, 1)
    start = f"jobs/{JOB}/"
    parts = []
    for i, data in enumerate((index, DATA)):
        await blobs.put(f"{place}/part-{i}", data)
        parts.append(replace(a_part(i, data), key=f"{place}/part-{i}".removeprefix(start)))
    await blobs.put(f"{place}/manifest.json", Manifest(1, 1, tuple(parts)).to_json())
    assert (await verified_outputs(blobs, AgentUnpacker(), JOB, LEASE, 1) is not None) is is_taken
