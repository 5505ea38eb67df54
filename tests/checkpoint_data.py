"""What lies in the store of a checkpoint: one of an empty file, that other machines can restore."""

from __future__ import annotations

import hashlib
import json

from autopilot.mailbox.report_shapes import Part


def an_index(note: str, data_bytes: int = 0) -> bytes:
    """Of one file of so many bytes, all of them in one part. ``note`` makes it differ from others."""
    entries = [["checkpoint", "file", 0o644, 0, data_bytes, ""]]
    slices = [[[0, 0, data_bytes]]] if data_bytes else []
    return json.dumps({"v": 1, "root": "checkpoint", "entries": entries, "slices": slices, "note": note}).encode()


def a_part(number: int, data: bytes) -> Part:
    return Part(f"part-{number}", len(data), hashlib.sha256(data).hexdigest())
