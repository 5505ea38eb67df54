"""``autopilot pull``: into what directories, and over lines so slow that addresses expire on the way."""

from __future__ import annotations

import hashlib
import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped.snapshots import Snapshots
from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon

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


def test_expired_addresses_are_requested_again(daemon: Daemon, store: Store, tmp_path: Path) -> None:
    old, new = store.answer("expired"), store.answer()
    old["parts"][0] = new["parts"][0]
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, [old, new]
    assert run(["pull", "train", str(tmp_path / "results")]) == 0
    assert (tmp_path / "results/model/weights").read_bytes() == b"w" * 1000
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["model"]


def test_the_empty_current_directory_is_accepted(
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


def store_of(parts: list[bytes], entries: list[list[Any]]) -> None:
    """Makes ``parts`` the outputs that these entries describe, of empty files."""
    parts[:] = [json.dumps({"v": 1, "root": "checkpoint", "entries": entries, "slices": []}).encode()]


def test_a_host_s_modes_and_times_are_made_sane_here(daemon: Daemon, store: Store, tmp_path: Path) -> None:
    entries = [
        ["checkpoint/model", "dir", 0, 10**40, 0, ""],
        ["checkpoint/model/weights", "file", 0o7777, -5, 0, ""],
        ["checkpoint/model/secret", "file", 0o600, 0, 0, ""],
        ["checkpoint/model/Übersicht\u00a01", "file", 0, 0, 0, ""],
    ]
    store_of(store.parts, entries)
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, store.answer()
    assert run(["pull", "train", str(tmp_path / "results")]) == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "results").rglob("*")}
    assert modes == {"model": 0o700, "weights": 0o755, "secret": 0o600, "Übersicht\u00a01": 0o600}


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "\x1b[31mred", "line\nbreak", "\u202egpj.exe", "n" * 300, ".pulling"]
)
def test_a_name_that_is_more_than_a_name_is_refused_in_a_sentence(
    daemon: Daemon, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    store_of(store.parts, [[f"checkpoint/{name}", "file", 0o644, 0, 0, ""]])
    daemon.answers["GET /v1/jobs/train/outputs"] = 200, store.answer()
    assert run(["pull", "train", str(tmp_path / "results")]) == 1
    said = capsys.readouterr().err
    assert "cannot download the outputs: " in said
    assert "\x1b" not in said
    assert not (tmp_path / "results").exists()
