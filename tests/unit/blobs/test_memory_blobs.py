"""The store that tests hold in memory answers as the one in a directory does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.ports.blobs import BlobStore
from tests.memory_blobs import MemoryBlobs


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return MemoryBlobs() if request.param == "memory" else LocalBlobStore(tmp_path, b"k" * 32, "http://127.0.0.1:1")


async def test_an_object_is_read_as_it_was_put_last(store: BlobStore) -> None:
    await store.put("jobs/a/x", b"old")
    await store.put("jobs/a/x", b"newer")
    assert await store.get("jobs/a/x") == b"newer"
    assert await store.get("jobs/a/x", 2) == b"ne"
    assert await store.size("jobs/a/x") == 5
    assert (await store.sha256("jobs/a/x") or "").startswith("804f51f7")


async def test_what_is_not_there_is_none_and_may_be_deleted(store: BlobStore) -> None:
    assert await store.get("jobs/a/x") is None
    assert await store.size("jobs/a/x") is None
    assert await store.sha256("jobs/a/x") is None
    assert await store.sizes("jobs/a") == {}
    await store.delete(["jobs/a/x"])
    await store.delete_prefix("jobs/a")


async def test_a_prefix_is_of_whole_segments(store: BlobStore) -> None:
    for key in ("jobs/a/x", "jobs/a/b/y", "jobs/ab/z"):
        await store.put(key, b"1")
    assert await store.get("jobs/a") is None
    assert await store.sizes("jobs/a") == {"jobs/a/x": 1, "jobs/a/b/y": 1}
    assert await store.sizes("jobs/ab/z") == {"jobs/ab/z": 1}
    await store.delete_prefix("jobs/a/")
    assert await store.sizes("jobs") == {"jobs/ab/z": 1}


async def test_what_is_no_key_is_an_error(store: BlobStore) -> None:
    for key in ("", "../x", "jobs/.x", "jobs//x"):
        with pytest.raises(ValueError, match="not a blob key"):
            await store.get(key)
        with pytest.raises(ValueError, match="not a blob key"):
            await store.put(key, b"")
        with pytest.raises(ValueError, match="not a blob key"):
            store.sign_get(key, timedelta(hours=1))
