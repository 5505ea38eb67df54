"""Users signed in by a reverse proxy: its header counts on its own listener, and on no other."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from autopilot.api.access import RULES, Others, Rule
from autopilot.api.of_listener import PROXY_SECRET, PROXY_USER
from autopilot.blobs.place import MAILBOX, PAGE, PROXY
from autopilot.domain.token import Scope
from autopilot.web.site import POLICY
from tests.acceptance.stage import job_text
from tests.integration.listener.listener_world import NO_LIMIT, Remote, a_remote
from tests.integration.service.service_world import BELOW_ALL, own_name
from tests.permissions import OTHER_USER

GOOD = job_text(300, total='total = "$2"')
UNRENTED = GOOD + BELOW_ALL
SECRET = "s" * 43
UID = pwd.getpwnam(OTHER_USER).pw_uid
NAME = "autopilot.example.org"
SCOPES: dict[str, tuple[Scope, bool]] = {
    "reader": (Scope.READ, False),
    "operator": (Scope.OPERATE, False),
    "maker@example.org": (Scope.SUBMIT, False),
    "auditor": (Scope.READ, True),
    "chief": (Scope.ADMIN, False),
}
WATCHER = "watcher"
"""Has no job."""
USERS = {name: {"scope": scope, "all": sees_all} for name, (scope, sees_all) in SCOPES.items()} | {WATCHER: {}}
DENIED, HIDDEN = 403, 404


@dataclass
class Proxy:
    """What a proxy passes on. It takes its own header out of what its users send, and sets it."""

    remote: Remote
    http: aiohttp.ClientSession
    base: str
    sends: dict[str, str]

    async def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Remote-User": user, **self.sends, **headers}
        data = None if body is None else json.dumps(body).encode()
        async with self.http.request(method, self.base + path, data=data, headers=sent) as answer:
            try:
                return answer.status, await answer.json(content_type=None)
            except ValueError:
                return answer.status, await answer.text()

    async def send(self, headers: list[tuple[str, bytes]]) -> tuple[int, Any]:
        """Over TCP, byte by byte as they are: clients put right, or leave out, what is odd."""
        head = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.remote.place.port(PROXY))
        writer.write(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + head + b"\r\n")
        answer = await reader.read()
        writer.close()
        first, _, body = answer.partition(b"\r\n\r\n")
        return int(first.split()[1]), json.loads(body) if b"json" in first else None


@asynccontextmanager
async def a_proxy(
    root: Path, *, is_tcp: bool = False, listen: str | None = "127.0.0.1:0", **more: Any
) -> AsyncIterator[Proxy]:
    given: dict[str, Any] = {"listen": f"unix:{root}/proxy/http.sock", "users": USERS} | more
    if is_tcp:
        file = root / "proxy-secret"
        file.touch(mode=0o600)
        file.write_text(f"{SECRET}\n")
        given |= {"listen": "127.0.0.1:0", "secret_file": file}
    async with a_remote(root, proxy=given, names=[NAME], listen=listen) as remote:
        connector = None if is_tcp else aiohttp.UnixConnector(str(root / "proxy/http.sock"))
        base = f"http://127.0.0.1:{remote.place.port(PROXY)}" if is_tcp else "http://localhost"
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=NO_LIMIT)
        async with session as http:
            yield Proxy(remote, http, base, {PROXY_SECRET: SECRET} if is_tcp else {})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy() -> AsyncIterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_proxy(Path(name)) as made:
            yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def over_tcp() -> AsyncIterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_proxy(Path(name), is_tcp=True) as made:
            yield made


async def submit(remote: Remote, owner: int | None = None, name: str = "theirs") -> str:
    """A job of the daemon's user, or handed to that owner."""
    body = {"toml": job_text(300, name, total='total = "$2"'), "again": True}
    async with remote.here.post("http://localhost/v1/jobs", json=body) as answer:
        assert answer.status == 201, await answer.text()
        job_id = str((await answer.json())["job"]["id"])
    if owner is not None:
        async with remote.daemon.engine._store.transaction() as uow:
            job = await uow.jobs.find(job_id)
            assert job is not None
            object.__setattr__(job, "owner", owner)
            await uow.jobs.save(job)
    return job_id


def expected(rule: Rule, scope: Scope, *, sees_all: bool, of_job: bool, own: bool) -> int | None:
    """The status of a refusal; None: the call is allowed. Restated here from the page's words."""
    order = ["read", "operate", "submit", "admin"]
    if order.index(scope) < order.index(rule.scope):
        return DENIED
    if rule.others is Others.ALL and not (sees_all or scope is Scope.ADMIN):
        return DENIED
    if of_job and not own and scope is not Scope.ADMIN and not (sees_all and rule.others is Others.SEEN):
        return HIDDEN
    return None


@pytest.mark.slow
async def test_every_call_by_every_scope_for_own_and_other_jobs(proxy: Proxy) -> None:
    others = await submit(proxy.remote)
    for user, (scope, sees_all) in SCOPES.items():
        me = (await proxy.ask(user, "GET", "/v1/page"))[1]
        assert (me["name"], me["scope"], me["sees_all"]) == (f"proxy:{user}", scope, sees_all or scope == "admin")
        mine = await submit(proxy.remote, me["owner"])
        for call, rule in RULES.items():
            method, _, address = call.partition(" ")
            of_job = address.startswith("/v1/jobs/{ref}")
            for own in (True, False) if of_job else (True,):
                names = {
                    "sha256": "0" * 64,
                    "number": "1",
                    "market": "none",
                    "machine": "m",
                    "name": "none",
                    "plan": "none",
                    "schedule": "none",
                }
                path = address.format(ref=(mine if own else others) if of_job else "none", **names)
                status, body = await proxy.ask(user, method, path, {} if method in ("POST", "PATCH") else None)
                refused = expected(rule, scope, sees_all=sees_all, of_job=of_job, own=own)
                said = (user, call, own, status, body)
                if refused is None:
                    assert status not in (401, DENIED, 500, 503), said
                    assert not (of_job and status == HIDDEN and body["reason"] == "not_found" and mine in path), said
                else:
                    wanted = {DENIED: "not_allowed", HIDDEN: "not_found"}[refused]
                    assert (status, body["reason"]) == (refused, wanted), said


async def test_each_name_has_jobs_of_its_own_and_a_link_gives_no_further_rights(proxy: Proxy) -> None:
    status, body = await proxy.ask("maker@example.org", "POST", "/v1/jobs", {"toml": GOOD, "again": True})
    assert status == 201, body
    assert body["job"]["owner"] < 0
    assert (await proxy.ask(WATCHER, "GET", "/v1/jobs?all=1"))[1] == {"jobs": [], "next": None}
    assert (await proxy.ask("reader", "GET", f"/v1/jobs/{body['job']['id']}"))[0] == HIDDEN
    async with proxy.remote.here.get("http://localhost/v1/jobs?owner=proxy:maker@example.org") as answer:
        jobs = (await answer.json())["jobs"]
    assert body["job"]["id"] in [job["id"] for job in jobs]
    assert {job["owner"] for job in jobs} == {body["job"]["owner"]}
    async with proxy.remote.here.get("http://localhost/v1/spend?by=owner") as answer:
        assert answer.status == 200
    for user in ("chief", "reader"):
        status, said = await proxy.ask(user, "POST", "/v1/page/link", {})
        assert (status, said["reason"]) == (422, "bad_input"), "it would outlast the proxy's own session"
    status, said = await proxy.ask("chief", "POST", "/v1/tokens/proxy:reader/revoke", {})
    assert (status, "a user of the proxy" in said["detail"]) == (422, True)
    status, said = await proxy.ask("mallory", "GET", "/v1/status")
    assert (status, said["reason"]) == (DENIED, "not_allowed")
    assert said["detail"] == "the proxy's user 'mallory' is not admitted"
    status, said = await proxy.ask("reader", "POST", "/v1/jobs", {"toml": GOOD})
    assert said["hint"] == "this takes the scope submit: [http.proxy] in the daemon's settings gives you more"


async def test_each_malformed_header_is_refused_in_the_same_words(over_tcp: Proxy) -> None:
    good, secret = ("Remote-User", b"reader"), (PROXY_SECRET, SECRET.encode())
    values = (b"", b" ", b"chief, reader", b"a b", b"a\tb", "ré".encode(), b"\xff", b"x" * 101, b"x" * 10_000)
    odd: list[list[tuple[str, bytes]]] = [
        [secret],
        [good],
        [good, (PROXY_SECRET, secret[1] + b"x")],
        [good, (PROXY_SECRET, b"")],
        [good, secret, secret],
        [good, good, secret],
        [good, ("Remote-User", b"chief"), secret],
        [("remote-user", b"chief"), good, secret],
        [good, ("Remote_User", b"chief"), secret],
        [("REMOTE_USER", b"chief"), good, secret],
        [("Remote_User", b"reader"), secret],
        *([("Remote-User", value), secret] for value in values),
        [("X-Forwarded-User", b"chief"), secret],
        [(PROXY_USER, b"chief"), secret],
    ]
    answers = await asyncio.gather(*map(over_tcp.send, odd))
    assert [status for status, _ in answers] == [401] * len(odd)
    assert {(body["reason"], body["detail"]) for _, body in answers} == {
        ("unauthorised", "the proxy has not said who you are, or is not the proxy")
    }
    assert (await over_tcp.send([good, secret]))[0] == 200
    for value in (b"a\x00b", b"a\x01b", b"a\rb", b"x" * 40_000):
        assert await over_tcp.send([("Remote-User", value), secret]) == (400, None), "no header of HTTP at all"
    status, me = await over_tcp.ask("reader", "GET", "/v1/page", **{PROXY_USER: "chief", "Authorization": "Basic eDp4"})
    assert (status, me["name"]) == (200, "proxy:reader"), "what a proxy asks for is passed on, and counts for nothing"


