"""A download of any size matches its hash: over a real connection."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autopilot.agent.shipped import compress
from autopilot.agent.shipped.download import Download, PartBuffer
from autopilot.agent.shipped.stored import Object
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.shipped.web import Web

DATA = b"weights" * 1000


class Store(BaseHTTPRequestHandler):
    objects: dict[str, bytes]

    def do_GET(self) -> None:
        data = self.objects[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def objects() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Where the store is, and what lies in it."""
    Store.objects = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Store.objects
    server.shutdown()
    server.server_close()
    thread.join()


def a_download() -> Download:
    download = Download.__new__(Download)  # what it receives needs no snapshots
    download.web = Web()
    return download


def a_part(content: bytes, stored: bytes) -> dict[str, Any]:
    kept = Object("part-1", len(stored), hashlib.sha256(stored).hexdigest())
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "stored": kept}


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_part_is_received(objects: tuple[str, dict[str, bytes]], is_compressed: bool) -> None:
    if is_compressed and compress.library() is None:
        pytest.skip("this Python has no zstd")
    url, lying = objects
    stored = compressed(DATA) if is_compressed else DATA
    lying["/part"] = stored
    writer: Any = PartBuffer()  # not to disk
    a_download().receive_part(lambda: url + "/part", writer, a_part(DATA, stored), {}, 1)
    assert bytes(writer.data) == DATA


@pytest.mark.parametrize("is_compressed", [False, True])
def test_other_bytes_of_the_same_size_are_refused(objects: tuple[str, dict[str, bytes]], is_compressed: bool) -> None:
    if is_compressed and compress.library() is None:
        pytest.skip("this Python has no zstd")
    url, lying = objects
    other = DATA[::-1]
    stored = compressed(other) if is_compressed else DATA
    lying["/part"] = stored if is_compressed else other
    writer: Any = PartBuffer()  # not to disk
    with pytest.raises(Corrupt, match="not what its manifest says"):
        a_download().receive_part(lambda: url + "/part", writer, a_part(DATA, stored), {}, 1)


def compressed(data: bytes) -> bytes:
    made = compress.compress(io.BytesIO(data), len(data))
    assert made is not None
    return made
