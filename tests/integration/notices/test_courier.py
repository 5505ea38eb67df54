"""From an event to a sink over real sockets and a real ledger, in virtual time: down, half broken, killed, too many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.ids import UlidIds
from autopilot.notices.courier import LONGEST_RETRY, Courier
from autopilot.notices.outbox import Announcer, AnnouncingStore, Subscription
from autopilot.notices.webhook import WebhookSink, read_keys
from autopilot.ports.store import EventRecord, Store
from autopilot.store.database import open_store
from tests.integration.notices.sink_server import SECRET, SinkServer, a_sink_server
from tests.store_records import a_job

STEP_S = 15


def wall_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Post:
    """An outbox with one sink, ``team``, and a courier that can be killed."""

    store: Store
    clock: ManualClock
    url: str
    courier: Courier = field(init=False)
    announcing: AnnouncingStore = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As a new process would: nothing is known but what the ledger holds."""
        ids = UlidIds(self.clock)
        sink = WebhookSink(self.url, read_keys(SECRET), wall_now, local=True)
        self.courier = Courier(self.store, {"team": sink}, self.clock, ids, str)
        announcer = Announcer({"team": Subscription()}, ids, str)
        self.announcing = AnnouncingStore(self.store, announcer, self.courier.wake)

    async def fail_jobs(self, number: int, first: int = 0) -> None:
        async with self.announcing.transaction() as uow:
            for each in range(first, first + number):
                job = a_job(f"job-{each:06}", name=f"train-{each}")
                await uow.jobs.save(job)
                await uow.events.add(
                    [EventRecord(self.clock.now(), "job.failed", job.id, None, (("reason", "command_failed"),))]
                )

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds // STEP_S)):
            self.clock.advance(STEP_S)
            await self.courier.deliver("team")

    async def waiting(self) -> int:
        async with self.store.snapshot() as uow:
            return len(await uow.notices.list_due("team", self.clock.now() + timedelta(days=9), limit=10_000))


@pytest.fixture
async def sink() -> AsyncIterator[SinkServer]:
    async with a_sink_server() as server:
        yield server


@pytest.fixture
async def post(sink: SinkServer, tmp_path: Path) -> AsyncIterator[Post]:
    store = await open_store(str(tmp_path / "ledger.db"))
    yield Post(store, ManualClock(), sink.url)
    await store.close()


@pytest.mark.slow
async def test_a_notice_is_delivered_once_signed_and_leaves_the_outbox(post: Post, sink: SinkServer) -> None:
    await post.fail_jobs(1)
    assert await post.courier.deliver("team") is None
    await post.pass_time(3600)
    (body,) = sink.bodies
    assert body["type"] == "job_failed"
    assert body["data"]["title"] == "Job train-0 has failed"
    assert body["data"]["id"] == sink.message_ids[0]
    assert await post.waiting() == 0


async def test_an_event_that_is_not_kept_has_no_notice(post: Post) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with post.announcing.transaction() as uow:
            await uow.jobs.save(a_job())
            await uow.events.add([EventRecord(post.clock.now(), "job.failed", "job-000001", None)])
            raise ZeroDivisionError
    assert await post.waiting() == 0


@pytest.mark.slow
async def test_a_sink_that_is_down_for_an_hour_gets_everything_afterwards_once(tmp_path: Path) -> None:
    async with a_sink_server() as gone:
        url = gone.url
    store = await open_store(str(tmp_path / "ledger.db"))
    post = Post(store, ManualClock(), url)
    for minute in range(60):
        if minute % 6 == 0:
            await post.fail_jobs(2, first=minute)
        await post.pass_time(60)
    assert await post.waiting() == 20
    async with a_sink_server(int(url.rpartition(":")[2])) as sink:
        await post.pass_time(LONGEST_RETRY.total_seconds() + STEP_S)
        assert sorted(sink.times().values()) == [1] * 20
    assert await post.waiting() == 0
    await store.close()


@pytest.mark.slow
async def test_a_sink_that_answers_500_to_half_gets_all_and_none_more_often_than_it_answered_badly(
    post: Post, sink: SinkServer
) -> None:
    sink.answer = lambda number: 500 if number % 2 else 204
    for round in range(40):
        await post.fail_jobs(1, first=round)
        await post.pass_time(60)
    await post.pass_time(4 * LONGEST_RETRY.total_seconds())
    times = sink.times()
    bad = sum(1 for number in range(len(sink.paths)) if number % 2)
    assert len(times) == 40
    assert sum(times.values()) > 40, "no answer was bad: the test has shown nothing"
    by_id = {message: sink.message_ids.count(message) for message in set(sink.message_ids)}
    assert sum(by_id.values()) == len(by_id) + bad
    assert await post.waiting() == 0


