"""Debian's Chromium, a daemon and both sandbox markets, each a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.two_markets import price_out_runpod
from tests.acceptance.stage import a_theatre
from tests.browser.browser_world import LIMITS, Onlooker


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        # In a container its sandbox would need rights that tests should not ask for; only our own pages are opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with a_theatre(markets=("vastai", "runpod"), settings=LIMITS) as made:
        made.start_market()
        price_out_runpod(made)
        made.start_daemon()
        yield made


@pytest.fixture
def onlooker(chromium: Browser, theatre: Theatre) -> Iterator[Onlooker]:
    """A tab whose user has opened the link. Whatever its console said fails the test at its end."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    made = Onlooker(context.new_page(), theatre)
    made.enter()
    yield made
    context.close()
    assert made.complaints == []
