"""How the daemon reads the parts of a checkpoint to verify it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import manifest_key, part_key
from autopilot.mailbox.report_shapes import Manifest, Part
from autopilot.ports.blobs import BlobUnavailable
from tests.checkpoint_data import a_part


class Failing(LocalBlobStore):
    """One part cannot be read; the others take for ever."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, b"key", "http://localhost")
        self.begun: list[asyncio.Task[object] | None] = []
        self.both = asyncio.Event()

    async def size(self, key: str) -> int | None:
        if key.endswith(("manifest.json", "part-0")):
            return await super().size(key)
        if key.endswith("part-1"):
            await self.both.wait()
            raise BlobUnavailable("503")
        self.begun.append(asyncio.current_task())
        if len(self.begun) == 2:
            self.both.set()
        await asyncio.Event().wait()
        return None


async def test_once_one_part_cannot_be_read_the_others_are_not_read(tmp_path: Path) -> None:
    """Else each new try would add to the reads of the tries before it."""
    store = Failing(tmp_path)
    files = [[f"checkpoint/{i}", "file", 0o644, 0, 1, ""] for i in range(3)]
    index = json.dumps({"v": 1, "entries": files, "slices": [[[i, 0, 1]] for i in range(3)]}).encode()
    parts = (a_part(0, index), *(Part(f"part-{i}", 1, "0" * 64) for i in range(1, 4)))
    manifest = Manifest(1, 0, parts)
    await store.put(part_key("job", "a", 0, 0), index)
    await store.put(manifest_key("job", "a", 0), manifest.to_json())
    with pytest.raises(BlobUnavailable):
        await verified_manifest(store, AgentUnpacker(), "job", "a", 0)
    await asyncio.sleep(0)
    assert [task is not None and task.cancelled() for task in store.begun] == [True, True]
