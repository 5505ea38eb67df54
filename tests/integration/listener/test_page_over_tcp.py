"""The page of a daemon, by its listener: who is let in, with whose rights, and for how long."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from autopilot.blobs.place import PAGE, MailboxPlace
from autopilot.listener.pages import ADDRESSES, MISSING, SERVED_BY
from autopilot.web.served import DaemonPages
from autopilot.web.session_path import make_path, name_cookie
from autopilot.web.site import POLICY
from tests.acceptance.stage import job_text
from tests.integration.listener.listener_world import NO_LIMIT, Remote, a_remote
from tests.integration.service.service_world import BELOW_ALL, own_name

GOOD = job_text(300, total='total = "$2"')
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Browser:
    """It keeps its cookie, and follows nothing by itself."""

    def __init__(self, http: aiohttp.ClientSession, base: str) -> None:
        self._http = http
        self.base = base
        self.cookie = ""
        self.form_token = ""

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self._http.get(
            self.base + path, headers={"Cookie": self.cookie, **headers}, allow_redirects=False
        ) as answer:
            text = await answer.text()
            assert answer.headers.get("Content-Security-Policy", POLICY) == POLICY
            if found := _TOKEN.search(text):
                self.form_token = found[1]
            return answer.status, text

    async def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        """Its status, and where it leads or what it says."""
        data = {"form_token": self.form_token} | (form or {})
        async with self._http.post(
            self.base + path, data=data, headers={"Cookie": self.cookie, **headers}, allow_redirects=False
        ) as answer:
            led_to = answer.headers.get("Location", "").removeprefix(URL(self.base).path)
            return answer.status, led_to or await answer.text()

    async def enter(self, link: str) -> None:
        async with self._http.get(link, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
            given, path = answer.headers["Set-Cookie"], answer.headers["Location"]
            assert f"Path={path};" in given
            assert "HttpOnly" in given
            assert "SameSite=Strict" in given
            assert "Max-Age=43200" in given
            self.cookie = given.split(";")[0]
            self.base += path.removesuffix("/")


@asynccontextmanager
async def a_browser(remote: Remote, link: str) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=NO_LIMIT) as http:
        browser = Browser(http, link.partition("/enter/")[0])
        await browser.enter(link)
        yield browser


async def a_link(remote: Remote, token: str = "") -> str:
    """For the user at the socket, or for a token over TCP."""
    if token:
        status, body = await remote.ask("POST", "/v1/page/link", token, json={})
        assert status == 201
        return f"http://127.0.0.1:{remote.place.port('api')}{body['path']}"
    async with remote.here.post("http://localhost/v1/page/link") as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["url"])


async def submit(remote: Remote, name: str, token: str = "", *, is_rented: bool = False) -> str:
    """Of that name, which is its own."""
    text = job_text(300, name, total='total = "$2"')
    wish = {"toml": text} if is_rented else {"toml": text + BELOW_ALL, "min_probability": 0}
    if token:
        status, body = await remote.ask("POST", "/v1/jobs", token, json=wish)
    else:
        async with remote.here.post("http://localhost/v1/jobs", json=wish) as answer:
            status, body = answer.status, await answer.json()
    assert status == 201, body
    return str(body["job"]["id"])


async def test_every_address_is_answered_by_something() -> None:
    assert f"{DaemonPages.__module__}:{DaemonPages.__name__}" == SERVED_BY
    with tempfile.TemporaryDirectory() as name:
        pages = DaemonPages(MailboxPlace(Path(name)))
        try:
            assert set(pages._answers) == {*ADDRESSES.values(), MISSING}
        finally:
            await pages.close()


async def test_a_link_lets_in_once_and_the_page_acts_in_its_users_name(remote: Remote) -> None:
    link = await a_link(remote)
    name = own_name("mine")
    job_id = await submit(remote, name)
    async with a_browser(remote, link) as browser:
        async with browser._http.get(link) as answer:
            assert answer.status == 401, "it was good once"
        status, now = await browser.get("/")
        assert (status, name in now) == (200, True)
        for path in (f"/jobs/{job_id}", "/money", "/decisions", "/market?gpu=RTX+4090", "/new", f"/jobs/{job_id}/log"):
            status, text = await browser.get(path)
            assert status == 200, (path, text)
        assert await browser.post("/zone", {"zone": "Asia/Tokyo", "back": "/money"}) == (303, "/money"), (
            "beneath its path"
        )
        status, page = await browser.get(f"/jobs/{job_id}", Cookie=f"{browser.cookie}; autopilot-zone=Asia/Tokyo")
        assert "Asia/Tokyo; $ per GPU" in page
        status, page = await browser.get(f"/jobs/{job_id}/do/cancel")
        assert f"Cancel {name} for good?" in page
        assert "It cannot be resumed." in page
        assert await browser.post(f"/jobs/{job_id}/do/cancel") == (303, f"/jobs/{job_id}?done=cancel")
        status, page = await browser.get(f"/jobs/{job_id}?done=cancel")
        assert "Cancelling." in page


@asynccontextmanager
async def a_neighbour(hears: list[str]) -> AsyncIterator[str]:
    """Another program on 127.0.0.1, and what it is sent."""

    async def hear(request: web.Request) -> web.Response:
        hears.append(str(dict(request.headers)) + request.path_qs)
        return web.Response(headers={"Set-Cookie": "autopilot-page=x; Path=/"})

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", hear)
    async with TestServer(app, host="127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.port}"


async def test_another_program_of_this_machine_is_sent_nothing_that_lets_in(remote: Remote) -> None:
    """A jar of cookies does as browsers do: it knows hosts and paths, and no ports."""
    hears: list[str] = []
    jar = aiohttp.CookieJar(unsafe=True)
    async with a_neighbour(hears) as evil, aiohttp.ClientSession(cookie_jar=jar, timeout=NO_LIMIT) as http:
        async with http.get(await a_link(remote)) as answer:
            assert answer.status == 200
            page, text = str(answer.url), await answer.text()
            referrer = answer.headers["Referrer-Policy"]
        (cookie,) = jar
        for path in ("/", "/picture.png", "/s/", "/enter/x", "/jobs/none", "/s/none/money", "/static/style.css"):
            async with http.get(evil + path) as answer:
                assert answer.status == 200
        assert len(hears) == 7
        assert not any(cookie.value in each for each in hears)
        assert not any(cookie.key in each for each in hears)
        secret_path = page.split("/s/")[1].strip("/")
        assert cookie["path"] == f"/s/{secret_path}/"
        assert (secret_path in text, cookie.value in text) == (False, False), "what is saved or shown of a page"
        assert referrer == "same-origin", "another port is another origin: it is not told the address"
        async with http.get(page) as answer:
            assert answer.status == 200, "a user who was let in still is"
        async with http.get(page, headers={"Sec-Fetch-Site": "same-site"}) as answer:
            assert answer.status == 403, "no page of that program leads there"
        async with http.post(f"{page}leave", headers={"Origin": evil}) as answer:
            assert answer.status == 403, "nor is a form of it taken"


async def test_who_has_taken_a_port_of_the_page_is_not_taken_for_the_listener(remote: Remote) -> None:
    """It may ask the listener, wherever that is by now, and pass its answer on."""
    base = (await a_link(remote)).partition("/enter/")[0]
    port = int(base.rpartition(":")[2])
    async with aiohttp.ClientSession(timeout=NO_LIMIT) as http, http.get(f"{base}/identity/question") as answer:
        said = await answer.text()
    assert said == remote.place.name_page("question", port)
    assert said != remote.place.name_page("question", port + 1)
    assert said != remote.place.name_page("another", port)


async def test_the_command_prints_the_link_alone_on_its_output(remote: Remote) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTOPILOT_")}
    environment["AUTOPILOT_API__SOCKET"] = str(remote.daemon.settings.socket_path)
    words = (sys.executable, "-m", "autopilot.cli.main", "web")
    process = await asyncio.create_subprocess_exec(
        *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, said = await process.communicate()
    assert (process.returncode, said) == (0, b"single use, expires in five minutes\n")
    async with a_browser(remote, printed.decode().strip()) as browser:
        assert (await browser.get("/"))[0] == 200


async def test_a_form_without_its_token_or_from_another_site_does_nothing(remote: Remote) -> None:
    job_id = await submit(remote, own_name("kept"))
    async with a_browser(remote, await a_link(remote)) as browser, a_browser(remote, await a_link(remote)) as other:
        await browser.get(f"/jobs/{job_id}/do/cancel")
        await other.get(f"/jobs/{job_id}/do/cancel")
        assert browser.form_token != other.form_token
        for form_token in ("", "0" * 64, other.form_token):
            assert (await browser.post(f"/jobs/{job_id}/do/cancel", {"form_token": form_token}))[0] == 403
            assert (await browser.post("/zone", {"form_token": form_token, "zone": "Asia/Tokyo"}))[0] == 403
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            assert (await browser.post(f"/jobs/{job_id}/do/cancel", None, **headers))[0] == 403
        assert (await browser.get("/", Host="evil.example"))[0] == 421
        _, shown = await remote.ask("GET", f"/v1/jobs/{job_id}", await remote.token(scope="admin"))
        assert shown["job"]["status"] not in ("cancelling", "cancelled")


async def test_what_is_not_there_is_said_with_the_way_to_what_is(remote: Remote) -> None:
    said = {"/jobs/unknown": "no job", "/machines/none": "no instance", "/nowhere": "There is no page /nowhere."}
    said["/jobs/unknown/deeper"] = "There is no page /jobs/unknown/deeper."
    for scope, has, lacks in (("admin", ["money", "decisions", "market", "new", "leave"], []), ("read", [], ["money"])):
        async with a_browser(remote, await a_link(remote, await remote.token(scope=scope))) as browser:
            for path, what in said.items():
                status, text = await browser.get(path)
                root = "../" * (path.count("/") - 1) or "./"
                is_open = scope == "admin" or not path.startswith("/machines")
                assert status == (404 if is_open else 403), text
                assert what in text or not is_open
                assert all(f'"{root}{page}"' in text for page in [*has, "decisions"]), text
                assert not any(f'"{root}{page}"' in text for page in lacks)
    browser.cookie = ""
    async with aiohttp.ClientSession(timeout=NO_LIMIT) as stranger, stranger.get(f"{browser.base}/nowhere") as answer:
        assert answer.status == 401


@pytest.mark.slow
async def test_the_rights_are_those_of_the_user_who_asked_for_the_link(remote: Remote) -> None:
    """A read token changes nothing; another owner's jobs are not seen."""
    name = own_name("theirs")
    theirs = await submit(remote, name)
    tokens = {scope: await remote.token(scope=scope) for scope in ("read", "operate", "submit", "admin")}
    mine = {
        scope: await submit(remote, own_name(f"of-{scope}"), token)
        for scope, token in tokens.items()
        if scope in ("submit", "admin")
    }
    allowed = {"read": set(), "operate": set(), "submit": {"stop"}, "admin": {"stop"}}
    for scope, token in tokens.items():
        async with a_browser(remote, await a_link(remote, token)) as browser:
            status, now = await browser.get("/")
            assert status == 200
            assert (name in now) == (scope == "admin"), scope
            assert (await browser.get(f"/jobs/{theirs}"))[0] == (200 if scope == "admin" else 404)
            assert (await browser.get("/money"))[0] == (200 if scope == "admin" else 403)
            assert (await browser.get("/new"))[0] == (200 if scope in ("submit", "admin") else 403)
            assert (await browser.get("/decisions"))[0] == 200
            job_id = mine.get(scope, theirs)
            await browser.get("/")
            status, where = await browser.post(f"/jobs/{job_id}/do/stop")
            assert (status == 303) == bool(allowed[scope]), (scope, where)
            status, text = await browser.post("/new", {"toml": GOOD, "do": "submit"})
            assert (status == 303) == (scope in ("submit", "admin")), (scope, text)
    async with remote.here.get("http://localhost/v1/jobs?all=1") as answer:
        statuses = {job["id"]: job["status"] for job in (await answer.json())["jobs"]}
    assert statuses[theirs] not in ("stopping", "parked")
    assert statuses[mine["submit"]] in ("stopping", "parked")


