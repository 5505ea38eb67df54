"""``docs/images/page``: pages of a daemon on two sandbox markets, after hours of market time, as Chromium shows them.

One job is outbid and loses a host, one is longer than was said and parked by its budget, one is done. It takes about
four minutes.
"""

from __future__ import annotations

import shutil
import sys
import time
from decimal import Decimal
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.two_markets import price_out_runpod
from tests.acceptance.stage import FINAL, a_theatre, job_text, show, submit, until

KEPT = Path(__file__).parents[1] / "docs/images/page"
WIDE, NARROW = (1280, 900), (360, 800)
PAGES = {
    "now": ("/", WIDE, "light"),
    "now-narrow": ("/", NARROW, "dark"),
    "job": ("/jobs/{job}", WIDE, "light"),
    "job-dark": ("/jobs/{job}", WIDE, "dark"),
    "machine": ("/machines/{machine}", WIDE, "light"),
    "market": ("/market?gpu=RTX+4090&period=1d", WIDE, "light"),
    "money": ("/money", WIDE, "light"),
    "decisions": ("/decisions", WIDE, "light"),
    "new": ("/new", WIDE, "light"),
    "confirm": ("/jobs/{job}/do/cancel", WIDE, "light"),
}
LIMITS = {
    "AUTOPILOT_LIMITS__DAY": "20",
    "AUTOPILOT_LIMITS__MONTH": "100",
    "AUTOPILOT_LIMITS__MAX_HOURLY": "3",
}
LOADED_S = 120
RUNS_S = 20
"""Real seconds of work between two events, at a market minute each."""


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 1
    with a_theatre(markets=("vastai", "runpod"), settings=LIMITS) as theatre, sync_playwright() as playwright:
        theatre.start_market()
        price_out_runpod(theatre)
        theatre.start_daemon()
        job = _play(theatre)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        _draw(browser, theatre, job)
        browser.close()
    return 0


def _play(theatre: Theatre) -> str:
    """The id of the job that is worth a look: it works, on its third machine."""
    short = submit(theatre, job_text(600, "tokenise", estimate='estimate = "12m"'))
    due = '\n[deadline]\nwithin = "12h"\n'
    job = submit(theatre, job_text(30_000, "llama3-8b-sft", estimate='estimate = "6h"') + due)
    submit(theatre, job_text(9_000, "ablation-7", estimate='estimate = "20m"', total='total = "$0.30"'))
    main = _await_work(theatre, job, "")
    time.sleep(RUNS_S)
    bid = (Decimal(main["bid"]) * Decimal("1.08")).quantize(Decimal("0.001"))
    theatre.emu("rival", {"instance_id": int(main["instance_id"]), "bid": str(bid)})
    main = _await_work(theatre, job, main["id"])
    time.sleep(RUNS_S)
    theatre.emu("host", {"machine_id": int(main["machine_id"]), "state": "vanished"})
    _await_work(theatre, job, main["id"])
    until(lambda: show(theatre, short)["job"]["status"] in FINAL, "the short job is over", LOADED_S)
    time.sleep(3 * RUNS_S)  # one forecast a minute
    return job


def _await_work(theatre: Theatre, job: str, former: str) -> dict[str, str]:
    def works() -> dict[str, str] | None:
        main = show(theatre, job)["job"]["main"]
        return main if main and main["id"] != former and main["agent_state"] == "running" else None

    found: dict[str, str] = until(works, "the job works on another machine" if former else "the job works", LOADED_S)
    return found


def _draw(browser: Browser, theatre: Theatre, job: str) -> None:
    machine = show(theatre, job)["leases"][0]["id"]
    for name, (path, (width, height), scheme) in PAGES.items():
        link = theatre.client.post("/v1/page/link")["url"]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            locale="en-GB",
        )
        page = context.new_page()
        page.goto(link)
        page.goto(link.partition("/enter/")[0] + path.format(job=job, machine=machine))
        page.screenshot(path=KEPT / f"{name}.png", full_page=True)
        context.close()


if __name__ == "__main__":
    sys.exit(main())
