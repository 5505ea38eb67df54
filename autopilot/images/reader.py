"""What an image says of itself, by the OCI distribution protocol and with the fewest requests.

A HEAD of its manifest gives the digest, which Docker Hub does not count as a pull. Only for a digest that is not known
yet are manifest and configuration read, each by its own digest, and held against it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import structlog

from autopilot.domain.image import READ_VARIABLES, USUAL_ARCHITECTURE, ImageFacts, ImageName, read_image_name
from autopilot.domain.registry import DOCKER_HUB, RegistryLogin
from autopilot.images.authorization import authorize
from autopilot.images.calls import RegistryCalls, RegistryFailed, RegistryReply
from autopilot.ports.images import ImageAnswer, NoSuchImage, NotRead

log = structlog.get_logger(__name__)

READ_REAL_S = 20.0
"""For all requests of one image together."""
AT_ONCE = 4
MOST_WAITING = 64
"""Images that may be read or wait for their turn: registries that answer slowly must not pile up tasks."""
MOST_KEPT = 200
"""Digests whose facts are kept in memory: those that were used last."""
API_HOSTS = {DOCKER_HUB: "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
"""Where a registry answers, if not under its own name."""

_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_ACCEPTED = ", ".join((*_INDEXES, *_MANIFESTS))
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class RegistryReader:
    """``local``: registries in the daemon's own network, as ``host:port``; ``others``: whether any other is asked."""

    def __init__(self, local: Collection[str] = (), *, others: bool = True) -> None:
        self._calls = RegistryCalls(local)
        self._others = others
        self._known: OrderedDict[str, ImageFacts] = OrderedDict()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def read(self, image: str, login: RegistryLogin | None) -> ImageAnswer:
        name = read_image_name(image)
        host = API_HOSTS.get(name.server, name.server)
        if not self._others and not self._calls.is_local(host):
            return NotRead("registries are not asked")
        if self._waiting >= MOST_WAITING:
            return NotRead("too many images are read now")
        self._waiting += 1
        try:
            async with self._turn, asyncio.timeout(READ_REAL_S):
                return await self._read(_Registry(self._calls, host, name, login))
        except RegistryFailed as problem:
            reason = str(problem)
        except TimeoutError:
            reason = f"no whole answer within {READ_REAL_S:g} s"
        finally:
            self._waiting -= 1
        log.info("image.not_read", server=name.server, repository=name.repository, reason=reason)
        return NotRead(f"{name.server}: {reason}")

    async def _read(self, registry: _Registry) -> ImageFacts | NoSuchImage:
        """Raises ``RegistryFailed``."""
        reference = registry.name.reference
        reply = await registry.ask("HEAD", f"manifests/{reference}")
        if reply.status == 404:
            return await registry.explain_absence()
        _check(reply)
        digest = reply.headers.get("Docker-Content-Digest", "")
        if _DIGEST.fullmatch(digest) is None:
            body = await registry.fetch(f"manifests/{reference}")
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        facts = self._known.get(digest) or await _read_by_digest(registry, digest)
        self._known[digest] = facts
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return facts


