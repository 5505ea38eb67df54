"""Registries for tests: Debian's ``docker-registry`` where it is installed, and one here that asks for tokens.

The second follows the OCI distribution specification as far as pulls need it, and Docker's token flow, which the first
only has with a certificate. Each fault of a registry is a handler that a test puts before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.patience import eventually

DOCKER_REGISTRY = shutil.which("docker-registry") or shutil.which("registry")
USER, PASSWORD = "me", "pass-word"
HTPASSWD = f"{USER}:$2b$05$5PcqyiEJiAOtdKe5sizRGuLplnfugjutP63UPKTeaUXq.v2PFXkTG\n"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
OCTETS = "application/octet-stream"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Content:
    """What lies in a registry: blobs by digest, and manifests by digest and by tag with their media type."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def add_image(self, tag: str | None, architecture: str = "amd64", **config: Any) -> str:
        """The digest of an image with that configuration and one small layer."""
        layer = b"a layer for " + architecture.encode()
        described = {"architecture": architecture, "os": "linux", "config": config, "rootfs": {"type": "layers"}}
        configuration = json.dumps(described).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_blob(configuration, "application/vnd.oci.image.config.v1+json"),
            "layers": [self.add_blob(layer, "application/vnd.oci.image.layer.v1.tar")],
        }
        return self.add_manifest(tag, MANIFEST, manifest)

    def add_index(self, tag: str, images: dict[str, str]) -> str:
        """``images``: digests by architecture; an attestation is added, as buildx does."""
        listed = [
            {
                "mediaType": MANIFEST,
                "digest": digest,
                "size": len(self.manifests[digest][1]),
                "platform": {"os": "linux", "architecture": architecture},
            }
            for architecture, digest in images.items()
        ]
        attested = dict(listed[0], platform={"os": "unknown", "architecture": "unknown"})
        return self.add_manifest(tag, INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": [attested, *listed]})

    def add_blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        self.blobs[digest_of(data)] = data
        return {"mediaType": media_type, "size": len(data), "digest": digest_of(data)}

    def add_manifest(self, tag: str | None, media_type: str, manifest: dict[str, Any]) -> str:
        body = json.dumps(manifest).encode()
        digest = digest_of(body)
        for reference in filter(None, (digest, tag)):
            self.manifests[reference] = media_type, body
        return digest

    async def push(self, url: str, repository: str, *, is_with_login: bool = False) -> None:
        headers = {"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD)} if is_with_login else {}
        async with aiohttp.ClientSession(headers=headers) as http:
            for digest, data in self.blobs.items():
                async with http.post(f"{url}/v2/{repository}/blobs/uploads/") as begun:
                    assert begun.status == 202, await begun.text()
                    place = begun.headers["Location"]
                to = f"{place}{'&' if '?' in place else '?'}digest={digest}"
                async with http.put(to, data=data, headers={"Content-Type": OCTETS}) as ended:
                    assert ended.status == 201, await ended.text()
            for reference, (media_type, body) in self.manifests.items():
                headers = {"Content-Type": media_type}
                async with http.put(f"{url}/v2/{repository}/manifests/{reference}", data=body, headers=headers) as put:
                    assert put.status == 201, await put.text()


@asynccontextmanager
async def docker_registry(root: Path, *, asks_for_login: bool = False) -> AsyncIterator[str]:
    """``host:port`` of Debian's registry on a free port; ends with the block."""
    assert DOCKER_REGISTRY is not None, "docker-registry is not installed"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    (root / "htpasswd").write_text(HTPASSWD)
    auth = {"auth": {"htpasswd": {"realm": "here", "path": str(root / "htpasswd")}}} if asks_for_login else {}
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(root / "data")}},
        "http": {"addr": place},
    }
    (root / "registry.yml").write_text(json.dumps(settings | auth))  # JSON is YAML
    process = _serve(DOCKER_REGISTRY, root)
    try:
        await eventually(lambda: _answers(place), "the registry answers")
        yield place
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _serve(program: str, root: Path) -> subprocess.Popen[bytes]:
    with (root / "log").open("wb") as log:
        return subprocess.Popen(
            [program, "serve", str(root / "registry.yml")],
            env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def _answers(place: str) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://{place}/v2/") as answer:
            return answer.status in (200, 401)
    except aiohttp.ClientError:
        return False


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class TokenRegistry:
    """Asks for a token that its realm gives: to anybody for ``public``, else to ``USER``."""

    content: Content
    place: str = ""
    realm: str = ""
    """Where its challenges lead; empty: to itself."""
    is_public: bool = True
    instead: dict[str, Handler] = field(default_factory=dict)
    """Handlers for the paths that contain the key, in place of its own."""
    seen: list[str] = field(default_factory=list)
    """Method and path of each request."""
    logins: list[str] = field(default_factory=list)
    """Each ``Authorization`` that came to its realm."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        for part, handler in self.instead.items():
            if part in request.path:
                return await handler(request)
        if request.path == "/token":
            return self._give_token(request)
        if request.headers.get("Authorization") != "Bearer let-in":
            return self._challenge()
        _, kind, reference = request.path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "blobs":
            data = self.content.blobs.get(reference)
            return _refuse("BLOB_UNKNOWN") if data is None else web.Response(body=data, content_type=OCTETS)
        found = self.content.manifests.get(reference)
        if found is None:
            return _refuse("MANIFEST_UNKNOWN")
        headers = {"Docker-Content-Digest": digest_of(found[1]), "Content-Type": found[0]}
        return web.Response(body=found[1], headers=headers)

    def _challenge(self) -> web.Response:
        realm = self.realm or f"http://{self.place}/token"
        challenge = f'Bearer realm="{realm}",service="here",scope="repository:me/train:pull"'
        return web.json_response(
            {"errors": [{"code": "UNAUTHORIZED"}]}, status=401, headers={"WWW-Authenticate": challenge}
        )

    def _give_token(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        self.logins.append(b64decode(given.removeprefix("Basic ")).decode() if given else "")
        if self.is_public or self.logins[-1] == f"{USER}:{PASSWORD}":
            return web.json_response({"token": "let-in"})
        return web.json_response({"errors": [{"code": "DENIED"}]}, status=403)


def _refuse(code: str) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": code.lower()}]}, status=404)


@asynccontextmanager
async def token_registry(content: Content) -> AsyncIterator[TokenRegistry]:
    registry = TokenRegistry(content)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", registry.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    registry.place = "{}:{}".format(*runner.addresses[0][:2])
    try:
        yield registry
    finally:
        await runner.cleanup()