async def test_a_daemon_killed_between_the_answer_and_its_record_sends_the_same_once_more(
    post: Post, sink: SinkServer
) -> None:
    await post.fail_jobs(1)
    sink.answers_at_once.clear()
    for _ in range(3):
        sink.arrived.clear()
        delivery = asyncio.create_task(post.courier.deliver("team"))
        await sink.arrived.wait()
        delivery.cancel()
        await asyncio.gather(delivery, return_exceptions=True)
        post.start()
    sink.answers_at_once.set()
    await post.pass_time(60)
    assert list(sink.times().values()) == [4]
    assert set(sink.message_ids) == set(sink.times())
    assert await post.waiting() == 0


async def test_many_at_once_are_one_digest_that_is_the_same_at_every_attempt(post: Post, sink: SinkServer) -> None:
    sink.answer = lambda number: 503 if number == 0 else 200
    await post.fail_jobs(30)
    await post.courier.deliver("team")
    post.start()
    await post.fail_jobs(1, first=30)
    await post.pass_time(120)
    digests = [body for body in sink.bodies if body["type"] == "digest"]
    assert len(digests) == 2
    assert digests[0] == digests[1]
    assert len(digests[0]["data"]["notices"]) == 30
    assert len({sink.message_ids[number] for number, body in enumerate(sink.bodies) if body["type"] == "digest"}) == 1
    assert len(sink.times()) == 31
    assert await post.waiting() == 0


async def test_a_digest_that_a_kill_cut_off_is_sent_again_as_it_was(post: Post, sink: SinkServer) -> None:
    await post.fail_jobs(10)
    sink.answers_at_once.clear()
    delivery = asyncio.create_task(post.courier.deliver("team"))
    await sink.arrived.wait()
    delivery.cancel()
    await asyncio.gather(delivery, return_exceptions=True)
    post.start()
    sink.answers_at_once.set()
    post.clock.advance(STEP_S)
    await post.fail_jobs(10, first=10)
    await post.pass_time(60)
    assert [len(body["data"]["notices"]) for body in sink.bodies] == [10, 10, 10]
    assert sink.bodies[0] == sink.bodies[1]
    assert sink.message_ids[0] == sink.message_ids[1]
    assert len(sink.times()) == 20


@pytest.mark.slow
async def test_one_notice_that_is_refused_does_not_hold_up_the_others(post: Post, sink: SinkServer) -> None:
    await post.fail_jobs(1)
    sink.answer = lambda _: 400
    await post.courier.deliver("team")
    sink.answer = lambda _: 400 if sink.bodies[-1]["data"]["title"] == "Job train-0 has failed" else 200
    for minute in range(120):
        await post.fail_jobs(1, first=1 + minute)
        await post.pass_time(60)
    assert await post.waiting() == 1
    times = sorted(sink.times().values())
    assert times[:-1] == [1] * 120
    assert times[-1] <= 15, "each one that was taken had the refused one tried again"


@pytest.mark.slow
async def test_a_task_delivers_as_soon_as_the_event_is_committed(post: Post, sink: SinkServer) -> None:
    async with post.courier.delivering():
        await post.fail_jobs(1)
        await sink.arrived.wait()
    assert len(sink.times()) == 1
    assert await post.waiting() == 0, "a stop did not wait for the answer that was on its way"


async def test_a_redirect_is_not_followed(post: Post, sink: SinkServer) -> None:
    sink.answer = lambda _: 307
    await post.fail_jobs(1)
    await post.courier.deliver("team")
    assert sink.paths == ["/"]
    assert await post.waiting() == 1


def test_a_secret_that_is_none_is_refused() -> None:
    for wrong in ("", "whsec_", "whsec_short", "whsec_!!!!"):
        with pytest.raises(UserError, match="whsec_"):
            read_keys(wrong)


async def test_the_notice_of_a_job_s_end_has_its_receipt_and_waits_for_none(post: Post, sink: SinkServer) -> None:
    asked = []

    async def tell_receipt(job_id: str) -> str:
        asked.append(job_id)
        if job_id == "job-000001":
            raise OSError("the ledger is busy")
        return "cost $0.42 (confirmed by the market's bill)"

    hook = WebhookSink(post.url, read_keys(SECRET), wall_now, local=True)
    post.courier = Courier(post.store, {"team": hook}, post.clock, UlidIds(post.clock), str, tell_receipt)
    await post.fail_jobs(2)
    await post.pass_time(60)
    told = {body["data"]["job_id"]: body["data"]["text"] for body in sink.bodies}
    assert told["job-000000"].endswith("\nReceipt: cost $0.42 (confirmed by the market's bill).")
    assert "Receipt" not in told["job-000001"]
    assert sorted(asked) == ["job-000000", "job-000001"]
