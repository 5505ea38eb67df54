"""In a real Chromium, against a real daemon and both sandboxes: submit, watch, read why, change, cancel."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import pytest
from playwright.sync_api import Browser, Request, Route, expect

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import job_text, show, submit, until
from tests.browser.browser_world import SOON_MS, Onlooker

pytestmark = pytest.mark.slow

PAGES = ["/", "/jobs/{job}", "/machines/{machine}", "/money", "/decisions", "/market?gpu=RTX+4090&period=1d", "/new"]
PAGES += ["/jobs/{job}/do/cancel", "/jobs/{job}/do/change", "/jobs/{job}/do/change?budget=9", "/jobs/none"]
TELL_HIDDEN = """is => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => is ? "hidden" : "visible" });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def job(theatre: Theatre) -> str:
    """One that works on a machine."""
    job_id = submit(
        theatre, job_text(200_000, "watched", estimate='estimate = "6h"') + '\n[deadline]\nwithin = "20h"\n'
    )
    until(lambda: (show(theatre, job_id)["job"]["main"] or {}).get("agent_state") == "running", "the job works", 120)
    return job_id


def test_submit_by_keyboard_and_watch_it_begin(onlooker: Onlooker) -> None:
    page = onlooker.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_role("link", name="New job").focus()
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Job file").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text('name = "typed"\nbogus = 1\n')
    page.get_by_role("button", name="Show what it will cost").press("Enter")
    onlooker.await_text('unknown key "bogus"')
    assert page.evaluate("document.activeElement.id") == "toml"
    chosen = "(file => file.value.slice(file.selectionStart, file.selectionEnd))(document.activeElement)"
    assert page.evaluate(chosen) == "bogus = 1"
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(job_text(100_000, "typed", estimate='estimate = "3h"'))
    page.get_by_role("button", name="Show what it will cost").press("Enter")
    onlooker.await_text("Expected cost")
    page.get_by_role("button", name="Submit").press("Enter")
    onlooker.await_text("Submitted.")
    expect(page.get_by_role("heading", name="typed")).to_be_visible()
    onlooker.await_text("rents RTX 4090")
    onlooker.await_text("training from step 0")
    # A 422 for the wrong job file is what the page says; the browser notes it too.
    onlooker.complaints = [each for each in onlooker.complaints if "422" not in each]


def test_an_outbid_appears_by_itself_and_the_decision_can_be_opened(onlooker: Onlooker, job: str) -> None:
    onlooker.open(f"/jobs/{job}")
    main = show(onlooker.theatre, job)["job"]["main"]
    bid = (Decimal(main["bid"]) * Decimal("1.08")).quantize(Decimal("0.001"))
    onlooker.page.evaluate("window.isTheSamePage = true")
    onlooker.theatre.emu("rival", {"instance_id": int(main["instance_id"]), "bid": str(bid)})
    onlooker.await_text("outbid at $")
    onlooker.theatre.emu("host", {"machine_id": int(main["machine_id"]), "state": "vanished"})
    until(lambda: _has_moved(onlooker.theatre, job, main["id"]), "the job works elsewhere")
    onlooker.page.locator("tbody tr", has_text=show(onlooker.theatre, job)["job"]["main"]["instance_id"]).wait_for()
    assert onlooker.page.evaluate("window.isTheSamePage") is True
    onlooker.page.locator(".marks").first.locator(".mark").last.focus()
    onlooker.page.keyboard.press("Enter")
    onlooker.page.wait_for_url("**/jobs/*?d=*#why")
    expect(onlooker.page.locator("#why .say")).not_to_be_empty()
    expect(onlooker.page.locator(".marks").first.locator(".chosen")).to_have_count(1)


def _has_moved(theatre: Theatre, job: str, lease_id: str) -> bool:
    main = show(theatre, job)["job"]["main"]
    return bool(main) and main["id"] != lease_id and main["agent_state"] == "running"


def test_focus_survives_what_comes(onlooker: Onlooker, job: str) -> None:
    onlooker.open("/")
    onlooker.page.get_by_role("link", name="watched").first.focus()
    submit(onlooker.theatre, job_text(300, "newcomer"))
    onlooker.await_text("newcomer")
    assert onlooker.page.evaluate("document.activeElement.textContent") == "watched"


def test_a_hidden_tab_asks_for_nothing_until_it_is_seen_again(onlooker: Onlooker) -> None:
    """Playwright shows every tab, so the page is told that it is hidden, as the browser would tell it."""
    page = onlooker.page

    def is_stream(request: Request) -> bool:
        return request.url.endswith("/stream/now")

    with page.expect_request(is_stream):
        onlooker.open("/")
    page.get_by_role("heading", name="Jobs").wait_for()
    with page.expect_event("requestfailed", is_stream):
        page.evaluate(TELL_HIDDEN, True)
    submit(onlooker.theatre, job_text(300, "while-hidden"))
    until(lambda: "while-hidden" in str(onlooker.theatre.client.get("/v1/page/now")), "it is known to the daemon")
    expect(page.get_by_text("while-hidden")).to_have_count(0)
    with page.expect_request(is_stream):
        page.evaluate(TELL_HIDDEN, False)
    onlooker.await_text("while-hidden")