class _Registry:
    """One repository of a registry; a login or token is asked for once, when the registry first wants one."""

    def __init__(self, calls: RegistryCalls, host: str, name: ImageName, login: RegistryLogin | None) -> None:
        self._calls = calls
        self._host = host
        self.name = name
        self._login = login if login is not None and login.server == name.server else None
        self._authorization: str | None = None
        self._asked_for_token = False

    async def ask(self, method: str, path: str) -> RegistryReply:
        reply = await self._ask_once(method, path)
        if reply.status != 401 or self._asked_for_token:
            return reply
        self._asked_for_token = True
        challenge = reply.headers.get("WWW-Authenticate", "")
        self._authorization = await authorize(
            self._calls, self._host, self.name.server, self.name.repository, challenge, self._login
        )
        return reply if self._authorization is None else await self._ask_once(method, path)

    async def _ask_once(self, method: str, path: str) -> RegistryReply:
        headers = {"Accept": _ACCEPTED if path.startswith("manifests/") else "*/*"}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        address = self._calls.address_of(self._host, f"/v2/{self.name.repository}/{path}")
        return await self._calls.call(method, address, headers)

    async def fetch(self, path: str) -> bytes:
        reply = await self.ask("GET", path)
        _check(reply)
        return reply.body

    async def fetch_json(self, kind: str, digest: object) -> dict[str, Any]:
        """What lies under that digest, held against it. Raises ``RegistryFailed``."""
        if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
            raise RegistryFailed("it names something without a SHA-256 digest")
        reply = await self.ask("GET", f"{kind}/{digest}")
        _check(reply)
        if f"sha256:{hashlib.sha256(reply.body).hexdigest()}" != digest:
            raise RegistryFailed(f"what it sent is not {digest}")
        return reply.read_json()

    async def explain_absence(self) -> NoSuchImage:
        """A HEAD has no body, so it is asked once more. What is not clear raises ``RegistryFailed``."""
        reply = await self.ask("GET", f"manifests/{self.name.reference}")
        if reply.status == 404 and "MANIFEST_UNKNOWN" in _codes(reply):
            what = self.name.reference if self.name.is_digest else f"tag {self.name.reference!r}"
            return NoSuchImage(f"{self.name.server} has no {what} of {self.name.repository} (manifest unknown)")
        raise RegistryFailed(f"it answered {reply.status} for {self.name.repository}")


async def _read_by_digest(registry: _Registry, digest: str) -> ImageFacts:
    top = await registry.fetch_json("manifests", digest)
    manifest = top
    platforms: tuple[tuple[str, object], ...] = ()
    if "manifests" in top:
        platforms = _platforms(top)
        if not platforms:
            raise RegistryFailed("its index names no image for Linux")
        chosen = next((each for each in platforms if each[0] == USUAL_ARCHITECTURE), platforms[0])
        manifest = await registry.fetch_json("manifests", chosen[1])
    described = manifest.get("config")
    configuration = await registry.fetch_json("blobs", described.get("digest") if isinstance(described, dict) else None)
    of_container = configuration.get("config")
    return _facts(digest, [each for each, _ in platforms], configuration, of_container or {}, manifest)


def _platforms(index: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    """(architecture, digest) of its images for Linux; attestations have no platform."""
    listed = index["manifests"] if isinstance(index["manifests"], list) else []
    described = [(each, each.get("platform")) for each in listed if isinstance(each, dict)]
    return tuple(
        (str(platform.get("architecture")), each.get("digest"))
        for each, platform in described
        if isinstance(platform, dict) and platform.get("os") == "linux"
    )


def _facts(
    digest: str, architectures: list[str], configuration: dict[str, Any], of_container: Any, manifest: dict[str, Any]
) -> ImageFacts:
    if not isinstance(of_container, dict):
        raise RegistryFailed("its configuration is not that of an image")
    own = configuration.get("architecture")
    variables = [each.partition("=") for each in _texts(of_container.get("Env"))]
    layers = manifest.get("layers")
    sizes = [each.get("size") for each in layers if isinstance(each, dict)] if isinstance(layers, list) else []
    return ImageFacts(
        digest=digest,
        architectures=tuple(dict.fromkeys(architectures or ([own] if isinstance(own, str) and own else []))),
        variables=tuple((name, value) for name, _, value in variables if name.startswith(READ_VARIABLES)),
        entrypoint=_texts(of_container.get("Entrypoint")),
        user=of_container["User"] if isinstance(of_container.get("User"), str) else "",
        layers_bytes=sum(size for size in sizes if isinstance(size, int) and size > 0),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _check(reply: RegistryReply) -> None:
    if reply.status in (401, 403):
        raise RegistryFailed("it does not give the image without a login, or not to this one")
    if reply.status == 429:
        raise RegistryFailed("it has had too many requests from here (429)")
    if reply.status != 200:
        raise RegistryFailed(f"it answered {reply.status}")


def _codes(reply: RegistryReply) -> set[object]:
    errors = reply.read_json().get("errors")
    return {each.get("code") for each in errors if isinstance(each, dict)} if isinstance(errors, list) else set()
