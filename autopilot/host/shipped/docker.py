"""Docker's Engine API over its socket: no command line, so no login and no environment in a list of processes."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from .fault import Fault

ANSWER_S = 30.0
LONGEST_LINE = 1 << 20
_DENIED = re.compile(r"unauthorized|\bdenied\b|authentication required|no basic auth credentials|\b40[13]\b", re.I)
_MISSING = re.compile(r"not found|manifest unknown|no such image|does not exist", re.I)
_FULL = re.compile(r"no space left", re.I)
_AGAIN_IN_VAIN = re.compile(r"toomanyrequests|pull rate limit|no matching manifest", re.IGNORECASE)
"""The daemon knows these words, and what to do."""


class DockerError(Exception):
    """Docker answered that it will not do it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Docker:
    """Every method raises ``OSError`` where docker cannot be asked, and ``DockerError`` where it says no."""

    def __init__(self, path: str) -> None:
        self.path = path

    def is_up(self) -> bool:
        try:
            self.ask("GET", "/_ping")
            return True
        except (OSError, DockerError):
            return False

    def has_image(self, image: str) -> bool:
        return self.exists(f"/images/{quote(image, safe='/:@')}/json")

    def has_container(self, name: str) -> bool:
        return self.exists(f"/containers/{name}/json")

    def exists(self, path: str) -> bool:
        try:
            self.ask("GET", path)
            return True
        except DockerError as error:
            if error.status == 404:
                return False
            raise

    def state(self, name: str) -> dict[str, Any]:
        """``Running``, ``ExitCode`` and more."""
        return dict(self.ask("GET", f"/containers/{name}/json")["State"])

    def names(self) -> list[str]:
        return [each["Names"][0].lstrip("/") for each in self.ask("GET", "/containers/json?all=1")]

    def create(self, name: str, body: dict[str, Any]) -> None:
        """Succeeds if it exists already."""
        try:
            self.ask("POST", f"/containers/create?name={name}", body)
        except DockerError as error:
            if error.status != 409:
                raise

    def start(self, name: str) -> None:
        self.ask("POST", f"/containers/{name}/start")

    def stop(self, name: str, grace_s: int, wait_s: float) -> None:
        """SIGTERM, and SIGKILL after ``grace_s``; fine when it does not run or is not there."""
        try:
            self.ask("POST", f"/containers/{name}/stop?t={grace_s}", wait_s=wait_s)
        except DockerError as error:
            if error.status != 404:
                raise

    def remove(self, name: str) -> None:
        self.ask("DELETE", f"/containers/{name}?force=1&v=1")

    def last_words(self, name: str) -> str:
        with self.answer("GET", f"/containers/{name}/logs?stdout=1&stderr=1&tail=5") as response:
            data = response.read(4000)
        said = re.sub(rb"[\x00-\x02]\x00\x00\x00....", b"", data, flags=re.S)  # frames of a stream without a terminal
        return " ".join(said.decode("utf-8", "replace").split())[-200:]

    def pull(
        self,
        image: str,
        login: dict[str, str] | None,
        ends_at: float,
        tell: Callable[[int], None],
    ) -> None:
        """``ends_at``: by the monotonic clock. ``tell``: takes the percentage. Raises ``Fault`` and ``OSError``."""
        repository, tag = split_image(image)
        headers = {}
        if login is not None:
            headers["X-Registry-Auth"] = base64.urlsafe_b64encode(json.dumps(login).encode()).decode()
        path = "/images/create?" + urlencode({"fromImage": repository, "tag": tag})
        layers: dict[str, tuple[int, int]] = {}
        try:
            wait_s = max(ends_at - time.monotonic(), 0.1)
            with self.answer("POST", path, headers=headers, wait_s=wait_s) as response:
                for line in self.lines(response, ends_at):
                    if line.get("error"):
                        raise pull_fault(str(line["error"]), image)
                    detail = line.get("progressDetail") or {}
                    if line.get("status") == "Downloading" and detail.get("total"):
                        layers[str(line.get("id"))] = int(detail["current"]), int(detail["total"])
                        done = sum(current for current, _ in layers.values())
                        tell(100 * done // max(sum(total for _, total in layers.values()), 1))
        except DockerError as error:
            raise pull_fault(str(error), image) from None

    def lines(self, response: http.client.HTTPResponse, ends_at: float) -> Iterator[dict[str, Any]]:
        while True:
            left = ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError("docker did not get through with it in time")
            if self.connection.sock is not None:  # it is None once all has been read
                self.connection.sock.settimeout(left)
            line = response.readline(LONGEST_LINE)
            if not line:
                return
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value

    def ask(self, method: str, path: str, body: Any = None, wait_s: float = ANSWER_S) -> Any:
        with self.answer(method, path, body, wait_s=wait_s) as response:
            data = response.read(4 << 20)
        try:
            return json.loads(data) if data else None
        except ValueError:
            return None

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        wait_s: float = ANSWER_S,
    ) -> Iterator[http.client.HTTPResponse]:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
        self.connection = connection = _Connection(self.path, wait_s)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise DockerError(response.status, message_of(response.read(10000)))
            yield response
        except http.client.HTTPException as error:
            raise OSError(f"docker's answer was cut off: {type(error).__name__}") from error
        finally:
            connection.close()


def message_of(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace")


def split_image(image: str) -> tuple[str, str]:
    """(repository, tag or digest), as docker reads a name."""
    repository, at, digest = image.partition("@")
    if at:
        return repository.rpartition(":")[0] if ":" in repository.rpartition("/")[2] else repository, digest
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")


def pull_fault(said: str, image: str) -> Fault:
    """A registry may report an image as missing to those without rights to it, so "denied" comes first."""
    said = " ".join(said.split())
    if _DENIED.search(said):
        return Fault("registry_denied", said)
    if _MISSING.search(said):
        return Fault("image_missing", f"{image}: {said}")
    if _FULL.search(said):
        return Fault("disk_full", said)
    return Fault("pull_failed", said, is_final=_AGAIN_IN_VAIN.search(said) is not None)
