"""The time zone of a page: chosen once, kept by the browser, and followed by every time and axis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from autopilot.web import svg, words, zone
from autopilot.web.svg import Axis
from tests.unit.web.page_reader import Browser, PageReader

BEFORE_WINTER = datetime(2026, 10, 24, 12, tzinfo=UTC)


def test_times_are_those_of_the_zone_and_go_back_to_utc_after_it() -> None:
    at = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    with zone.chosen("Asia/Tokyo"):
        assert words.moment_in_zone(at).replace("\u00a0", " ") == "21 Nov 08:30:00 Asia/Tokyo"
    assert words.moment_in_zone(at).replace("\u00a0", " ") == "20 Nov 23:30:00 UTC"


def test_days_of_an_axis_begin_at_local_midnight_also_when_the_clock_changes() -> None:
    with zone.chosen("Europe/Berlin"):
        ticks = list(Axis(BEFORE_WINTER, BEFORE_WINTER + timedelta(days=3)).ticks(3))
    assert [label for _, label in ticks] == ["25 Oct", "26 Oct", "27 Oct"]
    starts = [at for at, _ in ticks]
    assert starts[0] == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert [later - at for at, later in pairwise(starts)] == [
        timedelta(hours=25),
        timedelta(days=1),
    ]


def test_half_hours_of_an_offset_are_followed() -> None:
    with zone.chosen("Asia/Kolkata"):
        ticks = list(Axis(BEFORE_WINTER, BEFORE_WINTER + timedelta(hours=3)).ticks(3))
    assert [(f"{at:%H:%M}", label) for at, label in ticks] == [
        ("12:30", "18:00"),
        ("13:30", "19:00"),
        ("14:30", "20:00"),
    ]


def test_a_grid_that_is_kept_is_that_of_its_zone() -> None:
    period = BEFORE_WINTER, BEFORE_WINTER + timedelta(hours=6)
    with zone.chosen("Asia/Kolkata"):
        there = svg.grid(Axis(*period), 10)
    assert there != svg.grid(Axis(*period), 10)


def test_every_zone_that_is_offered_is_known() -> None:
    assert zone.list_names()[0] == "UTC"
    assert len(zone.list_names()) > 40


async def test_a_zone_is_chosen_once(browser: Browser) -> None:
    async with browser.get("/jobs/research") as answer:
        assert "Timeline 20 Nov 13:30:00" in PageReader(await answer.text()).text
    given = {"zone": "Asia/Tokyo", "back": "/jobs/research?period=6h"}
    async with browser.post("/zone", data=given, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, f"{browser.base}/jobs/research?period=6h")
        assert "SameSite=Strict" in answer.headers["Set-Cookie"]
    async with browser.get("/jobs/research") as answer:
        text = PageReader(await answer.text()).text
    assert "Asia/Tokyo; $ per GPU and hour" in text
    assert "Timeline 20 Nov 22:30:00" in text


@pytest.mark.parametrize(
    "back", ["//elsewhere.example/", "/\\elsewhere.example", "https://elsewhere.example/", "", "/\r\nX: y"]
)
async def test_no_redirect_leaves_the_page_and_an_unknown_zone_is_utc(browser: Browser, back: str) -> None:
    async with browser.post("/zone", data={"zone": "../../etc/passwd", "back": back}, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, f"{browser.base}/")
        assert answer.headers["Set-Cookie"].startswith("autopilot-zone=UTC;")