async def test_what_is_no_session_is_told_how_to_get_one_and_the_daemon_hears_nothing(remote: Remote) -> None:
    base = (await a_link(remote)).partition("/enter/")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=NO_LIMIT) as http:
        browser = Browser(http, base)
        for secret in ("", f"appg_{'x' * 43}", "x" * 500):
            place = make_path(secret)
            browser.base, browser.cookie = base + place.removesuffix("/"), f"{name_cookie(place[3:-1])}={secret}"
            for path in ("/", "/money", "/jobs/none", "/stream/now", "/enter/nothing", "/new"):
                status, text = await browser.get(path)
                assert (status, "run autopilot web for a new link" in text) == (401, True), path


async def test_a_session_is_no_token_and_a_link_no_session(remote: Remote) -> None:
    link = await a_link(remote)
    secret = link.rpartition("/")[2]
    async with remote.here.get("http://localhost/v1/jobs", headers={"Authorization": f"Bearer {secret}"}) as answer:
        assert answer.status == 401, "a link is good for a session alone"
    async with a_browser(remote, link) as browser:
        secret = browser.cookie.partition("=")[2]
        assert (await remote.ask("GET", "/v1/jobs", secret))[0] == 401, "over TCP the API takes tokens alone"


async def test_a_session_ends_with_its_token_and_when_its_user_leaves(remote: Remote) -> None:
    name = own_name("ci")
    token = await remote.token(name, scope="read")
    async with (
        a_browser(remote, await a_link(remote, token)) as browser,
        a_browser(remote, await a_link(remote)) as own,
    ):
        assert (await browser.get("/"))[0] == 200
        async with remote.here.post(f"http://localhost/v1/tokens/{name}/revoke") as answer:
            assert answer.status == 200
        assert (await browser.get("/"))[0] == 401
        assert (await own.get("/"))[0] == 200
        assert (await own.post("/leave", {"form_token": "none"}))[0] == 403
        assert (await own.get("/"))[0] == 200
        assert (await own.post("/leave"))[0] == 200
        assert (await own.get("/"))[0] == 401


