"""zstd, where this Python has it: its own from 3.14 on, or a package that brings it."""

from __future__ import annotations

import importlib
import io
from typing import Any

from .tree import Corrupt

LEVEL = 1
MOST_BYTES = 64 << 20
"""Larger parts are sent as they are: a compressed one is held in memory."""
WORTH_IT = 0.95
BLOCK_BYTES = 256 << 10


def library() -> Any:
    """The module, None when there is none. ``backports.zstd`` is that of 3.14 for older ones."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def compress(source: Any, size: int) -> bytes | None:
    """What ``source`` has to read, of so many bytes, in fewer; None if it is hardly fewer. Then the first block
    alone has been read."""
    compressor = begin(library())
    first = source.read(BLOCK_BYTES)
    probe = begin(library())
    if len(probe.compress(first)) + len(probe.flush()) > WORTH_IT * len(first):
        return None
    out = bytearray(compressor.compress(first))
    for block in iter(lambda: source.read(BLOCK_BYTES), b""):
        out += compressor.compress(block)
    out += compressor.flush()
    return bytes(out) if len(out) <= WORTH_IT * size else None


def begin(zstd: Any) -> Any:
    made = zstd.ZstdCompressor(level=LEVEL)
    return made.compressobj() if hasattr(made, "compressobj") else made


def decompress(data: bytes) -> Any:
    """A reader in blocks, so that a small compressed input takes no more memory than one block."""
    zstd = library()
    if zstd is None:
        raise OSError("a checkpoint is compressed by zstd, which this Python does not have: pip install zstandard")
    if hasattr(zstd, "ZstdFile"):
        return zstd.ZstdFile(io.BytesIO(data))
    return zstd.ZstdDecompressor().stream_reader(io.BytesIO(data))


def copy_decompressed(data: bytes, target: Any) -> None:
    """Raises ``Corrupt`` when it is not zstd, ``OSError`` when there is nothing to read it with."""
    source = decompress(data)
    try:
        for block in iter(lambda: source.read(BLOCK_BYTES), b""):
            target.write(block)
    except (Corrupt, OSError):
        raise
    except Exception as error:  # each library has an error of its own
        raise Corrupt("a part of it cannot be read") from error
