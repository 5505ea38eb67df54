"""``autopilot pull``: into what directories, and over lines so slow that addresses expire on the way."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sample_daemon import Daemon

from autopilot.agent.shipped.snapshots import Snapshots
from autopilot.cli.main import run

META = {"run_epoch": 1, "n": 1, "step": None, "uploaded": False}


@dataclass
class Store:
    """Parts over HTTP, by number; what begins with ``expired`` is refused."""

    url: str
    parts: list[bytes]

    def answer(self, place: str = "") -> dict[str, Any]:
        rows = [
            {
                "key": f"part-{i}",
                "size": len(part),
                "sha256": hashlib.sha256(part).hexdigest(),
                "url": f"{self.url}/{place}{i}",
            }
            for i, part in enumerate(self.parts)
        ]
        return {"name": "train", "parts": rows}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    work = tmp_path / "work"
    (work / "model").mkdir(parents=True)
    (work / "model/weights").write_bytes(b"w" * 1000)
    snapshots = Snapshots(str(tmp_path / "snapshots"))
    snapshots.take([str(work), "model"], META, None)
    record = snapshots.newest_first()[0]
    readers = [snapshots.reader(record, i) for i in range(len(record["parts"]))]
    parts = [snapshots.index(record), *(reader.read(1 << 20) for reader in readers)]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            body = b"" if name.startswith("expired") else parts[int(name)]
            self.send_response(200 if body else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Store(f"http://127.0.0.1:{server.server_port}", parts)
    server.shutdown()
    thread.join()
    server.server_close()


def test_addresses_that_have_expired_are_asked_for_anew(daemon: Daemon, store: Store, tmp_path: Path) -> None:
    old, new = store.answer("expired"), store.answer()
    old["parts"][0] = new["parts"][0]
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, [old, new]
    assert run(["pull", "train", str(tmp_path / "results")]) == 0
    assert (tmp_path / "results/model/weights").read_bytes() == b"w" * 1000
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["model"]


def test_the_empty_directory_in_which_one_stands_will_do(
    daemon: Daemon, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, store.answer()
    assert run(["pull", "train", "."]) == 0
    assert (here / "model/weights").read_bytes() == b"w" * 1000


def test_an_empty_directory_behind_a_link_is_filled(daemon: Daemon, store: Store, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, store.answer()
    assert run(["pull", "train", str(tmp_path / "link")]) == 0
    assert (tmp_path / "disk/model/weights").exists()


def test_a_pull_that_fails_leaves_nothing(
    daemon: Daemon, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("new", "empty"):
        if name == "empty":
            (tmp_path / name).mkdir()
        daemon.answers["GET /v1/jobs/train/outputs"] = 200, store.answer("expired")
        assert run(["pull", "train", str(tmp_path / name)]) == 1
        assert "403" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []
