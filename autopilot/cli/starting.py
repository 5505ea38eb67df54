"""A daemon for this user where none runs: started apart from the terminal, and waited for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.login_item import COMMAND
from autopilot.client.errors import DaemonError, NotRunning
from autopilot.client.json_client import JsonClient
from autopilot.config import paths

LOG_NAME = "daemon.log"
MOST_LOG_BYTES = 16 << 20
"""A longer one of an earlier start is moved aside before the next."""
ANSWERS_WITHIN_S = 120.0
OTHER_WITHIN_S = 60.0
"""For another one that holds the ledger: one that does not answer by then listens elsewhere, or hangs."""
LOOK_EVERY_S = 0.2
_LAST_WORDS_BYTES = 16_384


def connect() -> JsonClient:
    """A client of the daemon that the user means, which answers; one is started where this user's own does not run.

    Exactly one holds a ledger: where two are started at once, one of them ends, and both callers find the other. A
    daemon elsewhere, one that asks for a token and the system's are never started from here. Raises ``UserError``.
    """
    client = JsonClient()
    if client.address.socket is None or client.address.token:
        return client
    try:
        client.status()
    except NotRunning as problem:
        if (directory := _find_own_state_dir()) is None:
            raise problem from None
        _start(client, directory)
    return client


def _find_own_state_dir() -> Path | None:
    """Of the daemon that this user may start. None: it is the system's, or several share its ledger on a server, and
    the one that leads may be elsewhere. Raises ``UserError``."""
    if os.path.exists(paths.system_config_dir() / paths.CONFIG_NAME):
        return None
    from autopilot.config.settings import load_settings
    from autopilot.service.identity import prepare_state_dir
    from autopilot.store.urls import postgres_url

    settings = load_settings()
    if postgres_url(settings.ledger_url) is not None:
        return None
    prepare_state_dir(settings.state_dir)
    return settings.state_dir


def _start(client: JsonClient, directory: Path) -> None:
    log = directory / LOG_NAME
    if log.exists() and log.stat().st_size > MOST_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with open(os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "rb") as output:
        began = os.fstat(output.fileno()).st_size
        _say(f"no daemon runs at {client.address.name}: starting one; its log is {log}")
        daemon = subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives the terminal, and Ctrl-C is not for it
        )
        found = _await(client, daemon)
        if found is None:
            raise _explain(daemon, _read_errors(log, began), log)
    if found == daemon.pid:
        _say(f"the daemon runs (pid {found}) until this machine is shut down, or: kill {found}")
        _say("to start it at each login: autopilot serve --print-unit")
    else:
        _say(f"another daemon (pid {found}) has started meanwhile: it is used")


def _await(client: JsonClient, daemon: subprocess.Popen[bytes]) -> int | None:
    """The pid of the daemon that answers, ours or another; None: ours has ended, or none answers in time."""
    until, is_other = time.monotonic() + ANSWERS_WITHIN_S, False
    while time.monotonic() < until:
        with contextlib.suppress(DaemonError):
            return int(client.status()["pid"])
        code = daemon.poll()
        if code == Exit.OTHER_DAEMON and not is_other:
            is_other, until = True, min(until, time.monotonic() + OTHER_WITHIN_S)
            _say("another daemon is starting: waiting for it")
        elif code is not None and not is_other:
            return None
        time.sleep(LOOK_EVERY_S)
    return None


def _explain(daemon: subprocess.Popen[bytes], said: dict[str, str], log: Path) -> CommandError:
    code = daemon.poll()
    if code is None:
        waited = f"the daemon (pid {daemon.pid}) does not answer after {ANSWERS_WITHIN_S:.0f} s"
        return CommandError(Exit.UNREACHABLE, waited, hint=f"its log: {log}")
    if code == Exit.OTHER_DAEMON:
        return CommandError(Exit.UNREACHABLE, said.get("error", "another daemon runs"), hint=said.get("hint", ""))
    if "error" in said:
        kind = Exit.USAGE if code == Exit.USAGE else Exit.UNREACHABLE
        return CommandError(kind, f"the daemon cannot start: {said['error']}", hint=said.get("hint", ""))
    return CommandError(Exit.UNREACHABLE, f"the daemon ended with code {code} as it started", hint=f"its log: {log}")


def _read_errors(log: Path, began: int) -> dict[str, str]:
    """``error`` and ``hint``, as the daemon wrote them last since it began there."""
    with log.open("rb") as file:
        file.seek(max(began, file.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    pairs = (line.partition(": ") for line in lines)
    return {word: rest for word, sign, rest in pairs if sign and word in ("error", "hint")}


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