FORGED = {
    "Remote-User": "chief",
    "Remote_User": "chief",
    "X-Forwarded-User": "chief",
}
"""What says nothing on any other door."""
INNER = {PROXY_USER: "chief", PROXY_SECRET: SECRET}
"""What the listener says to the daemon."""


async def test_the_header_names_no_user_on_every_other_door(over_tcp: Proxy) -> None:
    remote, everything, name = over_tcp.remote, FORGED | INNER, own_name("ci")
    token = await remote.token(name, scope="read")
    # The users' socket: the user at its other end is who the kernel says, and the listener's headers are an error.
    async with remote.here.get("http://localhost/v1/page", headers=FORGED) as answer:
        assert (answer.status, (await answer.json())["owner"]) == (200, os.getuid())
    for header, value in INNER.items():
        async with remote.here.get("http://localhost/v1/page", headers={header: value}) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (422, "bad_input")
    # The API's port: a token counts alone.
    status, me = await remote.ask("GET", "/v1/page", token, headers=everything)
    assert (status, me["name"]) == (200, name)
    assert (await remote.ask("GET", "/v1/page", headers=everything))[0] == 401
    assert (await remote.ask("POST", "/v1/tokens", token, headers=everything, json={}))[0] == DENIED
    # The page on that port, the mailbox.
    assert (await remote.ask("GET", "/", headers=everything))[0] == 401
    for path in ("/", "/v1/status", "/v1/page"):
        assert (await remote.ask("GET", path, of=MAILBOX, headers=everything))[0] == 404
    # The socket between the two: a process that could open it would need the proxy's secret, too.
    connector = aiohttp.UnixConnector(str(remote.place.daemon_socket))
    async with aiohttp.ClientSession(connector=connector) as inner:
        url = "http://localhost/v1/page"
        for headers in (
            {PROXY_USER: "chief"},
            {PROXY_USER: "chief", PROXY_SECRET: "x" * 43},
            {PROXY_SECRET: SECRET},
            {**INNER, "Authorization": f"Bearer {token}"},
            FORGED,
        ):
            async with inner.get(url, headers=headers) as answer:
                assert answer.status == 401, headers
        async with inner.get(url, headers=INNER) as answer:
            assert (answer.status, (await answer.json())["name"]) == (200, "proxy:chief")


@pytest.mark.slow
async def test_the_header_names_no_user_on_the_page_s_own_port_nor_without_a_proxy() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_proxy(Path(name), listen=None) as proxy:
            async with proxy.remote.here.post("http://localhost/v1/page/link") as answer:
                assert answer.status == 201  # so that the port is open
            status, text = await proxy.remote.ask("GET", "/", of=PAGE, headers=FORGED | INNER)
            assert (status, "Sign in" in text) == (401, True)
            assert (await proxy.ask("chief", "GET", "/v1/page"))[0] == 200
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_remote(Path(name)) as remote:
            connector = aiohttp.UnixConnector(str(remote.place.daemon_socket))
            async with (
                aiohttp.ClientSession(connector=connector) as inner,
                inner.get("http://localhost/v1/page", headers={PROXY_USER: "chief"}) as answer,
            ):
                assert answer.status == 401
            assert remote.place.port(PROXY) is None


@pytest.mark.slow
async def test_the_socket_is_its_owner_s_alone_and_takes_the_place_of_one_that_was_left() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        path = Path(name) / "proxy/http.sock"
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        async with a_proxy(Path(name)) as proxy:
            assert path.stat().st_mode & 0o777 == 0o600
            assert list(path.parent.iterdir()) == [path]
            assert (await proxy.ask("reader", "GET", "/v1/status"))[0] == 200


