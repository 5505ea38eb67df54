"""Downloads of code to the work directory, cut off at any place: they resume, and what was harmed restarts."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.pack import Packed, pack
from autopilot.agent.shipped import chunks, transfer
from autopilot.agent.shipped.code import SCRATCH, CodeDownload
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.shipped.web import Web
from autopilot.code.select import Wanted, select

Objects = dict[str, bytes]


class Store(BaseHTTPRequestHandler):
    objects: Objects
    asked: list[str]

    def do_GET(self) -> None:
        data = self.objects.get(self.path, b"")
        self.asked.append(self.path)
        self.send_response(200 if data else 503)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packed:
    """Of four parts."""
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 1000)
    monkeypatch.setattr(transfer, "RETRY_S", 0.0)
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    for name in ("a", "b", "lib/c", "lib/d"):
        (project / name).write_bytes(os.urandom(900))
    return pack(select(project, Wanted()).files)


@pytest.fixture
def url(packed: Packed) -> Iterator[str]:
    Store.asked = []
    Store.objects = {"/0": packed.data}
    Store.objects |= {f"/{i + 1}": packed.open_part(i).read() for i in range(len(packed.contents.parts))}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def fetch(url: str, packed: Packed, workdir: Path) -> None:
    slot = {"first_part": 0, "part_urls": [f"{url}/{i}" for i in range(5)]}
    moved = transfer.Transfer(lambda: slot, lambda: None, 1.0)
    code: dict[str, Any] = {"sha256": packed.sha256, "size": len(packed.data)}
    CodeDownload(Web(), moved, str(workdir), str(workdir.parent / "code.done")).fetch(code)


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_it_goes_on_where_it_was_cut_off(url: str, packed: Packed, workdir: Path) -> None:
    (workdir / "a").write_text("of the image")
    (workdir / "kept").write_text("of the image")
    last = Store.objects.pop("/4")
    with pytest.raises(OSError, match="503"):
        fetch(url, packed, workdir)
    assert (workdir / "a").read_text() == "of the image", "all of it or nothing"
    brought = set(Store.asked) - {"/4"}
    Store.objects["/4"] = last
    Store.asked.clear()
    fetch(url, packed, workdir)
    assert brought == {"/0", "/1", "/2", "/3"}
    assert sorted(Store.asked) == ["/0", "/4"]
    expected = content(workdir.parent / "project") | {"kept": b"of the image"}
    assert content(workdir) == expected
    assert [path.name for path in workdir.parent.iterdir() if "code" in path.name] == []


@pytest.mark.parametrize("harm", ["hole", "gone", "moved"])
def test_what_a_crash_has_damaged_is_fetched_again(url: str, packed: Packed, workdir: Path, harm: str) -> None:
    last = Store.objects.pop("/4")
    with pytest.raises(OSError, match="503"):
        fetch(url, packed, workdir)
    Store.objects["/4"] = last
    here = workdir / SCRATCH / "checkpoint/a"
    if harm == "hole":
        here.write_bytes(bytes(900))
    elif harm == "gone":
        here.unlink()
    else:
        here.replace(workdir / "a")  # killed while it was put in its place
    with pytest.raises((Corrupt, FileNotFoundError)):
        fetch(url, packed, workdir)
    fetch(url, packed, workdir)
    assert content(workdir) == content(workdir.parent / "project")


@pytest.mark.parametrize("number", [0, 2])
def test_other_bytes_than_the_hash_names_are_refused(url: str, packed: Packed, workdir: Path, number: int) -> None:
    Store.objects[f"/{number}"] = Store.objects[f"/{number}"][::-1]
    with pytest.raises(Corrupt):
        fetch(url, packed, workdir)
    assert not (workdir / "a").exists()


def test_an_index_of_hashes_that_its_files_do_not_have_is_refused(url: str, packed: Packed, workdir: Path) -> None:
    swapped = packed.contents._replace(files=[*packed.contents.files[:-2], *packed.contents.files[:-3:-1]])
    data = swapped.to_json()
    Store.objects["/0"] = data
    other = packed._replace(data=data, sha256=hashlib.sha256(data).hexdigest())
    with pytest.raises(Corrupt, match="not what its index says"):
        fetch(url, other, workdir)


def test_a_link_in_the_way_is_not_followed(url: str, packed: Packed, workdir: Path) -> None:
    elsewhere = workdir.parent / "elsewhere"
    elsewhere.mkdir()
    (workdir / SCRATCH).symlink_to(elsewhere)
    (workdir / "lib").symlink_to(elsewhere)
    fetch(url, packed, workdir)
    assert list(elsewhere.iterdir()) == []
    assert content(workdir) == content(workdir.parent / "project")
