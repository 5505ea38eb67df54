"""Every figure on a page is the ledger's own, exact; columns add up as they are shown."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Decided, LogChunk, Logs, Note, Waiting
from autopilot.answers.pages import Now
from autopilot.answers.status import Market
from autopilot.books.ledger_view import LedgerReader, LedgerView
from autopilot.clock import ManualClock
from autopilot.domain.array import ArraySpec
from autopilot.domain.cadence import Cadence
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState, Span
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import ScheduleStatus
from autopilot.web import hosts_page, job_list, job_page, money_page, now_page, svg, words
from autopilot.web.site import PageSite
from autopilot.web.source import READER
from autopilot_lab.memory_store.store import MemoryStore
from tests.contract.store_schedules import a_schedule
from tests.store_records import a_job, a_lease, an_entry
from tests.unit.cli.sample_daemon import sample, sample_job
from tests.unit.web.page_reader import PageReader
from tests.unit.web.web_ledger import JOB, LIMITS, NOW, a_reader, fill

D = Decimal


@pytest.fixture
async def reader() -> LedgerReader:
    return await a_reader()


async def test_what_is_spent_is_what_the_api_says(reader: LedgerReader) -> None:
    async with reader.view() as view:
        job = (await view.read_job(JOB)).job
        page = await job_page.build(view, JOB, {})
        now = await now_page.build(view)
    # Accrued: 2 h 48 min at $0.59 less $1.40, and what the first machine cost beyond $0.587654321.
    assert (job.posted, job.accrued) == (D("2.237654321"), D("0.258145679"))
    assert page.figures[1].number == "$2.50"
    assert page.figures[1].meaning.startswith("of $8.00; ")
    row = now.open[1]
    assert (row.spent, row.limit, row.burn) == ("$2.50", "of $8.00", "$0.59/h")
    assert now.figures[0].number == "$0.590"


async def test_what_is_remembered_of_a_machine_is_one_row(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await hosts_page.build(view)
    fault = ("2.0", "1.0", "stuck loading", "40%", "95 s")
    assert page.rows == [("vastai", "rig", "RTX 4090", *fault, words.minute(NOW), "blocked")]


async def test_machines_add_up_to_their_total(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await job_page.build(view, JOB, {})
    shown = [D(line.cost.removeprefix("$")) for line in page.machines]
    assert len(shown) == 2
    assert sum(shown) == D(page.total.removeprefix("$"))
    assert [line.ended for line in page.machines] == ["it is running", "outbid"]


async def test_days_and_markets_add_up(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await money_page.build(view, {"by": "provider"})
        total = (await view.read_money("day", "2026-11")).spend.total_row
    assert page.day_table.columns == ["RunPod", "vast.ai", "All"]
    assert [line.name for line in page.day_table.lines] == ["20 Nov", "17 Nov"]
    cells = [[_dollars(cell) for cell in line.cells] for line in page.day_table.lines]
    for *parts, whole in [*cells, [_dollars(cell) for cell in page.day_table.total]]:
        assert sum(parts) == whole
    assert [sum(column) for column in zip(*cells, strict=True)] == [_dollars(cell) for cell in page.day_table.total]
    spent = total.posted + total.accrued
    assert page.figures[0].number == f"${round(spent, 2)}"
    by_market = {line.name: _dollars(line.cells[-3]) for line in page.table.lines}
    assert sum(by_market.values()) == _dollars(page.table.total[-3])


async def test_money_of_another_month_has_no_limit_and_no_end(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await money_page.build(view, {"month": "2026-10"})
    assert [figure.title for figure in page.figures] == ["Spent", "Saved", "Billed", "Not billed yet"]
    assert (page.figures[0].number, page.earlier, page.later) == ("$0.00", "2026-09", "2026-11")
    assert page.table.lines == []


async def test_banners_name_the_way_out(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await now_page.build(view)
    said = {need.jobs[0].name: f"{need.what} {need.way_out}" for need in page.needs}
    assert said == {
        "research-2": "is parked: user stopped. autopilot resume research-2 resumes it.",
        "research-3": "has failed: command failed. autopilot logs research-3 shows the output.",
    }
    assert [row.job.name for row in page.open] == ["research-2", "research"]
    assert [row.job.name for row in page.finished] == ["research-3"]


async def test_a_budget_that_is_used_up_is_raised_and_not_resumed() -> None:
    store = MemoryStore()
    await fill(store)
    async with store.transaction() as work:
        job = await work.jobs.find("job-parked")
        assert job is not None
        await work.jobs.save(replace(job, reason=Reason.BUDGET_EXHAUSTED))
    async with LedgerReader(store, ManualClock(NOW), LIMITS).view() as view:
        needs = (await now_page.build(view)).needs
    assert "autopilot change research-2 budget=AMOUNT raises it and resumes the job." in [
        need.way_out for need in needs
    ]


async def test_schedules_stand_beside_the_jobs() -> None:
    store = MemoryStore()
    cadence = Cadence("30 2 * * *", "Europe/Berlin", budget=Decimal(60), is_monthly=True)
    async with store.transaction() as work:
        one = a_schedule(looked_until=NOW, fired=3, left_out=1, last_job="job-000009", last_due=NOW)
        await work.schedules.save(replace(one, spec=replace(one.spec, name="nightly", schedule=cadence)))
        await work.schedules.save(a_schedule("over", status=ScheduleStatus.ENDED))
    async with LedgerReader(store, ManualClock(NOW), LIMITS).view() as view:
        page = await now_page.build(view)
        text = PageReader(PageSite().render("now.html", "/", page=page)).text
    (row,) = page.schedules
    assert (row.schedule.name, row.when) == ("nightly", "30 2 * * * Europe/Berlin")
    assert (row.fired, row.spent) == ("3 fired, 1 left out", "$0.00 of $60.00 a month")
    assert row.next.endswith("01:30:00")
    assert "nightly 30 2 * * * Europe/Berlin" in text
    assert "3 fired, 1 left out job-000009 $0.00 of $60.00 a month" in text


class _WithMarkets:
    """A ledger beside which somebody reads markets."""

    def __init__(self, view: LedgerView, *, sees_all: bool = True) -> None:
        self._view = view
        self._left_out: dict[str, Any] = {} if sees_all else {"account": None, "month": None}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    async def read_now(self) -> Now:
        (market,) = from_json(list[Market], sample("status")["providers"])
        known = replace(market, read_at=NOW - timedelta(seconds=12), unwatched="a machine there bills on")
        dark = replace(market, name="runpod", known=False, reason="no answer", read_at=NOW - timedelta(hours=3))
        markets = [known, dark, replace(dark, name="third", read_at=None)]
        return replace(await self._view.read_now(), markets=markets, **self._left_out)


async def test_a_market_that_cannot_be_read_is_said_with_its_age(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await now_page.build(_WithMarkets(view))
    dark = [need.what.replace("\u00a0", " ") for need in page.needs if not need.jobs]
    assert dark == [
        f"RunPod cannot be read since {NOW - timedelta(hours=3):%d %b %H:%M:%S} UTC (3 h): no answer.",
        "third cannot be read, not once since the daemon started: no answer.",
    ]
    assert [(row.market, row.is_known, row.read.replace("\u00a0", " ")) for row in page.markets] == [
        ("vast.ai", True, "12 s ago"),
        ("RunPod", False, "3 h ago"),
        ("third", False, "never"),
    ]
    assert [row.unwatched for row in page.markets] == ["a machine there bills on", "", ""]


async def test_who_sees_their_own_jobs_alone_gets_figures_of_these(reader: LedgerReader) -> None:
    async with reader.view() as view:
        page = await now_page.build(_WithMarkets(view, sees_all=False))
    assert [(figure.title, figure.number) for figure in page.figures[:2]] == [("Open jobs", "2"), ("Bids", "$0.590")]
    assert page.figures[2].number == "$2.50"


async def test_a_failure_of_yesterday_is_no_news() -> None:
    reader = await a_reader(now=NOW + timedelta(days=1))
    async with reader.view() as view:
        page = await now_page.build(view)
    assert [need.jobs[0].name for need in page.needs] == ["research", "research-2"]
    assert page.needs[0].what == "will be late."


async def test_a_decision_is_shown_with_its_options_and_its_neighbours(reader: LedgerReader) -> None:
    async with reader.view() as view:
        first = await job_page.build(view, JOB, {"d": "01DECISION1"})
        newest = await job_page.build(view, JOB, {})
    assert first.decision is not None
    assert first.decision.options == [("  spot", "$1.5000", "$0.31/h", "vastai machine rig", "chosen")]
    assert (first.decision.number, first.decision.earlier, first.decision.later) == (1, None, "01DECISION2")
    assert newest.decision is not None
    assert (newest.decision.number, newest.decision.earlier, newest.decision.later) == (3, "01DECISION2", None)
    assert newest.decision.sentence.startswith("refused by the guard: ")


async def test_each_open_job_says_what_is_next(reader: LedgerReader) -> None:
    async with reader.view() as view:
        body = await view.read_now()
        (job,) = [job for job in body.jobs if job.id == JOB]
        assert job.main is not None
        to = replace(job.main, provider="vastai", capacity_type="spot", bid=D("0.31"))
        left_out: dict[str, Any] = {"offers": 9, "fitting": 0, "only_on_demand": None}
        waits = Waiting(at=NOW, vetoes=[], notes=[Note(topic="search", numbers=left_out)])

        def told(**changes: Any) -> str:
            return now_page._tell_next(replace(job, **changes), body.forecasts.get(JOB)).replace("\u00a0", " ")

        end = f"about $3.60 in total, done about {NOW + timedelta(hours=5):%d %b %H:%M}"
        page = await now_page.build(view)
    assert told() == end
    assert told(next=to) == f"moves to 1 × RTX 4090, vast.ai, spot at $0.31/h; {end}"
    assert told(main=None, waiting=waits) == f"9 offers, none match; {end}"
    assert told(status="starting", main=replace(to, agent_state="setting_up")).startswith(
        "the machine is setting up; then the command resumes; "
    )
    text = PageReader(PageSite().render("now.html", "/", page=page)).text
    assert end in text


@pytest.mark.slow
async def test_jobs_are_found_by_name_and_status_sorted_and_paged() -> None:
    store = MemoryStore()
    async with store.transaction() as work:
        for number in range(120):
            status = JobStatus.PARKED if number % 3 == 0 else JobStatus.PENDING
            name = f"{'Train' if number % 2 else 'eval'}-{number:03}"
            await work.jobs.save(a_job(f"job-{number:06}", name=name, status=status, spent=D(number)))
    async with LedgerReader(store, ManualClock(NOW), LIMITS).view() as view:

        async def names(**query: str) -> list[str]:
            page = await now_page.build(view, query)
            links = PageReader(PageSite().render("now.html", "/", page=page)).links
            is_beside = query in ({"sort": "name"}, {"sort": "name", "page": "3"})
            assert ("./?sort=name&page=2" in links) == is_beside
            return [row.job.name for row in page.open]

        assert len(await names()) == 50
        in_order = [f"Train-{n:03}" for n in range(1, 120, 2)] + [f"eval-{n:03}" for n in range(0, 120, 2)]
        assert [*await names(sort="name"), *await names(sort="name", page="2")] == in_order[:100]
        assert await names(sort="name", page="3") == in_order[100:]
        assert await names(name="tRAIN-00", sort="name") == [f"Train-00{n}" for n in (1, 3, 5, 7, 9)]
        assert len(await names(name="train", status="parked")) == 20
        assert await names(name="none") == await names(page="4") == []
        texts = [
            PageReader(PageSite().render("now.html", "/", page=await now_page.build(view, query))).text
            for query in ({"name": "none"}, {"page": "4"}, {"page": "2"})
        ]
    assert "None of 120 open jobs matches. All jobs" in texts[0]
    assert "This page is beyond the last one." in texts[1]
    assert "51 to 100 of 120" in texts[2]


def test_jobs_are_sorted_by_what_they_have_cost_and_by_their_deadline() -> None:
    rows = [
        sample_job(name=name, posted=D(posted), accrued=D(1), held=D(0), deadline=deadline)
        for name, posted, deadline in (("a", 9, None), ("b", 10, NOW + timedelta(days=1)), ("c", 1, NOW))
    ]
    for sort, expected in (("spent", "bac"), ("deadline", "cba")):
        found = job_list.choose(job_list.ListChoice(sort=sort), rows)
        assert "".join(job.name for job in found.jobs) == expected


async def test_the_page_of_a_failed_job_begins_with_what_failed(reader: LedgerReader) -> None:
    class WithOutput:
        def __init__(self, view: LedgerView) -> None:
            self._view = view

        def __getattr__(self, name: str) -> Any:
            return getattr(self._view, name)

        async def read_log(self, reference: str) -> Logs:
            text = "".join(f"line {n}\n" for n in range(30)) + "<b>CUDA</b> out of memory\n"
            chunk = LogChunk(key="k", lease_id="l", boot=1, where="vastai", text=text)
            return Logs(chunks=[chunk], earlier=False, finished=True)

    async with reader.view() as view:
        page = await job_page.build(WithOutput(view), "job-failed", {})
        works = await job_page.build(view, JOB, {})
    assert (works.failure, works.log) == ([], [])
    read = PageReader(PageSite().render("job_live.html", "/jobs/job-failed", page=page))
    first, _, after = read.text.partition("CUDA")
    assert "Why it failed failed command failed exit code 1 checkpoint none: its work is lost next step fix" in first
    assert "line 11 line 12" in first
    assert "line 10 " not in first, "the last twenty lines"
    assert after.startswith("</b> out of memory Done"), "the figures follow"


async def test_an_empty_ledger_says_what_to_do() -> None:
    reader = LedgerReader(MemoryStore(), (await a_reader())._clock, (await a_reader())._limits)
    pages = PageSite()
    async with reader.view() as view:
        now = PageReader(pages.render("now.html", "/", page=await now_page.build(view))).text
        money = PageReader(pages.render("money.html", "/money", page=await money_page.build(view, {}))).text
    assert "No open jobs. Run autopilot submit job.toml" in now
    assert "It has no events yet." in now
    assert "Nothing spent this month." in money


async def test_a_ledger_that_is_ahead_of_the_clock_is_read_as_of_its_newest_event() -> None:
    reader = await a_reader(now=NOW - timedelta(days=30))
    async with reader.view() as view:
        assert view.now == view.newest_at


def _dollars(cell: str) -> Decimal:
    assert re.fullmatch(r"-?\$[\d,]+\.\d+", cell), cell
    return D(cell.replace("$", "").replace(",", ""))


def test_a_decision_of_an_array_is_how_many_tasks_run_at_once() -> None:
    note = Note(topic="width", numbers={"tasks": 4, "bound": "price", "cheap": 4, "begun": 2, "count": 9})
    nothing = Decided(id="D1", at=NOW, actions=[], vetoes=[], notes=[])
    assert words.tell_decision(replace(nothing, notes=[note])) == "4 of its tasks at once"
    assert words.tell_decision(nothing) == "nothing to do"


async def test_an_array_shows_its_tasks_in_place_of_machines() -> None:
    store = MemoryStore()
    array = a_job("array-000001", name="sweep", status=JobStatus.RUNNING, reason=Reason.TASKS_OPEN)
    spec = replace(
        array.spec, array=ArraySpec(5, parallel=2, max_failures=3), budget=D(4), deadline=NOW + timedelta(hours=9)
    )
    statuses = ((0, JobStatus.SUCCEEDED), (1, JobStatus.FAILED), (2, JobStatus.RUNNING))
    async with store.transaction() as work:
        await work.jobs.save(replace(array, spec=spec))
        for task, status in statuses:
            job_id = f"task-{task}"
            is_at_work = status is JobStatus.RUNNING
            running = Span(InstanceStatus.RUNNING, D("0.3"), D("0.003"), NOW - timedelta(hours=1))
            state, spans = (LeaseState.ACTIVE, (running,)) if is_at_work else (LeaseState.GONE, ())
            lease = a_lease(f"of-{task}", job_id, state=state, instance_id=str(task), spans=spans)
            more = {"status": status, "array_id": array.id, "task": task, "leases": (lease,)}
            await work.jobs.save(a_job(job_id, name=f"sweep/{task}", **more))
            await work.ledger.post([an_entry(f"e-{task}", f"0.{task + 1}", lease=lease)])
    async with (await a_reader(store)).view() as view:
        page = await job_page.build(view, array.id, {})
        now = await now_page.build(view)
    assert [(line.number, line.status.word, line.cost) for line in page.tasks] == [
        (0, "succeeded", "$0.10"), (1, "failed", "$0.20"), (2, "running", "$0.30"),
    ]  # fmt: skip
    assert [(each.title, each.number) for each in page.figures[:4]] == [
        ("Tasks done", "1"), ("Running", "1"), ("Failed or cancelled", "1"), ("Spent", "$0.60"),
    ]  # fmt: skip
    of_tasks = [(each.job.name, each.machine.lease.id) for each in now.machines if "/" in each.job.name]
    assert of_tasks == [("sweep/2", "of-2")]
    (row,) = [row for row in now.open if row.job.name.startswith("sweep")]
    assert row.strip != svg.NOTHING, "its last hours are those of its tasks' machines"
    assert (row.job.name, row.done, row.work) == ("sweep", "20\u00a0%", "1/5 done, 1 running, 1 failed")
    assert row.deadline is not None
    assert (row.deadline.word, row.deadline.due) == ("for all its tasks", "in 9\u00a0h")
    given = {"page": page, "log": (), "done": "", "chosen": ""}
    read = PageReader(PageSite().render("job.html", "/jobs/array-000001", READER, **given))
    assert "../jobs/task-1" in read.links
    assert "Machines" not in read.text