@pytest.mark.slow
async def test_changed_settings_hold_for_known_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.api.proxied_users.MOST_KEPT", 2)
    toml = {"toml": UNRENTED, "again": True, "min_probability": 0}
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        mapped = {"uid": {"owner": OTHER_USER, "scope": "submit"}, "named": {}}
        async with a_proxy(root, users=mapped, others={"scope": "submit", "allow": "$3/month"}) as proxy:
            first = (await proxy.ask("anna", "POST", "/v1/jobs", toml))[1]["job"]
            again = (await proxy.ask("anna", "POST", "/v1/jobs", toml))[1]["job"]
            ben = (await proxy.ask("ben", "POST", "/v1/jobs", toml))[1]["job"]
            assert first["owner"] == again["owner"] != ben["owner"]
            (row,) = (await proxy.ask("ben", "GET", "/v1/budget"))[1]["tokens"]
            assert (row["name"], row["limit"], row["is_monthly"]) == ("proxy:ben", "3", True)
            assert (await proxy.ask("uid", "POST", "/v1/jobs", toml))[1]["job"]["owner"] == UID
            async with proxy.remote.here.get("http://localhost/v1/tokens") as answer:
                assert [each["name"] for each in (await answer.json())["tokens"]] == ["proxy:anna", "proxy:ben"]
            status, said = await proxy.ask("carol", "GET", "/v1/jobs")
            assert (status, "which is the limit" in said["detail"]) == (DENIED, True)
            assert (await proxy.ask("named", "GET", "/v1/jobs"))[0] == 200, "their room stays reserved"
        async with a_proxy(root, users={"anna": {"scope": "read"}}) as proxy:
            jobs = (await proxy.ask("anna", "GET", "/v1/jobs"))[1]["jobs"]
            assert {job["id"] for job in jobs} == {first["id"], again["id"]}
            assert (await proxy.ask("anna", "POST", "/v1/jobs", toml))[0] == DENIED
            assert (await proxy.ask("ben", "GET", "/v1/jobs"))[0] == DENIED
            await proxy.remote.daemon.engine.tick()
            async with proxy.remote.here.get(f"http://localhost/v1/jobs/{ben['id']}") as answer:
                status = (await answer.json())["job"]["status"]
            assert status in ("stopping", "parked"), "as when a token was revoked"
        async with a_proxy(root, users={"ben": {}}) as proxy:
            assert (await proxy.ask("ben", "GET", f"/v1/jobs/{ben['id']}"))[0] == 200


@pytest.mark.slow
async def test_what_a_proxy_s_user_makes_is_no_wider_and_ends_with_them() -> None:
    """With jobs of their own, and with those of a user of this machine."""
    bounds = {"scope": "admin", "ask_above": "$1"}
    users = {"boss": bounds | {"allow": "$3"}, "mapped": bounds | {"owner": OTHER_USER}}
    with tempfile.TemporaryDirectory(prefix="ap-") as directory:
        root, made = Path(directory), {}
        async with a_proxy(root, users=users) as proxy:
            for user in users:
                wish = {"name": f"of-{user}", "scope": "admin"}
                for more in ({"ask_above": "$2"}, {"secrets": ["hf"]}):
                    status, said = await proxy.ask(user, "POST", "/v1/tokens", wish | more)
                    assert (status, said["reason"]) == (DENIED, "not_allowed"), said
                status, said = await proxy.ask(user, "POST", "/v1/tokens", wish)
                assert (status, said["token"]["made_by"]) == (201, f"proxy:{user}"), said
                made[user] = said["secret"]
                plan = (await proxy.ask(user, "POST", "/v1/jobs", {"toml": GOOD}))[1]["plan"]
                status, said = await proxy.remote.ask("POST", f"/v1/plans/{plan}/confirm", made[user])
                assert (status, "a token of its maker" in said["detail"]) == (DENIED, True), said
                status, said = await proxy.remote.ask("POST", "/v1/jobs", made[user], json={"toml": GOOD})
                assert (status, said["reason"]) == (409, "confirm_first")
            wish = {"name": "rich", "scope": "admin", "allow": "$4"}
            assert (await proxy.ask("boss", "POST", "/v1/tokens", wish))[0] == DENIED
        async with a_proxy(root, users={"boss": {"scope": "read"}, "mapped": bounds}) as proxy:
            assert (await proxy.remote.ask("GET", "/v1/tokens", made["boss"]))[0] == DENIED, "their maker has less now"
            status, _ = await proxy.remote.ask("GET", "/v1/status", made["mapped"])
            assert status == 401, "its maker has other jobs now, and is another"
        async with a_proxy(root, users={"chief": {"scope": "admin"}}) as proxy:
            assert (await proxy.remote.ask("GET", "/v1/status", made["boss"]))[0] == 401
        async with a_proxy(root, users=users) as proxy:
            assert (await proxy.ask("boss", "GET", "/v1/status"))[0] == 200
            for secret in made.values():
                assert (await proxy.remote.ask("GET", "/v1/status", secret))[0] == 401, "for good"


