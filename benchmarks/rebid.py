"""From a market's list that shows a machine as outbid to the raised bid's arrival at the market, in real time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from bench import JOBS, Bench, bench, milliseconds
from figures import Figure

from autopilot.domain.instance import Instance
from autopilot.domain.job import Job, JobStatus

REPEATS = 15
RIVAL = Decimal("1.04")
"""Times our bid: less than a rung, so that one raise answers it."""


async def measure(root: Path) -> list[Figure]:
    async with bench(root) as under_test, _control(under_test.market_url) as control:
        lists = _ListWatch(under_test)
        await under_test.settle_down()
        samples = [await _one_answer(under_test, control, lists, job) for job in await _running(under_test)]
    speed = under_test.clock.speed
    seconds = [taken.total_seconds() / speed for taken in samples]
    return [milliseconds(f"outbid seen in the list → raised bid at the market, {JOBS} jobs", seconds)]


class _ListWatch:
    """Notes when the last list of instances was handed to the engine."""

    def __init__(self, under_test: Bench) -> None:
        self.at = under_test.clock.now()
        watch = under_test.engine.watches["vastai"]
        watch.provider = _Watched(watch.provider, under_test, self)


class _Watched:
    """The provider itself, but for the note that is taken of each list."""

    def __init__(self, provider: Any, under_test: Bench, lists: _ListWatch) -> None:
        self._provider = provider
        self._under_test = under_test
        self._lists = lists

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def instances(self) -> tuple[Instance, ...]:
        found: tuple[Instance, ...] = await self._provider.instances()
        self._lists.at = self._under_test.clock.now()
        return found


class _Control:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def call(self, method: str, name: str, **wish: object) -> Any:
        async with self._session.request(method, f"{self._url}/_emu/{name}", json=wish) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def bid_arrivals(self, instance_id: str) -> list[datetime]:
        events = (await self.call("GET", "events"))["events"]
        return [
            datetime.fromisoformat(event["at"])
            for event in events
            if event["kind"] == "bid.changed" and str(event["instance_id"]) == instance_id
        ]


@asynccontextmanager
async def _control(url: str) -> AsyncIterator[_Control]:
    async with aiohttp.ClientSession() as session:
        yield _Control(session, url)


async def _running(under_test: Bench) -> list[Job]:
    return [job for job in await under_test.open_jobs() if job.status is JobStatus.RUNNING][:REPEATS]


async def _one_answer(under_test: Bench, control: _Control, lists: _ListWatch, job: Job) -> timedelta:
    """Market time between the list and the bid."""
    lease = job.main
    assert lease is not None, "a running job has a lease"
    assert lease.instance_id is not None, "a running lease has an instance"
    bid = (lease.bid * RIVAL).quantize(Decimal("0.0001"))
    await control.call("POST", "rival", instance_id=int(lease.instance_id), bid=str(bid))
    before = await control.bid_arrivals(lease.instance_id)
    for _ in range(10):
        await under_test.report_as_agents()
        await under_test.clock.sleep(15)
        await under_test.tick()
        seen_at, arrived = lists.at, await control.bid_arrivals(lease.instance_id)
        if len(arrived) > len(before):
            return arrived[-1] - seen_at
    raise RuntimeError("the outbid was not answered")
