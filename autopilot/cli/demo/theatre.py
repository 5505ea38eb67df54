"""The sandbox market and a daemon as processes of their own, in a directory of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from autopilot.cli.client import Client, Json
from autopilot.cli.exits import CommandError
from autopilot.domain.errors import UserError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 100.0
KEY = "sandbox-key"


class Theatre:
    """``root`` holds everything: ``market/``, ``daemon/``, the logs of both. ``speed``: market seconds a second."""

    def __init__(self, root: Path, *, seed: int, speed: float, tick_s: float = 15.0) -> None:
        self.root = root
        self.speed = speed
        self._seed = seed
        self._tick_s = tick_s
        self._market: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self.market_url = ""
        self.client = Client(root / "daemon" / "s", timeout_s=30)

    def start_market(self) -> None:
        port_file = self.root / "market-port"
        port_file.unlink(missing_ok=True)
        port = self.market_url.rpartition(":")[2] or "0"
        arguments = ["--state-dir", str(self.root / "market"), "--seed", str(self._seed)]
        arguments += ["--speed", str(self.speed), "--port", port, "--port-file", str(port_file)]
        self._market = self._start("market", ["-m", "autopilot.sandbox", *arguments], {})
        self._await("the sandbox market", self._market, port_file.exists)
        self.market_url = f"http://127.0.0.1:{port_file.read_text().strip()}"

    def start_daemon(self) -> None:
        """Start it, for the first time or after a kill, and wait until it answers."""
        self._daemon = self._start("daemon", ["-m", "autopilot.cli.main", "serve"], self.daemon_environment())
        self._await("the daemon", self._daemon, self._answers)

    def daemon_environment(self) -> dict[str, str]:
        """What points a daemon (and the command line) at this theatre, and at nothing else."""
        daemon = self.root / "daemon"
        daemon.mkdir(parents=True, exist_ok=True)
        config_file = self.root / "autopilot.toml"
        config_file.touch()
        key_file = self.root / "key"
        if not key_file.exists():
            key_file.touch(mode=0o600)
            key_file.write_text(KEY)
        return {
            "AUTOPILOT_STATE_DIR": str(daemon),
            "AUTOPILOT_CONFIG": str(config_file),
            "AUTOPILOT_API__SOCKET": str(daemon / "s"),
            "AUTOPILOT_CLOCK__SPEED": str(self.speed),
            "AUTOPILOT_ENGINE__TICK_S": str(self._tick_s),
            "AUTOPILOT_LEDGER__SETTLE_AFTER": "60s",
            "AUTOPILOT_LOG__FORMAT": "json",
            "AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": self.market_url,
            "AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE": str(key_file),
            "AUTOPILOT_PROVIDERS__VASTAI__TIMEOUT_S": "5",
            "CONFIGURATION_DIRECTORY": str(daemon),
            "XDG_CONFIG_HOME": str(daemon),
        }

    def kill_daemon(self) -> None:
        """SIGKILL: no chance to tidy anything."""
        assert self._daemon is not None, "no daemon was started"
        self._daemon.kill()
        self._daemon.wait()

    def stop(self) -> None:
        """Stop the daemon, then the market, which ends every machine that is left."""
        for process in (self._daemon, self._market):
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def emu(self, name: str, body: Json | None = None) -> Any:
        """Call the sandbox's control API: POST with a body, GET without. Raises ``UserError``."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.market_url}/_emu/{name}", data, {"Content-Type": "application/json"})  # noqa: S310
        try:
            with urlopen(request, timeout=30) as answer:  # noqa: S310 - our own market on loopback
                return json.load(answer)
        except HTTPError as problem:
            raise UserError(f"the sandbox refused {name}: {problem.read().decode()}") from None

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self.root.mkdir(parents=True, exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AUTOPILOT_")}
        with open(self.root / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=inherited | environment,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        try:
            return self.client.get("/v1/status")["last_tick_at"] is not None
        except CommandError:
            return False

    def _last_words(self, what: str) -> str:
        lines = (self.root / f"{what.split()[-1]}.log").read_text(errors="replace").strip().splitlines()
        return " ".join(lines[-2:]) or "it said nothing"

    def _await(self, what: str, process: subprocess.Popen[bytes], ready: Any) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"{what} did not start: {self._last_words(what)}")
            time.sleep(0.05)