_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
PUBLIC = {"Host": NAME, "Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin"}


async def look(proxy: Proxy, user: str, path: str, **headers: str) -> tuple[int, str]:
    sent = {"Remote-User": user, "Host": NAME, **proxy.sends, **headers}
    async with proxy.http.get(proxy.base + path, headers=sent, allow_redirects=False) as answer:
        assert answer.headers.get("Content-Security-Policy", POLICY) == POLICY
        return answer.status, await answer.text()


async def post(proxy: Proxy, user: str, path: str, form: dict[str, str], **headers: str) -> tuple[int, str]:
    sent = {"Remote-User": user, **proxy.sends, **PUBLIC, **headers}
    async with proxy.http.post(proxy.base + path, data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("Location") or await answer.text()


def token_in(page: str) -> str:
    found = _TOKEN.search(page)
    assert found, page
    return found[1]


@pytest.mark.slow
async def test_the_page_opens_without_a_link_and_acts_in_the_name_of_its_user_alone(proxy: Proxy) -> None:
    maker = "maker@example.org"
    owner = (await proxy.ask(maker, "GET", "/v1/page"))[1]["owner"]
    own_job, other_job = own_name("mine"), own_name("theirs")
    job_id, theirs = await submit(proxy.remote, owner, own_job), await submit(proxy.remote, name=other_job)
    status, now = await look(proxy, maker, "/")
    assert (status, own_job in now, other_job in now) == (200, True, False)
    assert f"Your scope is submit, as {maker}; you see your own jobs" in now
    assert "Leave" not in now, "there is no session here that could be left"
    assert (await look(proxy, maker, f"/jobs/{theirs}"))[0] == HIDDEN
    assert (await look(proxy, maker, "/money"))[0] == DENIED
    assert (await look(proxy, "auditor", "/money"))[0] == 200
    status, told = await look(proxy, "mallory", "/")
    assert (status, "is not admitted" in told) == (DENIED, True)
    for path in ("/enter/appg_x", "/s/none/", "/s/none/money"):
        assert (await look(proxy, maker, path))[0] == 404
    own, other = token_in(now), token_in((await look(proxy, "operator", "/"))[1])
    assert own != other
    stop = f"/jobs/{job_id}/do/stop"
    for wrong in ("", "0" * 64, other):
        assert (await post(proxy, maker, stop, {"form_token": wrong}))[0] == DENIED
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ):
        assert (await post(proxy, maker, stop, {"form_token": own}, **headers))[0] == DENIED, headers
    assert (await post(proxy, maker, stop, {"form_token": own}, Host="evil.example"))[0] == 421
    assert (await post(proxy, "operator", stop, {"form_token": other}))[0] == 404
    async with proxy.remote.here.get(f"http://localhost/v1/jobs/{job_id}") as answer:
        assert (await answer.json())["job"]["status"] == "pending", "none of these did anything"
    assert await post(proxy, maker, stop, {"form_token": own}) == (303, f"/jobs/{job_id}?done=stop")
    text = job_text(300, own_name(), total='total = "$2"')
    status, where = await post(proxy, maker, "/new", {"form_token": own, "toml": text, "do": "submit", "once": "a"})
    assert status == 303, where
    # A user who has just signed in comes from another site, by a link only.
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await look(proxy, maker, "/", **visit))[0] == 200
    assert (await look(proxy, maker, "/", **visit | {"Sec-Fetch-Dest": "iframe"}))[0] == DENIED
    assert (await look(proxy, maker, "/", **{"Sec-Fetch-Site": "cross-site"}))[0] == DENIED


@pytest.mark.slow
async def test_what_moves_on_the_page_is_sent_to_a_proxys_user(proxy: Proxy) -> None:
    sent = {"Remote-User": WATCHER, "Host": NAME}
    async with proxy.http.get(f"{proxy.base}/stream/now", headers=sent) as answer:
        assert answer.content_type == "text/event-stream"
        async for line in answer.content:
            if b"No open jobs." in line:
                return
    raise AssertionError("the stream ended")