async def test_new_shows_errors_at_their_line_a_plan_and_submits_once(remote: Remote) -> None:
    text = job_text(300, own_name(), total='total = "$2"')
    async with a_browser(remote, await a_link(remote)) as browser:
        await browser.get("/new")
        status, page = await browser.post("/new", {"toml": 'name = "x"\nbogus = 1\n', "do": "plan"})
        assert status == 422
        assert 'data-line="2"' in page
        assert "unknown key" in page
        status, page = await browser.post("/new", {"toml": text, "do": "plan"})
        assert status == 200
        assert "What it will cost" in page
        assert "Expected cost" in page
        form = {"toml": text, "do": "submit", "once": own_name("one")}
        status, where = await browser.post("/new", form)
        assert status == 303
        assert (await browser.post("/new", form)) == (303, where), "sent twice, it acts once"
        status, page = await browser.post("/new", form | {"once": own_name("two")})
        assert (status, "submit a second identical job" in page) == (409, True)
        assert (await browser.post("/new", form | {"once": own_name("three"), "again": "1"}))[0] == 303


async def test_a_change_says_what_it_costs_before_it_is_made(remote: Remote) -> None:
    job_id = await submit(remote, own_name("grows"), is_rented=True)
    async with a_browser(remote, await a_link(remote)) as browser:
        assert "now $2.00" in (await browser.get(f"/jobs/{job_id}/do/change"))[1]
        page = (await browser.get(f"/jobs/{job_id}/do/change?budget=5"))[1]
        assert "It may cost $3.00 more than now: up to $5.00" in page
        assert (await browser.get(f"/jobs/{job_id}/do/change?budget=lots"))[0] == 400
        form = {"budget": "5", "once": "a"}
        assert await browser.post(f"/jobs/{job_id}/do/change", form) == (303, f"/jobs/{job_id}?done=change")
        status, page = await browser.post(f"/jobs/{job_id}/do/change", {"budget": "0.01", "once": "b"})
        assert (status, "Not done" in page) == (402, True)
        async with remote.here.get(f"http://localhost/v1/jobs/{job_id}") as answer:
            assert (await answer.json())["job"]["budget"] == "5"


