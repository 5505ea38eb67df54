"""Copies of the checkpoint on the local disk: ``<run_epoch>-<n>/``, complete once its ``.json`` is there.

Such a record says everything about a checkpoint: its entries, which slices of them make which part, and the size and
SHA-256 of each part. The index, the first part that is sent, is made from it and is not among these parts.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from typing import Any, Dict  # noqa: UP035 -- Python 3.8 cannot subscript dict

from .chunks import MAX_INDEX_BYTES, PartReader, PartWriter, cut, index_of
from .disk import keep_copy, read_json, write_json
from .tree import MAX_ENTRIES, Corrupt, Entry, Scanned, finish, scan, scratch_beside, swap_in

SNAPSHOTS_KEPT = 2
TRIES = 5
RETRY_S = 0.2

Record = Dict[str, Any]  # noqa: UP006


class Moved(OSError):
    """The checkpoint changed while it was read."""


class TooMany(OSError):
    """There are more files than a checkpoint can have."""


class Snapshots:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.links = True  # until a job is seen to write into the files that it has saved
        os.makedirs(directory, exist_ok=True)

    def newest_first(self) -> list[Record]:
        names = [name for name in os.listdir(self.directory) if name.endswith(".json")]
        found = [read_json(os.path.join(self.directory, name)) for name in names]
        return sorted(filter(None, found), key=lambda record: (record["run_epoch"], record["n"]), reverse=True)

    def best(self) -> Record | None:
        """The newest complete snapshot, or the newest one if none is complete."""
        return max(self.newest_first(), key=rank, default=None)

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
        best = self.best()
        for old in self.newest_first()[SNAPSHOTS_KEPT:]:
            if old != best:
                self.drop(old)

    # -- taking one

    def take(self, path: Any, meta: Record, judge: Any = None) -> bool:
        """Copy what is at ``path``, as much of it as the judge chooses; answers whether there is a new copy.

        Raises ``OSError``.
        """
        scratch = os.path.join(self.directory, "taking")
        judge = judge or Everything()
        for attempt in range(TRIES):
            try:
                chosen = judge.choose(scan(path))
                if not chosen:
                    return False
                self.copy(path, chosen, scratch, {**meta, **judge.says()}, judge)
                judge.note_taken()
                return True
            except OSError as error:
                shutil.rmtree(scratch, ignore_errors=True)
                if error.errno == errno.ENOSPC:
                    if not self.make_room():
                        raise self.full(path, error) from error
                elif error.errno not in (None, errno.ENOENT) or isinstance(error, TooMany):
                    raise  # else: it moved while it was read
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            if attempt < TRIES - 1:
                time.sleep(RETRY_S)
        raise Moved("the checkpoint kept changing while it was copied; write it aside and rename it into place")

    def copy(self, path: Any, chosen: list[Scanned], scratch: str, meta: Record, judge: Any) -> None:
        check_index([each.entry for each in chosen])
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        linked = []
        for each in chosen:
            target = os.path.join(scratch, each.entry.name)
            if each.entry.kind == "dir":
                os.makedirs(target, exist_ok=True)
            elif each.entry.kind == "file":
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if keep_copy(each.path, target, each.entry.size, self.links and not meta.get("suspect")):
                    linked.append((target, each.entry))
        if not judge.is_still(scan(path), scratch):
            raise Moved("it changed")
        record = self.describe(chosen, scratch, meta)
        if any(is_changed(target, entry) for target, entry in linked):
            self.links = False
            raise Moved("it is written in place")
        self.commit(record, scratch)

    def full(self, path: Any, error: OSError) -> OSError:
        """Says by how much there is too little room, and who makes some."""
        with contextlib.suppress(OSError):
            needed = sum(each.entry.size for each in scan(path))
            free = shutil.disk_usage(self.directory).free
            return OSError(
                errno.ENOSPC,
                f"No space left on device: the checkpoint has {needed / 1e6:.1f} MB and {free / 1e6:.1f} MB of the"
                " disk are free. Nothing new is saved until the job removes files, or has a larger disk"
                " ([resources] disk). The agent keeps trying",
            )
        return error

    def describe(self, scanned: list[Scanned], scratch: str, meta: Record) -> Record:
        """The record of the files in ``scratch``; what is as it was in an older snapshot is not read again."""
        entries = [each.entry for each in scanned]
        slices = cut(entries)
        identities = [each.identity for each in scanned]
        known = {}
        for old in filter(None, [self.best(), *self.newest_first()[:1]]):
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

    def make_room(self) -> bool:
        """On a full disk: what the store has already need not lie here as well. Answers whether something went."""
        self.links = True
        best = self.best()
        surplus = [record for record in self.newest_first() if record["uploaded"]][1:]
        surplus = [record for record in surplus if record != best]
        for old in surplus:
            self.drop(old)
        return bool(surplus)

    def as_kept(self, record: Record) -> list[Scanned]:
        """Its files as they lie here."""
        place = self.place(record)
        rows = zip(self.entries(record), record["identities"])  # noqa: B905 -- Python 3.8
        return [Scanned(entry, os.path.join(place, entry.name), identity) for entry, identity in rows]

    def refuse_harmed(self, each: Scanned) -> None:
        """Raises ``Moved`` if the job has written into a file that lies here under another name."""
        if each.entry.kind == "file" and is_harmed(each.path, each.entry):
            self.links = False
            raise Moved(f"the job writes into {each.entry.name}, and what that was before is lost")

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


class Everything:
    """Takes all of it as it is, once it has kept still while it was copied; not again what is as it was."""

    def __init__(self, seen: Any = None) -> None:
        self.seen = self.identities = seen
        self.scanned: list[Scanned] = []

    def choose(self, scanned: list[Scanned]) -> list[Scanned]:
        self.scanned, self.identities = scanned, [each.identity for each in scanned]
        return [] if self.identities == self.seen else scanned

    def is_still(self, scanned: list[Scanned], copies: str) -> bool:
        return bool([each.identity for each in scanned] == self.identities)

    def says(self) -> Record:
        return {}

    def note_taken(self) -> None:
        pass


def rank(record: Record) -> tuple[bool, int, int]:
    """Of two checkpoints, the one with the greater rank is restored."""
    return not record.get("suspect"), int(record["run_epoch"]), int(record["n"])


def check_index(entries: list[Entry]) -> None:
    """Raises ``TooMany`` for more files than a checkpoint can name: before anything is copied."""
    size = len(json.dumps(index_of(entries, cut(entries))))
    if size > MAX_INDEX_BYTES or len(entries) > MAX_ENTRIES:
        raise TooMany(
            f"nothing is saved: there are {len(entries)} files, whose names take {size / 1e6:.1f} MB. A checkpoint may"
            f" have {MAX_ENTRIES} and {MAX_INDEX_BYTES / 1e6:.1f} MB of names. The job must pack them into fewer, as"
            " with tar, or save less ([checkpoint] path)"
        )


def is_harmed(path: str, entry: Entry) -> bool:
    """Whether it is another name of a file that the job has written to since."""
    info = os.stat(path)
    return info.st_size != entry.size or (info.st_nlink > 1 and info.st_mtime_ns != entry.mtime_ns)


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
