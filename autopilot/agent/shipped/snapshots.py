"""Copies of the checkpoint on the local disk: ``<run_epoch>-<n>/``, complete once its ``.json`` is there.

Such a record says everything about a checkpoint: its entries, which slices of them make which part, and the size and
SHA-256 of each part. The index, the first part that is sent, is made from it and is not among these parts.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from typing import Any, Dict  # noqa: UP035 -- Python 3.8 cannot subscript dict

from .chunks import PartReader, PartWriter, cut, index_of
from .disk import is_being_written, keep_copy, read_json, write_json
from .tree import Corrupt, Entry, Scanned, fingerprint, finish, scan, scratch_beside, swap_in

SNAPSHOTS_KEPT = 2
TRIES = 5
QUIET_WAIT_S = 0.5

Record = Dict[str, Any]  # noqa: UP006


class Moved(OSError):
    """The checkpoint changed while it was read."""


class Snapshots:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.links = True  # until a job is seen to write into the files that it has saved
        self.job_uid: int | None = None  # whose processes are looked at; None: all that the agent can see
        os.makedirs(directory, exist_ok=True)

    def newest_first(self) -> list[Record]:
        names = [name for name in os.listdir(self.directory) if name.endswith(".json")]
        found = [read_json(os.path.join(self.directory, name)) for name in names]
        return sorted(filter(None, found), key=lambda record: (record["run_epoch"], record["n"]), reverse=True)

    def place(self, record: Record) -> str:
        """The directory that holds its files."""
        return os.path.join(self.directory, f"{record['run_epoch']}-{record['n']}")

    def save(self, record: Record) -> None:
        write_json(self.place(record) + ".json", record)

    def drop(self, record: Record) -> None:
        if os.path.exists(self.place(record) + ".json"):
            os.remove(self.place(record) + ".json")
        shutil.rmtree(self.place(record), ignore_errors=True)

    def commit(self, record: Record, scratch: str) -> None:
        """``scratch`` becomes the snapshot; the oldest ones go."""
        self.drop(record)
        os.replace(scratch, self.place(record))
        self.save(record)
        for old in self.newest_first()[SNAPSHOTS_KEPT:]:
            self.drop(old)

    # -- taking one

    def take(self, path: Any, meta: Record, seen: Any) -> Any:
        """Copy what is at ``path`` unless it is as ``seen``; answers its fingerprint. Raises ``OSError``."""
        scratch = os.path.join(self.directory, "taking")
        for attempt in range(TRIES):
            try:
                found = scan(path)
                before = [each.identity for each in found] or None
                if before is None or before == seen:
                    return before
                files = {os.path.realpath(each.path) for each in found if each.entry.kind == "file"}
                if attempt < TRIES - 1 and is_being_written(files, self.job_uid):
                    time.sleep(QUIET_WAIT_S)
                    continue
                self.copy(path, found, scratch, meta)
                return before
            except OSError as error:
                if error.errno == errno.ENOSPC and attempt < TRIES - 1:
                    self.make_room()
                elif error.errno not in (None, errno.ENOENT):  # those two: it moved while it was read
                    raise
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            time.sleep(0.2)
        raise OSError("the checkpoint kept changing while it was copied; write it aside and rename it into place")

    def copy(self, path: Any, scanned: list[Scanned], scratch: str, meta: Record) -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        linked = []
        for each in scanned:
            target = os.path.join(scratch, each.entry.name)
            if each.entry.kind == "dir":
                os.makedirs(target, exist_ok=True)
            elif each.entry.kind == "file":
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if keep_copy(each.path, target, each.entry.size, self.links):
                    linked.append((target, each.entry))
        if fingerprint(path) != [each.identity for each in scanned]:
            raise Moved("it changed")
        record = self.describe(scanned, scratch, meta)
        if any(is_changed(target, entry) for target, entry in linked):
            self.links = False
            raise Moved("it is written in place")
        self.commit(record, scratch)

    def describe(self, scanned: list[Scanned], scratch: str, meta: Record) -> Record:
        """The record of the files in ``scratch``; what is as it was in an older snapshot is not read again."""
        entries = [each.entry for each in scanned]
        slices = cut(entries)
        identities = [each.identity for each in scanned]
        known = {}
        for old in self.newest_first()[:1]:
            for part, description in zip(old["slices"], old["parts"]):  # noqa: B905 -- Python 3.8
                known[sources(part, old["identities"])] = description
        parts = []
        for part in slices:
            same = known.get(sources(part, identities))
            if same is None:
                reader = PartReader(scratch, entries, part)
                while reader.read(1 << 20):
                    pass
                same = {"size": reader.size, "sha256": reader.sha256.hexdigest()}
            parts.append({"size": same["size"], "sha256": same["sha256"]})
        rows = [list(entry) for entry in entries]
        return {**meta, "entries": rows, "slices": slices, "identities": identities, "parts": parts}

    def recut(self, record: Record, number: int, most_parts: int) -> Record:
        """The same files as checkpoint ``number``, in no more parts than that. Raises ``Corrupt``, ``OSError``."""
        made = {**record, "n": number}
        if number == record["n"] and len(record["parts"]) <= most_parts:
            return record
        if len(record["parts"]) > most_parts:
            self.verify(record)  # what the job has written over since must not become a part of its own
            entries = self.entries(record)
            made["slices"] = cut(entries, most_parts)
            readers = [PartReader(self.place(record), entries, part) for part in made["slices"]]
            made["parts"] = [measure(reader) for reader in readers]
        if number != record["n"]:
            os.replace(self.place(record), self.place(made))
            os.remove(self.place(record) + ".json")
        self.save(made)
        return made

    def make_room(self) -> None:
        """On a full disk: what the store has already need not lie here as well."""
        self.links = True
        for old in [record for record in self.newest_first() if record["uploaded"]][1:]:
            self.drop(old)

    # -- reading one

    def entries(self, record: Record) -> list[Entry]:
        return [Entry(*row) for row in record["entries"]]

    def index(self, record: Record) -> bytes:
        return json.dumps(index_of(self.entries(record), record["slices"], record.get("mlflow_run", ""))).encode()

    def reader(self, record: Record, i: int) -> PartReader:
        """Data part ``i`` to read."""
        return PartReader(self.place(record), self.entries(record), record["slices"][i])

    def restore(self, record: Record, path: str, is_verified: bool = False) -> None:
        """Replace what is at ``path`` by the snapshot, read and compared unless that has just been done.

        Raises ``Corrupt``. What the store has may share its large files with the job: if the job writes into them, this
        snapshot is lost and that in the store is not.
        """
        if not is_verified:
            self.verify(record)
        scratch, source = scratch_beside(path), self.place(record)
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        entries = self.entries(record)
        for entry in entries:
            target = os.path.join(scratch, entry.name)
            if entry.kind == "dir":
                os.makedirs(target, exist_ok=True)
            elif entry.kind == "file":
                os.makedirs(os.path.dirname(target), exist_ok=True)
                keep_copy(os.path.join(source, entry.name), target, entry.size, self.links and record["uploaded"])
        finish(entries, scratch)
        swap_in(scratch, path)
        shutil.rmtree(scratch, ignore_errors=True)

    def verify(self, record: Record) -> None:
        """Raises ``Corrupt`` when its files are not what they were."""
        for i, part in enumerate(record["parts"]):
            reader = self.reader(record, i)
            try:
                while reader.read(1 << 20):
                    pass
            except FileNotFoundError as error:
                raise Corrupt("a file of it is gone from this disk") from error
            if (reader.size, reader.sha256.hexdigest()) != (part["size"], part["sha256"]):
                raise Corrupt("a part of it on this disk has changed")


def sources(part: list[Any], identities: list[Any]) -> str:
    """Where a part's bytes come from: equal for equal bytes, unless somebody set back the time of a file."""
    return json.dumps([[identities[i], offset, length] for i, offset, length in part])


def measure(reader: PartReader) -> Record:
    """Size and SHA-256 of all that it has to read."""
    while reader.read(1 << 20):
        pass
    return {"size": reader.size, "sha256": reader.sha256.hexdigest()}


def is_changed(path: str, entry: Entry) -> bool:
    info = os.stat(path)
    return (info.st_size, info.st_mtime_ns) != (entry.size, entry.mtime_ns)


def copy_part(source: PartReader, target: PartWriter, part: Record) -> None:
    """All of one part, verified. Raises ``Corrupt``."""
    for block in iter(lambda: source.read(1 << 20), b""):
        target.write(block)
    if (source.size, source.sha256.hexdigest()) != (part["size"], part["sha256"]):
        raise Corrupt("a part of it on this disk has changed")
