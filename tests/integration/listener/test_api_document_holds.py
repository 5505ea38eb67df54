"""The OpenAPI document against the real daemon: calls that schemathesis makes of it are answered as it says.

Over the users' socket, over TCP with a token, and without one. No call is a fault of the daemon's own.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from autopilot.api.openapi import openapi
from tests.acceptance.stage import job_text
from tests.integration.listener.listener_world import a_remote
from tests.patience import PATIENCE_S

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
MARKET = "vastai"
"""The sandbox's: what is asked for there costs nothing, and without a tick nothing is rented."""
CERTIFY = "POST /v1/markets/{market}/certification"
GOOD = job_text(300, total='total = "$2"')
SECONDS = PATIENCE_S


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        import socket

        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


class _UnixPool(HTTPConnectionPool):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def _new_conn(self) -> Any:
        return _UnixConnection(self._path)


class _UnixAdapter(HTTPAdapter):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = _UnixPool(path)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Any:
        return self._pool


@dataclass
class Served:
    socket: str
    port: int
    token: str
    reader: str
    jobs: list[str]
    tick: Callable[[], None]

    def at_socket(self) -> tuple[requests.Session, str]:
        session = requests.Session()
        session.mount("http://socket", _UnixAdapter(self.socket))
        return session, "http://socket"

    def over_tcp(self, token: str) -> tuple[requests.Session, str]:
        session = requests.Session()
        if token:
            session.headers["Authorization"] = f"Bearer {token}"
        return session, f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A daemon and its listener, with a market, in a thread of their own; after the first tick and without any more."""
    made: Queue[Served | BaseException] = Queue()
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        thread = threading.Thread(target=lambda: asyncio.run(_serve(Path(name), made, stop)))
        thread.start()
        try:
            found = made.get()
            if isinstance(found, BaseException):
                raise found
            yield found
        finally:
            stop.set()
            thread.join()


async def _serve(root: Path, made: Queue[Served | BaseException], stop: threading.Event) -> None:
    try:
        await _serve_until(root, made, stop)
    except BaseException as problem:
        made.put(problem)
        raise


async def _serve_until(root: Path, made: Queue[Served | BaseException], stop: threading.Event) -> None:
    async with a_remote(root) as remote:
        token = await remote.token(scope="admin")
        jobs = []
        for number in range(3):
            toml = GOOD.replace('name = "', f'name = "j{number}-')
            async with remote.here.post("http://localhost/v1/jobs", json={"toml": toml, "again": True}) as answer:
                assert answer.status == 201, await answer.text()
                jobs.append((await answer.json())["job"]["id"])
        await remote.daemon.engine.tick()
        port = remote.place.port("api")
        assert port is not None
        reader = await remote.token("reader", "read")
        socket = str(remote.daemon.settings.socket_path)
        loop = asyncio.get_running_loop()

        def tick() -> None:
            asyncio.run_coroutine_threadsafe(remote.daemon.engine.tick(), loop).result(SECONDS)

        made.put(Served(socket, port, token, reader, jobs, tick))
        await asyncio.to_thread(stop.wait)


def drive(
    served: Served, way: tuple[requests.Session, str], count: int, *, only: str = "", refused: int | None = None
) -> Counter[int]:
    """Make about ``count`` calls, as many of each operation, or of one. How many were answered with each status.

    ``refused``: all are, with this one.
    """
    document = schemathesis.openapi.from_dict(openapi())
    every = [each.ok() for each in document.get_all_operations() if isinstance(each, Ok)]
    operations = [each for each in every if only in ("", f"{each.method.upper()} {each.path}")]
    session, base_url = way
    sent: Counter[int] = Counter()
    for operation in operations:
        cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

        @settings(
            max_examples=max(count // len(operations), 1),
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(case=cases, known=st.sampled_from([None, *served.jobs]), is_good=st.integers(0, 3).map(lambda n: n == 0))
        def call(case: Case[Any], known: str | None, is_good: bool) -> None:
            _aim(case, known, is_good)
            answer = case.call(base_url=base_url, session=session, timeout=SECONDS, allow_redirects=False)
            sent[answer.status_code] += 1
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            if refused is not None:
                assert answer.status_code == refused, (case.as_curl_command(), answer.text)
            case.validate_response(answer, checks=CHECKS)
            if answer.status_code == 201 and f"{case.method} {case.path}" == CERTIFY:
                # A market is certified once at a time, and the next call is to begin one, too. Nothing is rented.
                job_id = answer.json()["job"]["id"]
                assert session.post(f"{base_url}/v1/jobs/{job_id}/cancel", timeout=SECONDS).status_code == 200
                served.tick()

        call()
    return sent


def _aim(case: Case[Any], known: str | None, is_good: bool) -> None:
    """At a job and a market that there are; at a job file, and a budget, that can be read.

    No call waits for events that do not come.
    """
    if known is not None and "ref" in (case.path_parameters or {}):
        case.path_parameters["ref"] = known
    if known is not None and "market" in (case.path_parameters or {}):
        case.path_parameters["market"] = MARKET
    if is_good and f"{case.method} {case.path}" == CERTIFY:
        case.body = {"budget": "$1", "gpus": []}
    if case.query and str(case.query.get("wait_s", "")).isdecimal():
        case.query["wait_s"] = 0
    if is_good and isinstance(case.body, dict) and "toml" in case.body:
        case.body["toml"] = GOOD
        case.body["dry_run"] = True


@pytest.mark.slow
def test_the_document_holds_for_a_call_of_each(served: Served) -> None:
    assert drive(served, served.at_socket(), 1).total() > 30


@pytest.mark.slow
def test_the_document_holds_at_the_socket(served: Served) -> None:
    assert drive(served, served.at_socket(), 200).total() > 100


@pytest.mark.slow
def test_the_document_holds_over_tcp(served: Served) -> None:
    assert drive(served, served.over_tcp(served.token), 100).total() > 30


@pytest.mark.slow
def test_certifications_are_begun_and_refused_as_the_document_says(served: Served) -> None:
    sent = drive(served, served.at_socket(), 40, only=CERTIFY)
    assert sent[201] >= 1
    assert sent[422] >= 10


@pytest.mark.slow
def test_the_document_holds_in_very_many_calls(served: Served) -> None:
    sent = drive(served, served.at_socket(), 3_000)
    sent += drive(served, served.over_tcp(served.token), 2_000)
    sent += drive(served, served.over_tcp(served.reader), 1_000)
    sent += drive(served, served.over_tcp(""), 60, refused=401)
    assert sent.total() >= 4_500
    assert sent[201] >= 20, "and many of them did something"
