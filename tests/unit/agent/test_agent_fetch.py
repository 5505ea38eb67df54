"""A checkpoint comes down whole and verified, goes on where it was cut off, and asks for nothing that is here."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import compress, download, transfer
from autopilot.agent.shipped.download import Download, check_parts, read_manifest
from autopilot.agent.shipped.snapshots import Snapshots
from autopilot.agent.shipped.stored import Object, Stored
from autopilot.agent.shipped.transfer import Transfer
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.shipped.web import BLOCK_BYTES, Web

LEASE = "lease-1"
SMALL, LARGE = b"optimizer" * 100, bytes(range(256)) * 4096 * 5  # 5 MB: parts of their own


class Store:
    """Objects over HTTP, by part number and ``manifest``. Knows what was asked, and cuts what it is told to."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.cut_at: dict[str, int] = {}
        """The next answer for that object ends after so many bytes."""
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                store.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name, wanted = request.path[1:], request.headers.get("Range")
        self.asked.append((name, wanted))
        if name not in self.objects:
            request.send_error(404)
            return
        data, first = self.objects[name], int(wanted[6:-1]) if wanted else 0
        request.send_response(206 if wanted else 200)
        if wanted:
            request.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(data) - first))
        request.end_headers()
        request.wfile.write(data[first : self.cut_at.pop(name, len(data))])
        request.close_connection = True

    def parts_asked(self) -> list[str]:
        return sorted({name for name, _ in self.asked if name != "manifest"})


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(transfer, "RETRY_S", 0.001)
    store = Store()
    thread = threading.Thread(target=store.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield store
    store.server.shutdown()
    store.server.server_close()
    thread.join()


def publish(store: Store, directory: Path, number: int = 1, epoch: int = 1, squeeze: bool = False) -> dict[str, Any]:
    """Put a checkpoint of ``directory`` into the store; answers its record."""
    there = Snapshots(str(directory) + f".there-{epoch}-{number}")
    there.take(str(directory), {"run_epoch": epoch, "n": number, "step": 7, "uploaded": True}, None)
    (record,) = there.newest_first()
    contents = [there.index(record), *(there.reader(record, i).read() for i in range(len(record["parts"])))]
    rows = []
    for i, content in enumerate(contents):
        small = compress.compress(io.BytesIO(content), len(content)) if squeeze and i else None
        store.objects[str(i)] = stored = small or content
        row = {"key": f"part-{i}", "size": len(stored), "sha256": hashlib.sha256(stored).hexdigest()}
        if small:
            row |= {"content_size": len(content), "content_sha256": hashlib.sha256(content).hexdigest()}
        rows.append(row)
    manifest = {"run_epoch": epoch, "n": number, "step": 7, "parts": rows}
    store.objects["manifest"] = json.dumps(manifest).encode()
    return record


@pytest.fixture
def job(tmp_path: Path) -> Path:
    directory = tmp_path / "ckpt"
    directory.mkdir()
    (directory / "a").write_bytes(SMALL)
    (directory / "b").write_bytes(LARGE)
    return directory


class Machine:
    def __init__(self, store: Store, directory: Path) -> None:
        slot = {"first_part": 0, "part_urls": [f"{store.url}{i}" for i in range(5)]}
        self.snapshots = Snapshots(str(directory))
        self.stored = Stored(str(directory / "stored"))
        transfer = Transfer(lambda: slot, lambda: None, 1.0)
        self.download = Download(Web(), self.snapshots, self.stored, transfer)
        self._restore = {"manifest_url": store.url + "manifest", "lease": LEASE}

    def fetch(self) -> bool:
        self.download.transfer.failure = None
        return self.download.fetch(self._restore)

    def restored(self, to: Path) -> dict[str, bytes]:
        self.snapshots.restore(self.snapshots.newest_first()[0], str(to))
        return {file.name: file.read_bytes() for file in to.iterdir()}


@pytest.fixture
def machine(store: Store, tmp_path: Path) -> Machine:
    return Machine(store, tmp_path / "snapshots")


@pytest.mark.parametrize("squeeze", [False, True])
def test_all_of_it_comes_down_once(store: Store, job: Path, machine: Machine, tmp_path: Path, squeeze: bool) -> None:
    record = publish(store, job, squeeze=squeeze)
    assert machine.fetch(), "all of it was fetched just now"
    assert machine.restored(tmp_path / "back") == {"a": SMALL, "b": LARGE}
    (here,) = machine.snapshots.newest_first()
    for key in ("run_epoch", "n", "step", "uploaded", "slices", "entries"):
        assert here[key] == record[key], key
    assert [(part["size"], part["sha256"]) for part in here["parts"]] == [
        tuple(part.values()) for part in record["parts"]
    ]
    assert {wanted for _, wanted in store.asked} == {None}, "nothing is asked for from its middle on"
    assert machine.download.keys == {i: f"{LEASE}/ckpt/1/part-{i}" for i in range(3)}
    objects = machine.stored.list_objects(LEASE, 1)
    assert objects[here["parts"][0]["sha256"], here["parts"][0]["size"]].key == f"{LEASE}/ckpt/1/part-1"
    store.asked.clear()
    assert not machine.fetch(), "it is here"
    assert store.parts_asked() == []


def test_an_older_one_is_not_fetched_over_a_newer_one(store: Store, job: Path, machine: Machine) -> None:
    publish(store, job, number=3)
    machine.fetch()
    publish(store, job, number=2)
    assert not machine.fetch()
    publish(store, job, number=1, epoch=2)
    assert machine.fetch(), "a later run's first is newer than an earlier run's third"


def test_of_a_newer_one_only_what_changed_is_asked_for(
    store: Store, job: Path, machine: Machine, tmp_path: Path
) -> None:
    publish(store, job)
    machine.fetch()
    (job / "a").write_bytes(SMALL[::-1])
    publish(store, job, number=2)
    store.asked.clear()
    assert machine.fetch()
    assert store.parts_asked() == ["0", "2"]
    assert machine.restored(tmp_path / "back") == {"a": SMALL[::-1], "b": LARGE}


def test_a_copy_on_this_disk_that_has_changed_is_not_used(
    store: Store, job: Path, machine: Machine, tmp_path: Path
) -> None:
    publish(store, job)
    machine.fetch()
    (record,) = machine.snapshots.newest_first()
    (Path(machine.snapshots.place(record)) / "checkpoint/b").write_bytes(LARGE[::-1])
    (job / "a").write_bytes(SMALL[::-1])
    publish(store, job, number=2)
    machine.fetch()
    assert machine.restored(tmp_path / "back") == {"a": SMALL[::-1], "b": LARGE}


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_part_goes_on_where_it_was_cut_off(
    store: Store, job: Path, machine: Machine, tmp_path: Path, squeeze: bool
) -> None:
    publish(store, job, squeeze=squeeze)
    part = max(("1", "2"), key=lambda name: len(store.objects[name]))
    cut = min(BLOCK_BYTES, len(store.objects[part]) // 2)
    store.cut_at[part] = cut
    assert machine.fetch()
    assert machine.restored(tmp_path / "back") == {"a": SMALL, "b": LARGE}
    assert [wanted for name, wanted in store.asked if name == part] == [None, f"bytes={cut}-"]


def test_a_fetch_goes_on_with_the_parts_that_an_earlier_one_brought(
    store: Store, job: Path, machine: Machine, tmp_path: Path
) -> None:
    publish(store, job)
    missing = store.objects.pop("2")
    with pytest.raises(OSError, match="404"):
        machine.fetch()
    assert machine.snapshots.newest_first() == []
    store.objects["2"] = missing
    store.asked.clear()
    again = Machine(store, tmp_path / "snapshots")
    assert not again.fetch(), "a crash of the host may have left holes in what was here"
    assert store.parts_asked() == ["0", "2"]
    assert again.restored(tmp_path / "back") == {"a": SMALL, "b": LARGE}
    assert not Path(again.download.journal).exists()


def test_what_was_brought_of_another_checkpoint_is_dropped(
    store: Store, job: Path, machine: Machine, tmp_path: Path
) -> None:
    publish(store, job)
    del store.objects["2"]
    with pytest.raises(OSError, match="404"):
        machine.fetch()
    (job / "c").write_bytes(b"new")
    publish(store, job, number=2)
    assert machine.fetch()
    assert machine.restored(tmp_path / "back") == {"a": SMALL, "b": LARGE, "c": b"new"}


def test_a_part_of_other_bytes_is_never_restored(store: Store, job: Path, machine: Machine) -> None:
    publish(store, job)
    store.objects["1"] = store.objects["1"][::-1]
    with pytest.raises(Corrupt, match="a part of it is not what its manifest says"):
        machine.fetch()
    assert machine.snapshots.newest_first() == []


def test_an_index_that_is_too_large_is_not_asked_for(
    store: Store, job: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, job)
    monkeypatch.setattr(download, "MAX_INDEX_BYTES", len(store.objects["0"]))
    assert machine.fetch()
    publish(store, job, number=2)
    monkeypatch.setattr(download, "MAX_INDEX_BYTES", len(store.objects["0"]) - 1)
    store.asked.clear()
    with pytest.raises(Corrupt, match="its index is too large"):
        machine.fetch()
    assert store.parts_asked() == []


# -- manifests

PART = {"key": "part-0", "size": 5, "sha256": "a" * 64}
MANIFEST = {"run_epoch": 1, "n": 2, "step": None, "parts": [PART]}


def test_a_manifest_s_own_keys_are_those_of_its_lease() -> None:
    other = {**PART, "key": "lease-0/ckpt/1/part-3", "content_size": 9, "content_sha256": "b" * 64}
    meta, parts = read_manifest(json.dumps({**MANIFEST, "parts": [PART, other]}).encode(), LEASE)
    assert meta == {"run_epoch": 1, "n": 2, "step": None, "uploaded": True}
    assert parts == [
        {"size": 5, "sha256": "a" * 64, "stored": Object(f"{LEASE}/ckpt/2/part-0", 5, "a" * 64)},
        {"size": 9, "sha256": "b" * 64, "stored": Object("lease-0/ckpt/1/part-3", 5, "a" * 64)},
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"parts": []},
        {"run_epoch": -1},
        {"n": True},
        {"n": "2"},
        {"n": 1.0},
        {"parts": [{**PART, "size": -1}]},
        {"parts": [{**PART, "content_sha256": "b" * 64, "content_size": -1}]},
        {"parts": [{**PART, "key": "../part-0"}]},
        {"parts": [{**PART, "key": "part-0/"}]},
        {"parts": [{**PART, "key": "lease/ckpt/1/part-0/x"}]},
        {"parts": [{**PART, "key": 5}]},
        {"parts": [{"key": "part-0"}]},
        {"parts": 5},
    ],
)
def test_a_manifest_that_makes_no_sense_cannot_be_read(change: dict[str, Any]) -> None:
    read_manifest(json.dumps(MANIFEST).encode(), LEASE)
    with pytest.raises(Corrupt, match="its manifest cannot be read"):
        read_manifest(json.dumps({**MANIFEST, **change}).encode(), LEASE)


def test_a_part_has_one_size_and_an_index_is_plain() -> None:
    plain = {"size": 5, "sha256": "a", "stored": Object("part-0", 5, "a")}
    squeezed = {"size": 9, "sha256": "b", "stored": Object("part-1", compress.MOST_BYTES, "c")}
    check_parts([plain, squeezed])
    with pytest.raises(Corrupt, match="two sizes"):
        check_parts([plain, {**plain, "size": 6}])
    with pytest.raises(Corrupt, match="must not be"):
        check_parts([squeezed])
    with pytest.raises(Corrupt, match="must not be"):
        check_parts([plain, {**squeezed, "stored": Object("part-1", compress.MOST_BYTES + 1, "c")}])
