"""A checkpoint's parts made into files again, on the daemon's or the user's own disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from autopilot.agent.shipped.chunks import PartWriter, read_index
from autopilot.agent.shipped.compress import MOST_BYTES, copy_decompressed
from autopilot.agent.shipped.download import MAX_INDEX_BYTES
from autopilot.agent.shipped.tree import Corrupt, check_entries, finish, lay_out
from autopilot.mailbox.report_shapes import Part

_BLOCK_BYTES = 1 << 20


def unpack(parts: Sequence[Part], open_part: Callable[[int], IO[bytes]], directory: Path) -> Path:
    """Put the files beneath ``directory``, which must be empty; answers their root.

    ``open_part(i)`` gives the bytes of ``parts[i]``. Raises ``Corrupt`` when they are not what ``parts`` says, or when
    something in them would lead out of ``directory``.
    """
    with open_part(0) as source:
        index = source.read(min(parts[0].size, MAX_INDEX_BYTES) + 1)
    if (len(index), hashlib.sha256(index).hexdigest()) != (parts[0].size, parts[0].sha256):
        raise Corrupt("its index is not what its manifest says, or too large")
    contents = [(part.content_size or part.size, part.content_sha256 or part.sha256) for part in parts[1:]]
    entries, slices = read_index(_json(index), [size for size, _ in contents])
    check_entries(entries)
    lay_out(entries, str(directory))
    for i, part in enumerate(parts[1:]):
        writer = PartWriter(str(directory), entries, slices[i])
        with open_part(i + 1) as source:
            if part.content_sha256 is not None:
                copy_decompressed(source.read(MOST_BYTES), writer)
            while block := source.read(_BLOCK_BYTES):
                writer.write(block)
        if (writer.size, writer.sha256.hexdigest()) != contents[i]:
            raise Corrupt("a part of it is not what its manifest says")
    finish(entries, str(directory))
    return directory / "checkpoint"


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt("its index cannot be read") from error
