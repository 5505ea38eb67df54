"""A container runtime that speaks the part of Docker's Engine API that the host program uses.

An image is a directory of the sandbox's images, a container a supervised process tree with a directory as its disk:
``var/lib/docker/containers/<name>/root``. What docker writes to the machine's disk about a container, its environment
in clear among it, lies beside, so that a search of the disk finds what must not be there.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from autopilot_lab.sandbox.boxes import fix_directories, image_directory
from autopilot_lab.sandbox.host_traits import StartStage, find_failure
from autopilot_lab.sandbox.private_images import Login, refusal
from autopilot_lab.sandbox.programs import make_path
from autopilot_lab.sandbox.vm.config import VmConfig

SOCKET = "docker.sock"
_SUPERVISOR = Path(__file__).parents[1] / "supervisor.py"
_STOP_S = 10.0
"""What a container has when the daemon itself ends."""
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", re.ASCII)


class DockerRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class VmContainer:
    def __init__(self, directory: Path, config: dict[str, Any]) -> None:
        self.directory, self.config = directory, config
        self.process: subprocess.Popen[bytes] | None = None
        self.ended = threading.Event()
        self.ended.set()

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set()

    def start(self) -> None:
        if self.is_running:
            return
        root = self.directory / "root"
        env = dict(each.split("=", 1) for each in self.config["Env"])
        path = make_path(self.directory / "programs", self.config["Image"])
        paths = {"PATH": path, "AUTOPILOT_ROOT": str(root), "HOME": str(root / "root")}
        order = {
            "command": [*self.config["Entrypoint"], *self.config["Cmd"]],
            "env": {**env, **paths, "TMPDIR": str(root / "tmp")},
            "cwd": str(root),
            "mode": "container",
        }
        with (self.directory / "json.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
                start_new_session=True,
                bufsize=0,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.ended.clear()
        self.note(Running=True, ExitCode=0)
        threading.Thread(target=self._await_end, daemon=True).start()

    def stop(self, within_s: float) -> None:
        if self.process is None or not self.is_running:
            return
        assert self.process.stdin is not None
        self.process.stdin.write(b"terminate\n")
        if not self.ended.wait(within_s):
            self.process.stdin.close()
            self.ended.wait()

    def note(self, **state: Any) -> None:
        self.config["State"] = state
        (self.directory / "config.v2.json").write_text(json.dumps(self.config))

    def words(self, lines: int) -> bytes:
        try:
            said = (self.directory / "json.log").read_bytes().splitlines(keepends=True)[-lines:]
        except FileNotFoundError:
            return b""
        return b"".join(b"\x01\0\0\0" + len(line).to_bytes(4, "big") + line for line in said)

    def _await_end(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        report = self.process.stdout.readline().split()
        code = int(report[1]) if report else -9
        self.note(Running=False, ExitCode=code if code >= 0 else 128 - code)
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait()
        self.ended.set()


class ContainerDaemon:
    def __init__(self, config_path: Path, root: Path) -> None:
        self.config_path, self.home = config_path, root / "var/lib/docker"
        self.lock = threading.Lock()
        self.containers: dict[str, VmContainer] = {}
        self.was_unavailable = False
        for path in sorted((self.home / "containers").glob("*/config.v2.json")):
            container = VmContainer(path.parent, json.loads(path.read_text()))
            if container.config["State"]["Running"]:
                container.note(Running=False, ExitCode=137)
            self.containers[path.parent.name] = container

    @property
    def config(self) -> VmConfig:
        """As they are now: a fault may come at any time."""
        return VmConfig.read(self.config_path)

    def images(self) -> set[str]:
        path = self.home / "images.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def pull(self, image: str, auth: str | None) -> Iterator[dict[str, Any]]:
        """Lines of progress. Raises ``DockerRefused``."""
        config = self.config
        fault = config.faults.get("pull")
        login = None
        if auth:
            said = json.loads(base64.urlsafe_b64decode(auth))
            login = Login(said["username"], said["password"], said["serveraddress"])
        if (no := refusal(config.private, image, login)) is not None:
            raise DockerRefused(500, no.strip())
        if fault == "missing":
            raise DockerRefused(404, f"manifest for {image} not found: manifest unknown: manifest unknown")
        if fault == "unavailable" and not self.was_unavailable:
            self.was_unavailable = True
            raise DockerRefused(500, "received unexpected HTTP status: 503 Service Unavailable")
        for done in (0, 50, 100):
            yield {"status": "Downloading", "id": "layer", "progressDetail": {"current": done, "total": 100}}
            if fault == "hang":
                threading.Event().wait()
        if fault == "full":
            yield {"error": "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"}
            return
        if error := self.failure_words(image, StartStage.PULL):
            yield {"error": error}
            return
        with self.lock:
            (self.home / "images.json").write_text(json.dumps(sorted(self.images() | {image})))
        yield {"status": f"Downloaded newer image for {image}"}

    def create(self, name: str, body: dict[str, Any]) -> None:
        if not _NAME.fullmatch(name):
            raise DockerRefused(400, f"Invalid container name ({name})")
        image = body["Image"] if ":" in body["Image"].rpartition("/")[2] else body["Image"] + ":latest"
        with self.lock:
            if name in self.containers:
                raise DockerRefused(409, f'Conflict. The container name "/{name}" is already in use')
            if image not in self.images():
                raise DockerRefused(404, f"No such image: {body['Image']}")
            directory = self.home / "containers" / name
            root = directory / "root"
            root.mkdir(parents=True)
            source = image_directory(body["Image"])
            if source is not None:
                shutil.copytree(source, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            fix_directories(root, image)
            for each in ("workspace", "root", "tmp"):
                (root / each).mkdir(exist_ok=True)
            for bind in body["HostConfig"]["Binds"]:
                outside, inside = bind.removesuffix(":ro").split(":")
                mounted = root / inside.lstrip("/")
                mounted.parent.mkdir(parents=True, exist_ok=True)
                mounted.symlink_to(outside, target_is_directory=True)
            container = self.containers[name] = VmContainer(directory, {**body, "Name": name})
            container.note(Running=False, ExitCode=0)

    def start(self, name: str) -> None:
        if self.config.faults.get("start") == "refuse":
            raise DockerRefused(500, 'could not select device driver "nvidia" with capabilities: [[gpu]]')
        container = self.find(name)
        if error := self.failure_words(container.config["Image"], StartStage.CREATE):
            raise DockerRefused(500, error)
        with self.lock:
            container.start()

    def failure_words(self, image: str, stage: StartStage) -> str:
        """What the machine's host says to the image at that stage; nothing where it gets further."""
        failure = find_failure(self.config.host, image)
        return failure.words if failure is not None and failure.stage is stage else ""

    def find(self, name: str) -> VmContainer:
        try:
            return self.containers[name]
        except KeyError:
            raise DockerRefused(404, f"No such container: {name}") from None

    def remove(self, name: str) -> None:
        container = self.find(name)
        container.stop(0)
        with self.lock:
            del self.containers[name]
            shutil.rmtree(container.directory)

    def stop_all(self) -> None:
        stops = [
            threading.Thread(target=each.stop, args=(_STOP_S / self.config.speed,)) for each in self.containers.values()
        ]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    daemon: ContainerDaemon

    def log_message(self, *_: object) -> None:
        """No log of its own."""

    def address_string(self) -> str:
        return "local"

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def do_DELETE(self) -> None:
        self.answer("DELETE")

    def answer(self, method: str) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        words = [unquote(part) for part in url.path.strip("/").split("/")]
        try:
            self.act(method, words, query, body)
        except DockerRefused as no:
            self.reply(no.status, {"message": str(no)})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def act(self, method: str, words: list[str], query: dict[str, str], body: Any) -> None:
        match method, words:
            case _, ["containers", *rest]:
                self.act_on_container(method, rest, query, body)
            case "GET", ["_ping"]:
                self.reply(200, "OK")
            case "GET", ["info"]:
                self.reply(200, {"Runtimes": {"nvidia": {}, "runc": {}}})
            case "POST", ["images", "create"]:
                self.pull(f"{query['fromImage']}{'@' if ':' in query['tag'] else ':'}{query['tag']}")
            case "GET", ["images", *parts, "json"]:
                image = "/".join(parts)
                tagged = image if ":" in image.rpartition("/")[2] else image + ":latest"
                self.reply(200 if tagged in self.daemon.images() else 404, {"message": f"No such image: {image}"})
            case _:
                raise DockerRefused(404, "page not found")

    def act_on_container(self, method: str, words: list[str], query: dict[str, str], body: Any) -> None:
        daemon = self.daemon
        match method, words:
            case "GET", ["json"]:
                self.reply(200, [{"Names": [f"/{name}"]} for name in sorted(daemon.containers)])
            case "POST", ["create"]:
                daemon.create(query["name"], body)
                self.reply(201, {"Id": query["name"], "Warnings": []})
            case "GET", [name, "json"]:
                self.reply(200, daemon.find(name).config)
            case "POST", [name, "start"]:
                daemon.start(name)
                self.reply(204, None)
            case "POST", [name, "stop"]:
                daemon.find(name).stop(float(query["t"]) / daemon.config.speed)
                self.reply(204, None)
            case "GET", [name, "logs"]:
                self.reply_bytes(200, daemon.find(name).words(int(query["tail"])))
            case "DELETE", [name]:
                daemon.remove(name)
                self.reply(204, None)
            case _:
                raise DockerRefused(404, "page not found")

    def pull(self, image: str) -> None:
        lines = self.daemon.pull(image, self.headers.get("X-Registry-Auth"))
        first = next(lines)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in (first, *lines) if first.get("error") else self._chain(first, lines):
            data = json.dumps(line).encode() + b"\r\n"
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _chain(first: dict[str, Any], rest: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield first
        yield from rest

    def reply(self, status: int, body: Any) -> None:
        self.reply_bytes(status, b"" if body is None else json.dumps(body).encode())

    def reply_bytes(self, status: int, data: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)


def main() -> int:
    config_path, root, socket = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    daemon = ContainerDaemon(config_path, root)
    handler = type("BoundHandler", (Handler,), {"daemon": daemon})
    server = socketserver.ThreadingUnixStreamServer(socket, handler)
    server.daemon_threads = True

    def end() -> None:
        daemon.stop_all()
        server.shutdown()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end).start())
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
