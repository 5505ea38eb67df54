"""The sandbox market and a daemon as processes of their own, in a directory of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from autopilot.client.answer import Json
from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import DaemonAddress
from autopilot.domain.errors import UserError
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS

KEYS = {
    "vastai": "sandbox-key",
    "runpod": "runpod-sandbox-key",
    "mithril": "mithril-sandbox-key",
    "nebius": "nebius-sandbox-key",
}


class Process(Protocol):
    """What is used of ``subprocess.Popen``."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


class Theatre:
    """``root`` holds everything: ``market/``, ``daemon/``, the logs of both. ``speed``: market seconds a second."""

    start_timeout_s = 90.0
    stop_timeout_s = 100.0
    answer_timeout_s = 30.0
    """Of the daemon, and of the market's control API."""
    market_timeout_s = 5.0
    """Of one exchange between the daemon and a market."""

    def __init__(
        self,
        root: Path,
        *,
        seed: int,
        speed: float,
        tick_s: float = 15.0,
        markets: Sequence[str] = ("vastai",),
        settings: Mapping[str, str] | None = None,
        market_options: Sequence[str] = (),
    ) -> None:
        """``settings``: environment variables for the daemon besides its own. ``market_options``: of the sandbox's
        command line, besides its own."""
        self.root = root
        self._settings = dict(settings or {})
        self._market_options = tuple(market_options)
        self.markets = tuple(markets)
        self.speed = speed
        self._seed = seed
        self._tick_s = tick_s
        self._market: Process | None = None
        self._daemon: Process | None = None
        self.market_url = ""
        self._nebius_url = ""
        self.client = JsonClient(DaemonAddress(root / "daemon" / "s"), timeout_s=self.answer_timeout_s)

    def start_market(self) -> None:
        port_file = self.root / "market-port"
        port_file.unlink(missing_ok=True)
        port = self.market_url.rpartition(":")[2] or "0"
        arguments = ["--state-dir", str(self.root / "market"), "--seed", str(self._seed)]
        arguments += ["--speed", str(self.speed), "--port", port, "--port-file", str(port_file)]
        arguments += ["--runpod-billing-lag", "30", *self._market_options]
        if "nebius" in self.markets:
            arguments += ["--nebius-port", self._nebius_url.rpartition(":")[2] or "0"]
        self._market = self._start("market", "autopilot_lab.sandbox", arguments, {})
        self._await("the sandbox market", self._market, port_file.exists)
        self.market_url = f"http://127.0.0.1:{port_file.read_text().strip()}"
        if "nebius" in self.markets:
            self._nebius_url = str(self.emu("nebius/address")["address"])

    def start_daemon(self) -> None:
        """Start it, for the first time or after a kill, and wait until it answers."""
        self._await("the daemon", self.launch_daemon(), self._answers)

    def launch_daemon(self, *options: str) -> Process:
        """Start it and do not wait."""
        self._daemon = self._start("daemon", "autopilot.cli.main", ["serve", *options], self.daemon_environment())
        return self._daemon

    def daemon_environment(self) -> dict[str, str]:
        """What points a daemon (and the command line) at this theatre, and at nothing else."""
        daemon = self.root / "daemon"
        daemon.mkdir(parents=True, exist_ok=True)
        config_file = self.root / "autopilot.toml"
        config_file.touch()
        markets: dict[str, str] = {}
        for name in self.markets:
            prefix = f"AUTOPILOT_PROVIDERS__{name.upper()}__"
            url = self._nebius_url if name == "nebius" else self.market_url
            markets |= {f"{prefix}BASE_URL": url, f"{prefix}TIMEOUT_S": f"{self.market_timeout_s:g}"}
            markets[f"{prefix}API_KEY_FILE"] = str(self._key_file(name))
            if name == "nebius":
                markets[f"{prefix}PROJECTS"] = json.dumps(PROJECTS)
        return (
            markets
            | self._settings
            | {
                "AUTOPILOT_STATE_DIR": str(daemon),
                "AUTOPILOT_CONFIG": str(config_file),
                "AUTOPILOT_API__SOCKET": str(daemon / "s"),
                "AUTOPILOT_CLOCK__SPEED": str(self.speed),
                "AUTOPILOT_ENGINE__TICK_S": str(self._tick_s),
                "AUTOPILOT_LEDGER__SETTLE_AFTER": "60s",
                "AUTOPILOT_LOG__FORMAT": "json",
                "CONFIGURATION_DIRECTORY": str(daemon),
                "XDG_CONFIG_HOME": str(daemon),
                "XDG_STATE_HOME": str(daemon),
            }
        )

    def _key_file(self, market: str) -> Path:
        path = self.root / f"{market}-key"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(KEYS[market])
        return path

    def kill_daemon(self) -> None:
        """SIGKILL: no chance to tidy anything."""
        assert self._daemon is not None, "no daemon was started"
        self._daemon.kill()
        self._daemon.wait()

    @property
    def pids(self) -> list[int]:
        """The daemon's, then the market's: the order in which to end them by hand."""
        return [process.pid for process in (self._daemon, self._market) if process is not None]

    def stop(self) -> None:
        """Stop the daemon, then the market, which ends every machine that is left."""
        _end(self._daemon, self.stop_timeout_s)
        self.stop_market()

    def stop_market(self) -> None:
        """``start_market`` opens it again at the same address and in the same time, without machines or memory."""
        _end(self._market, self.stop_timeout_s)

    def emu(self, name: str, body: Json | None = None, method: str | None = None) -> Any:
        """Call the sandbox's control API: POST with a body, GET without, or by ``method``. Raises ``UserError``."""
        data = None if body is None else json.dumps(body).encode()
        url, headers = f"{self.market_url}/_emu/{name}", {"Content-Type": "application/json"}
        request = Request(url, data, headers, method=method)  # noqa: S310
        try:
            with urlopen(request, timeout=self.answer_timeout_s) as answer:  # noqa: S310 - our own market on loopback
                return json.load(answer)
        except HTTPError as problem:
            raise UserError(f"the sandbox refused {name}: {problem.read().decode()}") from None

    def _start(self, name: str, module: str, words: list[str], environment: dict[str, str]) -> Process:
        self.root.mkdir(parents=True, exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AUTOPILOT_")}
        return self.start_process(module, words, inherited | environment, self.root / f"{name}.log")

    @staticmethod
    def start_process(module: str, words: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
        """``python -m MODULE WORDS`` in a session of its own, its output appended to ``log``."""
        with open(log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        try:
            return self.client.get("/v1/status")["last_tick_at"] is not None
        except DaemonError:
            return False

    def _last_words(self, what: str) -> str:
        lines = (self.root / f"{what.split()[-1]}.log").read_text(errors="replace").strip().splitlines()
        return " ".join(lines[-2:]) or "it said nothing"

    def _await(self, what: str, process: Process, ready: Any) -> None:
        deadline = time.monotonic() + self.start_timeout_s
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"{what} did not start: {self._last_words(what)}")
            time.sleep(0.05)


def _end(process: Process | None, within_s: float) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
