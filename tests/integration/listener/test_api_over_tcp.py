"""The API over TCP: by a token, through the listener, to a daemon that opens no port."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from autopilot.agent.pack import pack
from autopilot.api.access import RULES
from autopilot.api.of_listener import FROM_LISTENER
from autopilot.code.select import Wanted, select
from tests.acceptance.stage import job_text
from tests.certificates import make_certificate
from tests.integration.listener.listener_world import Remote, a_remote
from tests.integration.service.service_world import own_name

GOOD = job_text(300, total='total = "$2"')


@pytest.mark.slow
async def test_a_token_submits_and_reads_its_job(remote: Remote) -> None:
    token = await remote.token()
    status, body = await remote.ask("POST", "/v1/jobs", token, json={"toml": GOOD})
    assert status == 201, body
    assert body["job"]["owner"] < 0
    status, shown = await remote.ask("GET", f"/v1/jobs/{body['job']['id']}?all=1", token)
    assert (status, shown["job"]["id"]) == (200, body["job"]["id"])
    assert [job["id"] for job in (await remote.ask("GET", "/v1/jobs", token))[1]["jobs"]] == [body["job"]["id"]]


@pytest.mark.slow
async def test_every_call_takes_a_token_and_with_one_the_daemon_answers(remote: Remote) -> None:
    token = await remote.token(scope="read")
    names = {
        "ref": "none",
        "sha256": "0" * 64,
        "number": "1",
        "market": "none",
        "machine": "m",
        "name": "none",
        "plan": "none",
        "schedule": "none",
    }
    for call in RULES:
        method, _, address = call.partition(" ")
        path = address.format(**names)
        status, body = await remote.ask(method, path, token, json={} if method in ("POST", "PATCH") else None)
        assert status not in (401, 405, 500, 503), (call, status, body)
        assert body.get("reason") != "no_such_address", call
    calls = [call.partition(" ") for call in RULES]
    asked_at = time.monotonic()
    refused = await asyncio.gather(*(remote.ask(method, path.format(**names)) for method, _, path in calls[:30]))
    assert {(status, body["reason"]) for status, body in refused} == {(401, "unauthorised")}
    assert time.monotonic() - asked_at >= 1.0, "a login that failed is answered late"


async def test_a_caller_without_a_token_is_refused_without_a_request_to_the_daemon(remote: Remote) -> None:
    with capture_logs() as logs:
        for sent in ("aptk_" + "x" * 43, "", "x" * 500):
            status, body = await remote.ask("GET", "/v1/status", headers={"Authorization": f"Bearer {sent}"})
            assert (status, body["reason"]) == (401, "unauthorised")
        assert (await remote.ask("GET", "/v1/status", headers={"Authorization": "Basic eDp4"}))[0] == 401
    assert [entry for entry in logs if entry["event"] == "api.login_failed"] == []


async def test_a_token_that_is_revoked_is_refused_at_once(remote: Remote) -> None:
    name = own_name("ci")
    token = await remote.token(name)
    assert (await remote.ask("GET", "/v1/jobs", token))[0] == 200
    async with remote.here.post(f"http://localhost/v1/tokens/{name}/revoke") as answer:
        assert answer.status == 200
    assert (await remote.ask("GET", "/v1/jobs", token))[0] == 401


async def test_the_daemon_judges_a_token_that_the_listener_still_takes_for_one(remote: Remote) -> None:
    """Its file was not replaced, as when the disk is full."""
    name = own_name("ci")
    token = await remote.token(name)
    known = remote.place.tokens_path.read_bytes()
    async with remote.here.post(f"http://localhost/v1/tokens/{name}/revoke") as answer:
        assert answer.status == 200
    remote.place.tokens_path.write_bytes(known)
    with capture_logs() as logs:
        assert (await remote.ask("GET", "/v1/jobs", token))[0] == 401
    assert [entry["peer"] for entry in logs if entry["event"] == "api.login_failed"] == ["127.0.0.1"]


async def test_the_ports_of_api_and_mailbox_do_not_answer_for_one_another(remote: Remote) -> None:
    token = await remote.token()
    assert remote.place.port("api") != remote.place.port("mailbox")
    for path in ("/v1/status", "/v1/jobs", "/", "/metrics"):
        assert (await remote.ask("GET", path, token, of="mailbox"))[0] == 404
    status, body = await remote.ask("GET", "/blobs/probe/heartbeat", token)
    assert (status, body["reason"]) == (404, "no_such_address")
    status, body = await remote.ask("DELETE", "/v1/status", token)
    assert (status, body["reason"]) == (405, "method_not_allowed")


async def test_the_listener_s_own_headers_are_refused_from_users_and_dropped_from_elsewhere(remote: Remote) -> None:
    token = await remote.token()
    for name in FROM_LISTENER:
        async with remote.here.get("http://localhost/v1/status", headers={name: "x"}) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (422, "bad_input")
        status, body = await remote.ask("GET", "/v1/status", token, headers={name: "x"})
        assert (status, body.get("reason")) == (200, None)


async def test_no_socket_of_the_daemon_s_is_open_to_others(remote: Remote) -> None:
    path = remote.place.daemon_socket
    assert path.stat().st_mode & 0o777 == 0o600
    connector = aiohttp.UnixConnector(str(path))
    async with aiohttp.ClientSession(connector=connector) as inner, inner.get("http://localhost/v1/status") as answer:
        assert answer.status == 401, "even its own user needs a token there"


HOSTS: list[tuple[dict[str, str], tuple[int, str | None]]] = [
    ({"Host": "evil.example"}, (421, "wrong_host")),
    ({"Host": "127.0.0.1.evil.example"}, (421, "wrong_host")),
    ({"Host": ""}, (421, "wrong_host")),
    ({"Host": "localhost:1"}, (200, None)),
    ({"Host": "[::1]"}, (200, None)),
    ({"Origin": "https://evil.example"}, (403, "wrong_origin")),
    ({"Origin": "null"}, (403, "wrong_origin")),
    ({"Sec-Fetch-Site": "cross-site"}, (403, "wrong_origin")),
    ({"Origin": "http://localhost:8482", "Sec-Fetch-Site": "same-origin"}, (200, None)),
]


async def test_other_names_and_other_sites_pages_are_refused(remote: Remote) -> None:
    token, url = await remote.token(), f"http://127.0.0.1:{remote.place.port('api')}/v1/status"
    for headers, expected in HOSTS:
        async with remote.tcp.get(url, headers={"Authorization": f"Bearer {token}", **headers}) as answer:
            body = await answer.json(content_type=None)
            assert (answer.status, body.get("reason")) == expected, headers
            assert not any(name.startswith("Access-Control") for name in answer.headers)


def some_code(directory: Path, size: int) -> Any:
    directory.mkdir()
    (directory / "train.py").write_bytes(bytes(range(256)) * (size // 256))
    return pack(select(directory, Wanted((), (), 2_000_000_000, ())).files)


async def test_code_goes_to_the_listener_s_disk_and_from_there_to_the_store(remote: Remote, tmp_path: Path) -> None:
    token = await remote.token()
    packed = some_code(tmp_path / "code", 300_000)
    at = f"/v1/code/{packed.sha256}"
    status, body = await remote.ask("PUT", at, token, data=packed.data)
    assert (status, body["missing"]) == (200, list(range(1, len(packed.contents.parts) + 1)))
    for number in body["missing"]:
        part = packed.open_part(number - 1).read(-1)
        status, refused = await remote.ask("PUT", f"{at}/parts/{number}", token, data=part[:-1] + b"?")
        assert (status, refused["reason"]) == (422, "bad_input")
        assert (await remote.ask("PUT", f"{at}/parts/{number}", token, data=part))[0] == 200
    assert (await remote.ask("GET", at, token))[1] == {"there": True, "missing": []}
    status, body = await remote.ask("PUT", at, token, data=b"x" * (17 << 20))
    assert (status, body["reason"]) == (413, "too_large")
    while list(remote.place.receiving.iterdir()):  # noqa: ASYNC110 - another process removes them
        await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_small_body_is_bounded_and_a_replay_is_answered_as_before(remote: Remote) -> None:
    token = await remote.token()
    status, body = await remote.ask("POST", "/v1/jobs", token, data=b"x" * 2_000_000)
    assert (status, body["reason"]) == (413, "too_large")
    key = {"Idempotency-Key": "one"}
    first = await remote.ask("POST", "/v1/jobs", token, json={"toml": GOOD}, headers=key)
    again = await remote.ask("POST", "/v1/jobs", token, json={"toml": GOOD}, headers=key)
    assert (first[0], again[0], first[1]) == (201, 201, again[1])


@pytest.mark.slow
async def test_over_tls_and_with_a_certificate_that_is_replaced_meanwhile() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        cert, key = make_certificate(root, "127.0.0.1", serial=1)
        async with a_remote(root, cert_file=cert, key_file=key) as remote:
            token = await remote.token()
            trusted = ssl.create_default_context(cafile=cert)
            status, body = await remote.ask("GET", "/v1/status", token, scheme="https", ssl=trusted)
            assert status == 200, body
            with pytest.raises(aiohttp.ClientError):
                await remote.ask("GET", "/v1/status", token)
            assert await serial_of(remote) == 1
            make_certificate(root, "127.0.0.1", serial=2)
            while await serial_of(remote) != 2:  # noqa: ASYNC110 - another process looks at the file
                await asyncio.sleep(0.1)
            assert (await remote.ask("GET", "/v1/status", token, of="mailbox"))[0] == 404, "the mailbox speaks no TLS"


async def serial_of(remote: Remote) -> int:
    """Of the certificate that the port shows to a new connection."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", remote.place.port("api"), ssl=anybody)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(shown).serial_number


@pytest.mark.slow
async def test_unfinished_handshakes_do_not_block_other_connections() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        cert, key = make_certificate(root, "127.0.0.1")
        async with a_remote(root, cert_file=cert, key_file=key) as remote:
            token, trusted = await remote.token(), ssl.create_default_context(cafile=cert)
            silent = [socket.create_connection(("127.0.0.1", remote.place.port("api"))) for _ in range(300)]
            for each in silent[::2]:
                each.sendall(b"\x16\x03\x01")  # the beginning of a greeting
            for _ in range(3):
                status, body = await remote.ask("GET", "/v1/status", token, scheme="https", ssl=trusted)
                assert status == 200, json.dumps(body)
            for each in silent:
                each.close()
