"""The control socket under calls of every shape: no fault of the daemon's own, and what is refused has no effect."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.acceptance.stage import job_text, ledger_rows
from tests.integration.service.service_world import a_served

REFUSALS = {400, 402, 404, 405, 409, 413, 422, 503}
GOOD = job_text(300)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


@dataclass
class Daemon:
    socket_path: Path
    ledger: Path

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = _Connection(self.socket_path)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @contextmanager
    def unchanged_unless_accepted(self) -> Iterator[list[int]]:
        """The caller appends the status."""
        before = ledger_rows(self.ledger)
        statuses: list[int] = []
        yield statuses
        if all(status in REFUSALS for status in statuses):
            assert ledger_rows(self.ledger) == before, "refused, and yet something was written"


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    """A daemon in a thread of its own, after its first tick and without any more."""
    made: Queue[Daemon | BaseException] = Queue()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(made, stop)))
    thread.start()
    try:
        found = made.get()
        if isinstance(found, BaseException):
            raise found
        yield found
    finally:
        stop.set()
        thread.join()


async def _serve(made: Queue[Daemon | BaseException], stop: threading.Event) -> None:
    try:
        async with a_served() as running:
            settings = running.daemon.settings
            made.put(Daemon(settings.socket_path, settings.state_dir / "ledger.db"))
            await asyncio.to_thread(stop.wait)
    except BaseException as problem:
        made.put(problem)
        raise


def quick(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


WORDS = st.sampled_from(
    ["", "0", "-1", "1e9", "nan", "9" * 30, "None", "true", "../..", "%00", "2026-13-45", "RTX 4090:1"]
)
JUNK = WORDS | st.text(max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["toml", "source", "dry_run", "min_probability", "gpu", "disk_gb", "code", "more"]
BODIES = (
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5).map(lambda body: json.dumps(body).encode())
    | st.binary(max_size=60)
    | st.sampled_from([b'{"a":' * 2000, b'{"toml": "\\ud800"}', b"null", b'"x"', b"1" * 5000])
)
PARAMETERS = [
    *(
        "all",
        "after",
        "limit",
        "month",
        "since",
        "until",
        "by",
        "zone",
        "gpu",
        "steps",
        "kind",
        "job",
        "label",
        "prices",
    ),
    *("provider", "currency", "format"),
]
PLACES = [
    *("/v1/status", "/v1/jobs", "/v1/events", "/v1/offers", "/v1/spend", "/v1/budget", "/v1/reconcile", "/v1/prices"),
    "/v1/drift",
    "/v1/hosts",
    *("/v1/jobs/{}", "/v1/jobs/{}/logs", "/v1/jobs/{}/outputs", "/v1/jobs/{}/why", "/v1/jobs/{}/cancel"),
    *("/v1/jobs/{}/resume", "/v1/jobs/{}/code", "/v1/instances/{}", "/v1/{}"),
    *("/v1/code/{}", f"/v1/code/{hashlib.sha256(b'null').hexdigest()}", "/v1/code/{}/parts/1"),
    f"/v1/code/{'0' * 64}/parts/{{}}",
]


@quick(250)
@example(method="POST", place="/v1/jobs", reference="", query={}, body=b"[" * 50_000)
@given(
    method=st.sampled_from(["GET", "GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"]),
    place=st.sampled_from(PLACES),
    reference=JUNK,
    query=st.dictionaries(st.sampled_from(PARAMETERS), JUNK, max_size=3),
    body=st.none() | BODIES,
)
def test_any_call_is_answered_or_refused(
    served: Daemon, method: str, place: str, reference: str, query: dict[str, str], body: bytes | None
) -> None:
    path = place.format(quote(reference.encode("utf-8", "replace"), safe=""))
    if query:
        path += "?" + urlencode({k: v.encode("utf-8", "replace") for k, v in query.items()})
    with served.unchanged_unless_accepted() as statuses:
        status, answer = served.call(method, path, body)
        statuses.append(status)
        assert status < 300 or status in REFUSALS, (status, answer)
        if method != "HEAD" and status in REFUSALS - {405}:
            assert json.loads(answer)["detail"] is not None


@st.composite
def spoilt_files(draw: st.DrawFn) -> str:
    """A good job file after some accidents with the keyboard."""
    lines = GOOD.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["drop", "double", "swap", "value", "insert", "cut"]))
        if how == "drop":
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "value":
            lines[at] = lines[at].partition("=")[0] + "= " + draw(TOML_VALUES)
        elif how == "insert":
            lines.insert(at, draw(st.text(max_size=40)))
        else:
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        lines = lines or [""]
    return "\n".join(lines)


TOML_VALUES = st.sampled_from(
    [
        *("nan", "inf", "-1", "0", "1e400", "9" * 400, "true", '""', '"\\u0000"', "[]", "{}", "[[[[]]]]", "1979-05-27"),
        *(
            '"$-1"',
            '"$1e99"',
            '"99999999999h"',
            '"-5m"',
            '"0GB"',
            '"RTX 4090:0"',
            '"RTX 4090:99999999999"',
            "'''",
            '"\\',
        ),
        *('"../../etc/passwd"', '"/"', '"~"', '"secret:none"', '"$0.0000000000001"', "{a.b.c = 1}", '"(a+)+$"'),
    ]
)


@pytest.mark.slow
@quick(100)
@given(text=spoilt_files(), dry_run=st.booleans())
def test_a_spoilt_job_file_is_refused_whole_or_taken_whole(served: Daemon, text: str, dry_run: bool) -> None:
    body = json.dumps({"toml": text, "source": "job.toml", "dry_run": dry_run}).encode()
    with served.unchanged_unless_accepted() as statuses:
        status, answer = served.call("POST", "/v1/jobs", body)
        statuses.append(status)
        assert status in {200, 201, *REFUSALS}, (status, answer)
        if status == 200:
            statuses[:] = [422]  # a dry run writes no more than a refusal does
        if status in REFUSALS:
            told: dict[str, Any] = json.loads(answer)
            assert told["detail"]
            assert "Traceback" not in told["detail"]