def test_change_the_budget_then_cancel_and_read_the_month(onlooker: Onlooker) -> None:
    job_id = submit(onlooker.theatre, job_text(100_000, "ends", estimate='estimate = "3h"'))
    page = onlooker.page
    onlooker.open(f"/jobs/{job_id}")
    page.get_by_role("link", name="Change limits").press("Enter")
    page.get_by_label("Budget").fill("4.50")
    page.get_by_role("button", name="Review the change").press("Enter")
    onlooker.await_text("It may cost $1.50 more than now: up to $4.50")
    page.get_by_role("button", name="Change limits").press("Enter")
    onlooker.await_text("Changed.")
    onlooker.await_text("of $4.50")
    page.get_by_role("link", name="Cancel").press("Enter")
    onlooker.await_text("It cannot be resumed.")
    page.get_by_role("button", name="Cancel").press("Enter")
    onlooker.await_text("Cancelling.")
    page.locator(".pill", has_text="cancelled").wait_for()
    page.get_by_role("link", name="Money").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("20")
    expect(page.get_by_role("heading", name="Reconciliation")).to_be_visible()


Scheme = Literal["light", "dark"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_and_nothing_is_too_wide(onlooker: Onlooker, job: str, width: int, scheme: Scheme) -> None:
    onlooker.page.set_viewport_size({"width": width, "height": 900})
    onlooker.page.emulate_media(color_scheme=scheme)
    machine = show(onlooker.theatre, job)["leases"][0]["id"]
    faults = {}
    for path in PAGES:
        onlooker.open(path.format(job=job, machine=machine))
        if found := onlooker.find_faults():
            faults[path] = found
        assert not onlooker.is_too_wide(), path
    assert faults == {}
    onlooker.complaints = [each for each in onlooker.complaints if "404" not in each]  # of the job that there is not


def test_the_market_zooms_and_reads_by_keyboard(onlooker: Onlooker, job: str) -> None:
    onlooker.open("/market?gpu=RTX+4090&period=1d")
    plot = onlooker.page.get_by_role("slider")
    plot.press("End")
    plot.press("ArrowLeft")
    expect(onlooker.page.locator("#readout")).to_contain_text("UTC:")


def test_without_scripts_every_table_and_picture_is_there(chromium: Browser, theatre: Theatre, job: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    onlooker = Onlooker(context.new_page(), theatre)
    onlooker.enter()
    for path, heading in (("/", "Machines"), (f"/jobs/{job}", "Timeline"), ("/market", "What we would bid now")):
        onlooker.open(path)
        expect(onlooker.page.get_by_role("heading", name=heading)).to_be_visible()
        expect(onlooker.page.locator("table").first).to_be_visible()
        expect(onlooker.page.locator("svg.chart").first).to_be_visible()
    onlooker.open(f"/jobs/{job}")
    onlooker.page.get_by_role("link", name="Stop and save").click()
    onlooker.page.get_by_role("link", name="Back").click()
    context.close()


def test_a_daemon_that_is_killed_is_said_soon_and_comes_back(onlooker: Onlooker) -> None:
    onlooker.open("/")
    onlooker.page.evaluate("window.isTheSamePage = true")
    onlooker.theatre.kill_daemon()
    expect(onlooker.page.locator("#lost")).to_be_visible(timeout=50_000)  # promised within 5 s on an idle machine
    expect(onlooker.page.get_by_role("heading", name="Jobs")).to_be_visible()
    onlooker.theatre.start_daemon()
    expect(onlooker.page.locator("#lost")).to_be_hidden(timeout=SOON_MS)
    assert onlooker.page.evaluate("window.isTheSamePage") is True
    # What the browser and htmx say of a server that is gone.
    expected = ("ERR_", "htmx:sse:error", "htmx:error: Failed to fetch", "status of 503")
    onlooker.complaints = [each for each in onlooker.complaints if not any(words in each for words in expected)]


@pytest.mark.parametrize("path", ["/", "/jobs/{job}"])
def test_a_stream_that_cannot_be_opened_is_said_and_asked_for_again(onlooker: Onlooker, job: str, path: str) -> None:
    """The daemon may be killed between the page and its stream: no connection, then a refusal, then the stream."""
    failing = ["connection", "refusal"]

    def answer(route: Route) -> None:
        if not failing:
            route.continue_()
        elif failing.pop(0) == "connection":
            route.abort("connectionrefused")
        else:
            route.fulfill(status=503, content_type="text/html", body="<p>The daemon does not respond</p>")

    onlooker.page.route("**/stream/**", answer)
    onlooker.open(path.format(job=job))
    expect(onlooker.page.locator("#lost")).to_be_visible()
    expect(onlooker.page.locator("#lost")).to_be_hidden(timeout=SOON_MS)
    assert not failing
    expect(onlooker.page.get_by_text("The daemon does not respond")).to_have_count(0)
    onlooker.page.unroute("**/stream/**")
    onlooker.complaints.clear()  # of the two that were made to fail
