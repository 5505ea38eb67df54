"""What somebody does at the page: open the link, look, type, press."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page

from autopilot_lab.demo.theatre import Theatre
from tests.patience import PATIENCE_S

LIMITS = {
    "AUTOPILOT_LIMITS__DAY": "20",
    "AUTOPILOT_LIMITS__MONTH": "100",
    "AUTOPILOT_LIMITS__MAX_HOURLY": "3",
}
SOON_MS = PATIENCE_S * 1000


class Onlooker:
    def __init__(self, page: Page, theatre: Theatre) -> None:
        self.page = page
        self.theatre = theatre
        self.base = ""
        self.complaints: list[str] = []
        page.set_default_timeout(SOON_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def enter(self) -> None:
        link = self.theatre.client.post("/v1/page/link")["url"]
        self.page.goto(link)
        self.base = self.page.url.removesuffix("/")
        assert self.base.startswith(link.partition("/enter/")[0] + "/s/")

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def await_text(self, text: str, within_ms: float = SOON_MS) -> None:
        """It may come by itself, without a reload."""
        self.page.get_by_text(text).first.wait_for(timeout=within_ms)

    def find_faults(self) -> list[str]:
        """What axe-core finds wrong."""
        found: dict[str, Any] = Axe().run(self.page).response
        return [f"{each['id']}: {node['html'][:120]}" for each in found["violations"] for node in each["nodes"]]

    def is_too_wide(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
