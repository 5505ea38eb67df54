"""From the local disk to the store: the parts that it does not have yet, and the manifest last."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from typing import Any

from .compress import MOST_BYTES, compress
from .snapshots import Moved, Record, Snapshots, check_index
from .stored import Content, Object, Stored
from .transfer import Transfer
from .web import MAX_OBJECT_BYTES, Web

SAVE_EVERY_S = 5.0


class SnapshotUpload:
    """One snapshot on its way. What was sent is remembered, so that a new try goes on where this one was cut off."""

    def __init__(self, web: Web, snapshots: Snapshots, stored: Stored, transfer: Transfer, record: Record) -> None:
        self.web, self.snapshots, self.stored, self.transfer, self.record = web, snapshots, stored, transfer, record
        self.index = snapshots.index(record)
        check_index(snapshots.entries(record))
        head = {"size": len(self.index), "sha256": hashlib.sha256(self.index).hexdigest()}
        self.parts: list[Record] = [head, *record["parts"]]
        self.saved_at = time.monotonic()

    def send(
        self, place: str, known: dict[Content, Object], put_manifest: Callable[[bytes], None], compresses: bool = False
    ) -> list[list[Any]]:
        """Parts that are not ``known`` go to ``place``/part-0, …; answers (*Content, *Object) of all."""
        todo = self.plan(known, f"{place}/part-")
        keys = {position: f"{place}/part-{number}" for position, number in todo}
        objects = dict(known)

        def move(position: int, url: Callable[[], str]) -> None:
            part = self.parts[position]
            size, sha256 = self.send_part(position, url(), compresses)
            objects[content(part)] = stored = Object(keys[position], size, sha256)
            self.stored.add(content(part), stored)
            if time.monotonic() - self.saved_at > SAVE_EVERY_S:
                self.saved_at = time.monotonic()
                self.stored.save()

        try:
            self.transfer.run(todo, move)
        finally:
            self.stored.save()
        rows = [describe_part(part, objects[content(part)]) for part in self.parts]
        head = {name: self.record[name] for name in ("run_epoch", "n", "step")}
        head.update({"suspect": True} if self.record.get("suspect") else {})
        manifest = json.dumps({"v": 1, **head, "parts": rows}).encode()
        if len(manifest) > MAX_OBJECT_BYTES:
            raise OSError("the checkpoint has too many parts")
        put_manifest(manifest)
        return [[*content(part), *objects[content(part)]] for part in self.parts]

    def plan(self, known: dict[Content, Object], prefix: str) -> list[tuple[int, int]]:
        """(position, number) of what the store does not have, each content once."""
        number = find_first_number(known, prefix)
        seen, todo = set(known), []
        for position, part in enumerate(self.parts):
            if content(part) not in seen:
                seen.add(content(part))
                todo.append((position, number))
                number += 1
        return todo

    def send_part(self, position: int, url: str, compresses: bool) -> tuple[int, str]:
        """Size and SHA-256 of what was sent."""
        part = self.parts[position]
        if position == 0:
            self.web.send(url, lambda: io.BytesIO(self.index), part["size"])
            return part["size"], part["sha256"]
        readers: list[Any] = []

        def body() -> Any:
            readers.append(self.snapshots.reader(self.record, position - 1))
            return readers[-1]

        small = compress(body(), part["size"]) if compresses and part["size"] <= MOST_BYTES else None
        if small is None:
            self.web.send(url, body, part["size"])
        else:
            self.web.send(url, lambda: io.BytesIO(small), len(small))  # a timeout counts for each write: for a block
        if readers[-1].sha256.hexdigest() != part["sha256"]:
            self.snapshots.links = False
            raise Moved("the job wrote into a file that it had saved")
        return (part["size"], part["sha256"]) if small is None else (len(small), hashlib.sha256(small).hexdigest())


def find_first_number(known: dict[Content, Object], prefix: str) -> int:
    """The number of the next part to send. A part without a manifest must not be overwritten: one may still name it."""
    return 1 + max((int(each.key[len(prefix) :]) for each in known.values() if each.key.startswith(prefix)), default=-1)


def describe_part(part: Record, stored: Object) -> dict[str, Any]:
    """The row of a manifest."""
    row = {"key": stored.key, "size": stored.size, "sha256": stored.sha256}
    if stored.sha256 == part["sha256"]:
        return row
    return {**row, "content_size": part["size"], "content_sha256": part["sha256"]}


def content(part: Record) -> Content:
    return part["sha256"], part["size"]