@pytest.mark.parametrize("verb", ["stop", "resume", "release", "cancel", "explode"])
async def test_what_cannot_be_done_is_said(remote: Remote, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.engine.engine.CALLS_WAIT_REAL_S", 0.0)  # for machines of the other tests' jobs
    job_id = await submit(remote, own_name("over"))
    async with a_browser(remote, await a_link(remote)) as browser:
        await browser.get("/")
        assert (await browser.post(f"/jobs/{job_id}/do/cancel"))[0] == 303
        await remote.daemon.engine.tick()
        status, page = await browser.post(f"/jobs/{job_id}/do/{verb}")
        assert 400 <= status < 500, page


async def read_until(answer: aiohttp.ClientResponse, text: str) -> tuple[str, str]:
    """(name or id, data) of the first event with that text. A busy daemon may be told as silent before it."""
    name, data = "", ""
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line.startswith(("event: ", "id: ")):
            name, data = line.partition(": ")[2], ""
        elif line.startswith("data: "):
            data += line[6:]
        elif not line and text in data:
            return name, data
    raise AssertionError(f"the stream ended without {text!r}")


@pytest.mark.slow
async def test_what_moves_is_sent_when_it_has_changed_and_once(fresh: Remote) -> None:
    async with a_browser(fresh, await a_link(fresh)) as browser:
        stream = f"{browser.base}/stream/now"
        headers = {"Cookie": browser.cookie}
        async with browser._http.get(stream, headers=headers) as answer:
            assert answer.content_type == "text/event-stream"
            assert (await read_until(answer, '{"silent": ""}'))[0] == "state"
            known, html = await read_until(answer, "No open jobs.")
            assert 'name="form_token"' not in html, "what is shared holds no user's token"
            await submit(fresh, "moving")
            await fresh.daemon.engine.tick()
            await read_until(answer, "moving")
        async with browser._http.get(stream, headers=headers | {"Last-Event-ID": known}) as answer:
            later, _ = await read_until(answer, "moving")
            assert later != known, "it was known; what came since is sent"


@pytest.mark.slow
async def test_without_http_the_port_is_open_for_as_long_as_there_are_sessions() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_remote(Path(name), listen=None) as remote:
            assert remote.place.port(PAGE) is None
            link = await a_link(remote)
            port = remote.place.port(PAGE)
            assert link.startswith(f"http://127.0.0.1:{port}/enter/")
            async with a_browser(remote, link) as browser:
                assert (await browser.get("/"))[0] == 200
                assert (await browser.get("/v1/jobs"))[0] == 404, "the API is not served there"
                assert (await browser.post("/leave"))[0] == 200
                await _until_closed(browser)
            again = await a_link(remote)
            assert again.startswith(f"http://127.0.0.1:{port}/"), "its old number, so that a page that is open goes on"


async def _until_closed(browser: Browser) -> None:
    while True:
        try:
            await browser.get("/")
        except aiohttp.ClientError:
            return
        await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_session_outlives_its_daemon() -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        async with a_remote(root, listen=None) as remote, a_browser(remote, await a_link(remote)) as browser:
            cookie, base = browser.cookie, browser.base
        async with (
            a_remote(root, listen=None) as remote,
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=NO_LIMIT) as http,
        ):
            assert (await a_link(remote)).startswith(base.partition("/s/")[0])
            again = Browser(http, base)
            again.cookie = cookie
            assert (await again.get("/"))[0] == 200
