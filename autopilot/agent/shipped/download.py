"""From the store to the local disk: a checkpoint that is whole and verified, or none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable
from typing import Any

from .chunks import MAX_INDEX_BYTES, PartWriter, parse_index
from .compress import MOST_BYTES, copy_decompressed
from .disk import read_json, write_json
from .snapshots import Record, Snapshots, copy_part, rank
from .stored import Content, Object, Stored
from .transfer import Transfer
from .tree import Corrupt, lay_out, remove
from .web import BLOCK_BYTES, Web

OUTPUT_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/out/\d{1,9}/part-\d{1,6}")
KEY = re.compile(r"part-\d{1,6}|[A-Za-z0-9_][A-Za-z0-9._-]*/ckpt/\d{1,9}/part-\d{1,6}")


class PartBuffer:
    """Takes a part's bytes, hashes them, keeps them."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.data, self.sha256, self.size = bytearray(), hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        self.data += data
        self.sha256.update(data)
        self.size += len(data)


class Parts:
    """Brings an index and its parts into the directory ``scratch``. Goes on where the last try was cut off."""

    def __init__(self, web: Web, transfer: Transfer, scratch: str, journal: str) -> None:
        """``journal``: the file that says which parts are in ``scratch``."""
        self.web, self.transfer, self.scratch, self.journal = web, transfer, scratch, journal
        self.lock = threading.Lock()

    def begin(self, index_sha256: str, entries: list[Any]) -> list[int]:
        """The parts of it that an earlier try has brought."""
        journal = read_json(self.journal) or {}
        if journal.get("index") == index_sha256 and os.path.isdir(self.scratch):
            return list(journal["done"])
        remove(self.scratch)
        os.makedirs(self.scratch)
        lay_out(entries, self.scratch)
        write_json(self.journal, {"index": index_sha256, "done": []})
        return []

    def close_part(self, i: int, index_sha256: str, done: list[int]) -> None:
        with self.lock:
            done.append(i)
            write_json(self.journal, {"index": index_sha256, "done": done})

    def fetch_index(self, part: Record) -> bytes:
        if part["size"] > MAX_INDEX_BYTES:
            raise Corrupt("its index is too large")
        memory = PartBuffer()
        self.transfer.run([(0, 0)], lambda _, url: self.receive(url, memory, part))
        return bytes(memory.data)

    def receive(self, url: Callable[[], str], target: Any, part: Record) -> None:
        """One part, verified; what has arrived is not asked for again when the connection is cut."""
        headers = {"Range": f"bytes={target.size}-"} if target.size else {}
        with self.web.answer("GET", url(), headers=headers) as response:
            # Some servers send the range under status 200; one that cannot sends everything.
            if not (response.headers.get("Content-Range") or "").startswith(f"bytes {target.size}-"):
                target.restart()
            coming = int(response.headers.get("Content-Length") or 0)
            while target.size <= part["size"]:
                block = response.read(min(BLOCK_BYTES, part["size"] + 1 - target.size))
                if not block:
                    break
                coming -= len(block)
                target.write(block)
        if coming > 0 and target.size <= part["size"]:
            raise OSError("a part was cut off on its way")
        if (target.size, target.sha256.hexdigest()) != (part["size"], part["sha256"]):
            target.restart()
            raise Corrupt("a part of it is not what its manifest says")


