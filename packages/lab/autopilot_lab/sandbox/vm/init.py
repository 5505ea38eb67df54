"""The first process of a virtual machine: boots, answers ``systemctl``, and shuts down on SIGTERM or ``poweroff``.

At the first boot of a disk it runs the user data, and never again: later boots start the units that were enabled.
``/run`` is in memory: a boot finds it empty.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from autopilot_lab.sandbox.vm.config import VmConfig
from autopilot_lab.sandbox.vm.dockerd import SOCKET
from autopilot_lab.sandbox.vm.units import Unit, enable, list_enabled

_SHIM = Path(__file__).with_name("shims.py")
_SHIMS = ("systemctl", "poweroff", "nvidia-smi", "apt-get", "iptables", "nvidia-container-runtime")
_DOCKER_GRACE_S = 10.0


class Init:
    def __init__(self, config_path: Path, root: Path, short: Path) -> None:
        """``short``: a directory whose path leaves room for the name of a socket."""
        self.config_path, self.root, self.short = config_path, root, short
        self.config = VmConfig.read(config_path)
        self.units: dict[str, Unit] = {}
        self.docker: subprocess.Popen[bytes] | None = None
        self.events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.lock = threading.RLock()
        self.unit_dir = root / "etc/systemd/system"
        self.env = {
            "PATH": f"{short / 'bin'}:{os.environ['PATH']}",
            "AUTOPILOT_ROOT": str(root),
            "AUTOPILOT_SANDBOX_VM": str(config_path),
            "AUTOPILOT_SANDBOX_INIT": str(short / "init.sock"),
            "DOCKER_HOST": f"unix://{short / SOCKET}",
            "HOME": str(root / "root"),
            "TMPDIR": str(root / "tmp"),
            "LANG": "C.UTF-8",
        }

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.events.put("shut down"))
        self.prepare()
        listener = socketserver.ThreadingUnixStreamServer(str(self.short / "init.sock"), self.handler())
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        threading.Thread(target=self.boot, daemon=True).start()
        self.events.get()
        self.shut_down()

    def prepare(self) -> None:
        shutil.rmtree(self.root / "run", ignore_errors=True)
        for name in ("run", "tmp", "opt", "etc/docker", "etc/systemd/system", "var/lib/cloud", "var/lib/docker"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.short / "bin").mkdir()
        (self.short / "env.json").write_text(json.dumps(self.env))  # for users who log in
        for name in _SHIMS:
            self.link(name)
        if self.has_docker():
            self.link("docker")

    def link(self, name: str) -> None:
        path = self.short / "bin" / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{_SHIM}" {name} "$@"\n')
        path.chmod(0o755)

    def has_docker(self) -> bool:
        return self.config.faults.get("docker") != "absent" or (self.root / "usr/docker-was-installed").exists()

    def boot(self) -> None:
        if self.config.faults.get("docker", "active") == "active" or (self.root / "etc/docker-is-enabled").exists():
            self.start_docker()
        done = self.root / "var/lib/cloud/user-data-was-run"
        if done.exists():
            for path in list_enabled(self.unit_dir):
                self.start(path.name)
            return
        done.touch()
        script = self.root / "var/lib/cloud/user-data"
        script.write_text(self.config.user_data)
        script.chmod(0o700)
        with suppress(OSError):  # one without a first line that names a program is not run
            subprocess.run([str(script)], env=self.env, stdin=subprocess.DEVNULL, cwd=self.root, check=False)

    def answer(self, words: list[str]) -> int:
        """The exit code of the shim."""
        match words:
            case ["poweroff"] | ["systemctl", "poweroff"]:
                self.events.put("power off")
            case ["installed", package]:
                if package.startswith("docker"):
                    (self.root / "usr").mkdir(exist_ok=True)
                    (self.root / "usr/docker-was-installed").touch()
                    self.link("docker")
            case ["systemctl", "daemon-reload"]:
                pass
            case ["systemctl", "enable", "--now", "--no-block", name] | ["systemctl", "enable", "--now", name]:
                return self.enable(name)
            case ["systemctl", "start", name]:
                return self.start(name)
            case ["systemctl", "restart", "docker"]:
                self.stop_docker()
                self.start_docker()
            case ["systemctl", "is-active", name]:
                return 0 if name in self.units and self.units[name].is_active else 3
            case _:
                return 1
        return 0

    def enable(self, name: str) -> int:
        if name == "docker":
            (self.root / "etc/docker-is-enabled").touch()
        elif (self.unit_dir / name).exists():
            enable(self.unit_dir, name)
        return self.start(name)

    def start(self, name: str) -> int:
        with self.lock:
            if name == "docker":
                return 0 if self.has_docker() and self.start_docker() else 5
            path = self.unit_dir / name
            if not path.exists():
                return 5
            unit = self.units.get(name)
            if unit is None or not unit.is_active:
                unit = self.units[name] = Unit(path, self.env, self.config.speed)
                unit.start()
            return 0

    def start_docker(self) -> bool:
        with self.lock:
            if self.docker is None:
                socket = self.short / SOCKET
                socket.unlink(missing_ok=True)
                command = [sys.executable, "-m", "autopilot_lab.sandbox.vm.dockerd", str(self.config_path)]
                env = {**self.env, "PATH": os.environ["PATH"]}
                self.docker = subprocess.Popen([*command, str(self.root), str(socket)], env=env, start_new_session=True)
                while not socket.exists() and self.docker.poll() is None:
                    time.sleep(0.01)
        return True

    def stop_docker(self) -> None:
        with self.lock:
            if self.docker is not None:
                self.docker.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.docker.wait(_DOCKER_GRACE_S / self.config.speed + 5)
                self.docker.kill()
                self.docker.wait()
                self.docker = None

    def shut_down(self) -> None:
        for unit in reversed(self.units.values()):
            unit.stop()
        self.stop_docker()

    def handler(self) -> type[socketserver.StreamRequestHandler]:
        init = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                words: Any = json.loads(self.rfile.readline())
                self.wfile.write(f"{init.answer(words)}\n".encode())

        return Handler


def main() -> int:
    short = Path(sys.argv[2])
    shutil.rmtree(short, ignore_errors=True)
    short.mkdir()
    Init(Path(sys.argv[1]), Path(os.environ["AUTOPILOT_ROOT"]), short).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
