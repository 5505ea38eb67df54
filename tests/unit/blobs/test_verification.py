"""Verification reads a checkpoint as a machine would that restores it: right hashes of junk are junk."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import compress
from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.checkpoints import contents, verified_manifest, verified_outputs
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
