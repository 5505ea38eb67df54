"""From the local disk to the store: the parts that it does not have yet, and the manifest last."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from typing import Any

from .snapshots import Moved, Record, Snapshots
from .stored import Stored
from .transfer import Transfer
from .web import MAX_OBJECT_BYTES, Web

SAVE_EVERY_S = 5.0


class Upload:
    """One snapshot on its way. What was sent is remembered, so that a new try goes on where this one was cut off."""

    def __init__(self, web: Web, snapshots: Snapshots, stored: Stored, transfer: Transfer, record: Record) -> None:
        self.web, self.snapshots, self.stored, self.transfer, self.record = web, snapshots, stored, transfer, record
        self.index = snapshots.index(record)
        head = {"size": len(self.index), "sha256": hashlib.sha256(self.index).hexdigest()}
        self.parts: list[Record] = [head, *record["parts"]]
        self.saved_at = time.monotonic()

    def send(self, place: str, keys: dict[Any, str], put_manifest: Callable[[bytes], None]) -> list[list[Any]]:
        """Parts not in ``keys`` (content → key) go to ``place``/part-0, …; answers (SHA-256, size, key) of all."""
        todo = self.planned(keys, f"{place}/part-")

        def move(position: int, url: Callable[[], str]) -> None:
            self.send_part(position, url())
            part = self.parts[position]
            self.stored.add(part["sha256"], part["size"], keys[content(part)])
            if time.monotonic() - self.saved_at > SAVE_EVERY_S:
                self.saved_at = time.monotonic()
                self.stored.save()

        try:
            self.transfer.run(todo, move)
        finally:
            self.stored.save()
        rows = [{"key": keys[content(part)], "size": part["size"], "sha256": part["sha256"]} for part in self.parts]
        head = {name: self.record[name] for name in ("run_epoch", "n", "step")}
        manifest = json.dumps({"v": 1, **head, "parts": rows}).encode()
        if len(manifest) > MAX_OBJECT_BYTES:
            raise OSError("the checkpoint has too many parts")
        put_manifest(manifest)
        return [[row["sha256"], row["size"], row["key"]] for row in rows]

    def planned(self, keys: dict[Any, str], prefix: str) -> list[tuple[int, int]]:
        """Adds a key to ``keys`` for what the store does not have; answers its (position, number)."""
        # Also a part that nobody names must not be written over: a manifest may name it yet.
        used = [int(key[len(prefix) :]) for key in keys.values() if key.startswith(prefix)]
        number = 1 + max(used, default=-1)
        todo = []
        for position, part in enumerate(self.parts):
            if content(part) not in keys:
                keys[content(part)] = prefix + str(number)
                todo.append((position, number))
                number += 1
        return todo

    def send_part(self, position: int, url: str) -> None:
        part = self.parts[position]
        if position == 0:
            self.web.send(url, lambda: io.BytesIO(self.index), part["size"])
            return
        readers: list[Any] = []

        def body() -> Any:
            readers.append(self.snapshots.reader(self.record, position - 1))
            return readers[-1]

        self.web.send(url, body, part["size"])
        if readers[-1].sha256.hexdigest() != part["sha256"]:
            self.snapshots.links = False
            raise Moved("the job wrote into a file that it had saved")


def content(part: Record) -> tuple[str, int]:
    return part["sha256"], part["size"]
