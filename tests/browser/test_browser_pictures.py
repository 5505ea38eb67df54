"""Each page of a fixed ledger is drawn as it was drawn when its picture was kept.

Another Chromium or other fonts draw otherwise: there a difference is reported, and fails nothing. After an intended
change, ``make page-pictures`` renews the pictures.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.fixed_pages import serving_fixed_pages
from tests.unit.web.web_ledger import JOB

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parents[1] / "assets" / "pages"
MADE_WITH = KEPT / "made-with.json"
MOST_SHARE = 0.001
"""Of the pixels of a page that may differ."""
WIDE, NARROW = 1280, 360
PICTURES: dict[str, tuple[str, int, Literal["light", "dark"]]] = {
    "now": ("/", WIDE, "light"),
    "now-narrow-dark": ("/", NARROW, "dark"),
    "job": (f"/jobs/{JOB}", WIDE, "light"),
    "job-narrow-dark": (f"/jobs/{JOB}", NARROW, "dark"),
    "machine": ("/machines/lease-a", WIDE, "light"),
    "market": ("/market?gpu=RTX+4090&period=1d", WIDE, "light"),
    "money": ("/money", WIDE, "dark"),
    "decisions": ("/decisions", WIDE, "light"),
    "new": ("/new", WIDE, "light"),
    "change": ("/do/change", NARROW, "light"),
    "cancel": ("/do/cancel", WIDE, "dark"),
    "no-such-page": ("/nothing", NARROW, "light"),
}
COUNT = """async ([kept, drawn]) => {
  const load = url => new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => fail(new Error("not a picture"));
    image.src = "data:image/png;base64," + url;
  });
  const images = await Promise.all([load(kept), load(drawn)]);
  const width = Math.max(...images.map(each => each.width)), height = Math.max(...images.map(each => each.height));
  const [one, other] = images.map(image => {
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, width, height).data;
  });
  let count = 0;
  for (let at = 0; at < one.length; at += 4) {
    count += [0, 1, 2, 3].some(part => Math.abs(one[at + part] - other[at + part]) > 24);
  }
  return count / (width * height);
}"""


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    with serving_fixed_pages() as address:
        yield address


@pytest.fixture(scope="module")
def here(chromium: Browser) -> dict[str, str]:
    """What decides how text is drawn."""
    files = {
        family: Path(subprocess.check_output(["fc-match", "-f", "%{file}", family], text=True))
        for family in ("system-ui", "monospace")
    }
    fonts = {family: f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for family, file in files.items()}
    return {"chromium": chromium.version} | fonts


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_is_drawn_as_it_was(chromium: Browser, link: str, here: dict[str, str], name: str) -> None:
    path, width, scheme = PICTURES[name]
    context = chromium.new_context(
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        locale="en-GB",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(link)
    page.goto(page.url.removesuffix("/") + path)
    page.wait_for_load_state("networkidle")
    # Its foot shows the version of the program.
    drawn = page.screenshot(full_page=True, animations="disabled", mask=[page.locator(".foot")], mask_color="#888888")
    file = KEPT / f"{name}.png"
    if os.environ.get("AUTOPILOT_KEEP_PICTURES"):
        KEPT.mkdir(exist_ok=True)
        file.write_bytes(drawn)
        MADE_WITH.write_text(json.dumps(here, indent=2) + "\n")
    share = _compare(page, file.read_bytes(), drawn)
    context.close()
    told = f"{share:.3%} of {name} is not as in {file.name}"
    if here != json.loads(MADE_WITH.read_text()) and share > MOST_SHARE:
        pytest.skip(f"{told}, which another Chromium or other fonts drew")
    assert share <= MOST_SHARE, f"{told}; if that is meant: make page-pictures"


def test_a_difference_is_counted(chromium: Browser, link: str) -> None:
    page = chromium.new_page(viewport={"width": 400, "height": 200})
    page.set_content("<body style='margin:0'><p style='margin:0;height:100px;background:#123'></p>")
    plain = page.screenshot()
    assert _compare(page, plain, plain) == 0
    page.set_content("<body style='margin:0'><p style='margin:0;height:102px;background:#123'></p>")
    assert _compare(page, plain, page.screenshot()) == pytest.approx(0.01)
    page.set_viewport_size({"width": 400, "height": 400})
    page.set_content("<body style='margin:0'><p style='margin:0;height:100px;background:#123'></p>")
    assert _compare(page, plain, page.screenshot()) == pytest.approx(0.5)
    page.close()


def _compare(page: Page, kept: bytes, drawn: bytes) -> float:
    """The share of pixels that differ; what only one picture has differs."""
    page.goto("about:blank")
    return float(page.evaluate(COUNT, [base64.b64encode(each).decode() for each in (kept, drawn)]))