class Download(Parts):
    """Brings the checkpoint that the orders name into the snapshots."""

    key = KEY

    def __init__(self, web: Web, snapshots: Snapshots, stored: Stored, transfer: Transfer) -> None:
        scratch = os.path.join(snapshots.directory, "fetching")
        super().__init__(web, transfer, scratch, scratch + ".done")  # no .json: it is no record of a snapshot
        self.snapshots, self.stored = snapshots, stored
        self.keys: dict[int, str] = {}  # of its parts, as seen from the job

    def fetch(self, restore: dict[str, Any]) -> bool:
        """Whether all of it was fetched, and checked, just now: not if it or a newer one is here, nor where an earlier
        try had brought some of it, in which a crash of the host may have left holes. Raises ``Corrupt``, ``OSError``.
        """
        meta, parts = read_manifest(self.web.get(restore["manifest_url"]), restore["lease"], self.key)
        self.stored.close(restore["lease"], meta["n"], [[*content(part), *part["stored"]] for part in parts])
        self.keys = {i: part["stored"].key for i, part in enumerate(parts)}
        here = self.snapshots.newest_first()
        if any(rank(record) >= rank(meta) for record in here):
            return False
        entries, slices, run = parse_index(self.fetch_index(parts[0]), [part["size"] for part in parts[1:]])
        done = self.begin(parts[0]["sha256"], entries)
        is_fresh = not done
        local = {content(part): (record, i) for record in here for i, part in enumerate(record["parts"])}

        halves: dict[int, PartWriter | PartBuffer] = {}

        def move(i: int, url: Callable[[], str]) -> None:
            part, writer = parts[i + 1], PartWriter(self.scratch, entries, slices[i])
            if not copy_from_snapshots(self.snapshots, local.get(content(part)), writer, part):
                self.receive_part(url, writer, part, halves, i)
            self.close_part(i, parts[0]["sha256"], done)

        self.transfer.run([(i, i + 1) for i in range(len(slices)) if i not in set(done)], move)
        os.remove(self.journal)
        rows = [list(entry) for entry in entries]
        identities = [[entry.name, None] for entry in entries]  # nothing that a job writes is like them
        record = {
            **meta,
            "mlflow_run": run,
            "entries": rows,
            "slices": slices,
            "identities": identities,
            "parts": parts[1:],
        }
        self.snapshots.commit(record, self.scratch)
        return is_fresh

    def receive_part(
        self, url: Callable[[], str], writer: PartWriter, part: Record, halves: dict[int, Any], i: int
    ) -> None:
        """``halves``: what earlier tries have brought of each part."""
        stored = part["stored"]
        if stored.sha256 == part["sha256"]:
            self.receive(url, halves.setdefault(i, writer), part)
            del halves[i]
            return
        if stored.size > MOST_BYTES:
            raise Corrupt("a compressed part of it is too large")
        memory = halves.setdefault(i, PartBuffer())
        self.receive(url, memory, {"size": stored.size, "sha256": stored.sha256})
        del halves[i]
        copy_decompressed(bytes(memory.data), writer)
        if (writer.size, writer.sha256.hexdigest()) != (part["size"], part["sha256"]):
            raise Corrupt("a part of it is not what its manifest says")


def read_manifest(data: bytes, lease: str, key: re.Pattern[str] = KEY) -> tuple[Record, list[Record]]:
    """(what it says of the checkpoint, its parts with keys as seen from the job). Raises ``Corrupt``."""
    try:
        body = json.loads(data)
        parts = [read_part(part) for part in body["parts"]]
        meta = {"run_epoch": body["run_epoch"], "n": body["n"], "step": body["step"], "uploaded": True}
        meta.update({"suspect": True} if body.get("suspect") is True else {})
        numbers = [meta["run_epoch"], meta["n"]]
        numbers += [size for part in parts for size in (part["size"], part["stored"].size)]
        whole = all(type(number) is int and number >= 0 for number in numbers) and parts
        if not whole or not all(key.fullmatch(part["stored"].key) for part in parts):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt("its manifest cannot be read") from error
    for part in parts:
        if "/" not in part["stored"].key:
            part["stored"] = part["stored"]._replace(key=f"{lease}/ckpt/{meta['n']}/{part['stored'].key}")
    return meta, parts


def check_parts(parts: list[Record]) -> None:
    """Raises ``Corrupt`` for parts that ``Download`` would always refuse."""
    for i, part in enumerate(parts):
        stored = part["stored"]
        is_plain = stored.sha256 == part["sha256"]
        if is_plain and stored.size != part["size"]:
            raise Corrupt("a part of it has two sizes")
        if not is_plain and (i == 0 or stored.size > MOST_BYTES):
            raise Corrupt("a part of it is compressed that must not be")


def read_part(row: Any) -> Record:
    """Its content, and the object that holds it. Raises ``KeyError``, ``TypeError``."""
    stored = Object(row["key"], row["size"], row["sha256"])
    if row.get("content_sha256") is None:
        return {"size": stored.size, "sha256": stored.sha256, "stored": stored}
    return {"size": row["content_size"], "sha256": row["content_sha256"], "stored": stored}


def copy_from_snapshots(snapshots: Snapshots, source: Any, target: PartWriter, part: Record) -> bool:
    """Whether the part came from a snapshot that lies here."""
    if source is None:
        return False
    try:
        copy_part(snapshots.reader(*source), target, part)
        return True
    except (OSError, Corrupt):
        target.restart()
        return False


def content(part: Record) -> Content:
    return part["sha256"], part["size"]
