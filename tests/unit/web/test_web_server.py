"""The pages over a real socket: who is let in, what is forbidden to them, and how they say that something is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from autopilot.books.ledger_view import LedgerReader
from autopilot.clock import ManualClock
from autopilot.ports.store import StoreUnavailable, UnitOfWork
from autopilot.web.server import Server
from autopilot.web.site import POLICY
from tests.unit.web.page_reader import Browser, PageReader
from tests.unit.web.web_ledger import JOB, LIMITS, NOW, a_reader

PAGES = ["/", f"/jobs/{JOB}", f"/jobs/{JOB}?d=01DECISION1&period=6h", "/jobs/research", "/jobs/job-parked", "/money"]
PAGES += ["/decisions", "/decisions?kind=veto", "/decisions?before=01DECISION2", "/machines/lease-a", "/machines/h45dn"]
PAGES += ["/hosts"]
PAGES += ["/?name=RES&status=running&sort=spent", "/?page=2", "/?name=nothing"]
PAGES += ["/money?month=2026-10&by=gpu", "/money?by=provider", "/money?by=label", "/jobs/unknown", "/nowhere"]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_whole_and_has_no_script(browser: Browser, path: str) -> None:
    async with browser.get(path) as answer:
        page = PageReader(text := await answer.text())
        assert answer.status == (404 if path in ("/jobs/unknown", "/nowhere") else 200)
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["Cache-Control"] == "no-store"
    assert not {tag for tag, _ in page.elements} & {"script", "iframe", "object", "style"}
    assert [tag for tag, _ in page.elements].count("form") <= 2  # the choice of the time zone, and of jobs
    assert not {name for _, names in page.elements for name in names if name == "style" or name.startswith("on")}
    given = [link for link in page.links if not link.startswith(("#", "/static/"))]
    assert all(link.startswith(("./", "../", "?")) for link in given), "none holds the path of its session"
    assert browser.base not in text


async def test_the_market_has_the_picture_and_the_program_that_zooms(browser: Browser) -> None:
    for path in ("/market", "/market?gpu=RTX+4090&period=30d"):
        async with browser.get(path) as answer:
            page = PageReader(await answer.text())
            assert answer.status == 200
        assert [tag for tag, _ in page.elements].count("script") == 2
        assert "what we paid" in page.text
        assert "A ledger has no offers." in page.text


@pytest.mark.slow
async def test_every_link_of_every_page_leads_to_a_page(browser: Browser) -> None:
    seen: set[str] = set()
    ahead = {"/"}
    while ahead and len(seen) < 60:
        path = ahead.pop()
        seen.add(path)
        async with browser.get(path) as answer:
            assert answer.status == 200, path
            if answer.content_type == "text/html":
                links = {link.split("#")[0] for link in PageReader(await answer.text()).links}
                there = [str(URL(f"http://here{path}").join(URL(link))).removeprefix("http://here") for link in links]
                # Months go back without an end.
                ahead |= {link for link in there if link and "month=20" not in link} - seen
    assert {"/", "/money", "/decisions", "/market", "/hosts", "/machines/lease-a", f"/jobs/{JOB}"} <= seen
    assert any(path.startswith("/static/icon.svg?") for path in seen)


@pytest.mark.parametrize("path", ["/", "/money", f"/jobs/{JOB}", "/nowhere", "/enter/another-key"])
async def test_who_has_not_the_link_sees_nothing(stranger: Browser, path: str) -> None:
    async with stranger.get(path) as answer:
        text = PageReader(await answer.text()).text
        assert answer.status == 401
    assert "open the link that autopilot web printed" in text
    assert "research" not in text


async def test_another_name_or_another_site_is_answered_nothing(browser: Browser) -> None:
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        async with browser.get("/", headers=headers) as answer:
            assert answer.status == status
            assert "research" not in await answer.text()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_sent(browser: Browser, method: str) -> None:
    async with browser.request(method, f"/jobs/{JOB}") as answer:
        assert answer.status == 405
        assert answer.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/jobs/unknown", 404, "no job 'unknown'"),
        (f"/jobs/{JOB}?d=none", 400, "no decision 'none'"),
        (f"/jobs/{JOB}?period=9y", 400, "no period '9y'"),
        ("/money?month=November", 400, "not a month: 'November'"),
        ("/money?month=0001-01", 400, "not a month: '0001-01'"),
        ("/money?by=weather", 400, "cannot group spend by 'weather'"),
        ("/?status=ill", 400, "no status 'ill'"),
        ("/?sort=whim", 400, "no order 'whim'"),
        ("/?page=0", 400, "no page '0'"),
        ("/?page=99999999999999999999", 400, "no page '9999"),
        ("/?name=" + "x" * 101, 400, "the name is longer than 100 characters"),
        ("/decisions?kind=whim", 400, "no kind 'whim' of decision"),
        ("/market?period=1y", 400, "no period '1y'"),
        ("/machines/none", 404, "no instance 'none'"),
    ],
)
async def test_a_wrong_address_says_what_is_wrong(
    browser: Browser,
    path: str,
    status: int,
    said: str,
) -> None:
    async with browser.get(path) as answer:
        assert answer.status == status
        assert said in PageReader(await answer.text()).text


class _Unreadable:
    """A database whose disk is gone."""

    revision = 0

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UnitOfWork]:
        raise StoreUnavailable("the disk is gone")
        yield

    transaction = snapshot

    async def close(self) -> None: ...


async def test_a_ledger_that_cannot_be_read_is_not_shown_as_an_empty_one(browser: Browser) -> None:
    server = Server(LedgerReader(_Unreadable(), ManualClock(NOW), LIMITS), "key")
    async with TestClient(TestServer(server.app(), host="127.0.0.1")) as client:
        async with client.get("/enter/key", allow_redirects=False) as answer:
            cookie, path = answer.headers["Set-Cookie"].split(";")[0], answer.headers["Location"]
        async with client.get(path, headers={"Cookie": cookie}) as answer:
            text = PageReader(await answer.text()).text
            assert answer.status == 503
    assert "the disk is gone" in text
    assert "this does not mean that you have no jobs" in text


async def test_the_style_is_kept_by_the_browser_and_changes_its_address(browser: Browser) -> None:
    async with browser.get("/") as answer:
        link = next(link for link in PageReader(await answer.text()).links if "style.css?" in link)
    async with browser.get(link) as answer:
        assert (answer.status, answer.content_type) == (200, "text/css")
        assert "immutable" in answer.headers["Cache-Control"]
    async with browser.get("/static/..%2fserver.py") as answer:
        assert answer.status == 404


async def test_two_servers_let_in_their_own_alone(browser: Browser) -> None:
    server = TestServer(Server(await a_reader(), "other").app(), host="127.0.0.1")
    async with TestClient(server) as other:
        for path in ("/", f"{browser.base}/"):
            async with other.get(path, headers={"Cookie": browser.session.headers["Cookie"]}) as answer:
                assert answer.status == 401


@pytest.mark.parametrize("path", ["/s/{other}/", "/", "/s/{own}", "/s//", "/S/{own}/", "/s/{own}%2F"])
async def test_a_cookie_lets_in_beneath_its_own_path_alone(browser: Browser, path: str) -> None:
    own, browser.base = browser.base.removeprefix("/s/"), ""
    async with browser.get(path.format(own=own, other="0" * 32), allow_redirects=False) as answer:
        assert answer.status == 401
        assert "research" not in await answer.text()
