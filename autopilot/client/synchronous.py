"""The same client without asyncio: it runs the other one in a thread of its own, so it works in notebooks too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from autopilot.answers.files import Outputs
from autopilot.answers.hosts import Host
from autopilot.answers.jobs import Event, Job, JobLife, LogChunk, Retried, Why
from autopilot.answers.money import Budget, Spend
from autopilot.answers.plans import Plan
from autopilot.answers.schedules import Schedule
from autopilot.answers.shells import ExecAnswer
from autopilot.answers.status import Status
from autopilot.client.asynchronous import AsyncClient, AsyncJob

T = TypeVar("T")


class Client:
    """One daemon. What each method does, takes and raises is said at ``AsyncClient``."""

    def __init__(self, url: str = "", token: str = "", *, ca_file: str = "", socket: str | Path = "") -> None:
        self._inner = AsyncClient(url, token, ca_file=ca_file, socket=socket)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="autopilot client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._inner.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def status(self) -> Status:
        return self._run(self._inner.status())

    def submit(
        self, job_file: str | Path, *, min_probability: float | None = None, again: bool = False, plan: str = ""
    ) -> SubmittedJob:
        made = self._inner.submit(job_file, min_probability=min_probability, again=again, plan=plan)
        return SubmittedJob(self, self._run(made))

    def submit_set(
        self,
        job_files: Sequence[str | Path],
        *,
        min_probability: float | None = None,
        again: bool = False,
        plan: str = "",
    ) -> list[SubmittedJob]:
        made = self._inner.submit_set(job_files, min_probability=min_probability, again=again, plan=plan)
        return [SubmittedJob(self, each) for each in self._run(made)]

    def schedule(self, job_file: str | Path, *, min_probability: float | None = None, plan: str = "") -> Schedule:
        return self._run(self._inner.schedule(job_file, min_probability=min_probability, plan=plan))

    def schedules(self, *, all: bool = False) -> list[Schedule]:
        return self._run(self._inner.schedules(all=all))

    def pause_schedule(self, ref: str) -> Schedule:
        return self._run(self._inner.pause_schedule(ref))

    def resume_schedule(self, ref: str) -> Schedule:
        return self._run(self._inner.resume_schedule(ref))

    def end_schedule(self, ref: str) -> Schedule:
        return self._run(self._inner.end_schedule(ref))

    def plan(self, job_file: str | Path, *, min_probability: float | None = None) -> Plan:
        return self._run(self._inner.plan(job_file, min_probability=min_probability))

    def job(self, ref: str) -> SubmittedJob:
        return SubmittedJob(self, self._run(self._inner.job(ref)))

    def read_job(self, ref: str) -> JobLife:
        return self._run(self._inner.read_job(ref))

    def jobs(self, *, all: bool = False, since: datetime | None = None) -> Iterator[Job]:
        return self._iterate(self._inner.jobs(all=all, since=since))

    def tasks(self, ref: str) -> Iterator[Job]:
        return self._iterate(self._inner.tasks(ref))

    def retry(self, ref: str, *, failed: bool = False) -> Retried:
        return self._run(self._inner.retry(ref, failed=failed))

    def events(self, after: int = 0, *, follow: bool = False) -> Iterator[Event]:
        return self._iterate(self._inner.events(after, follow=follow))

    def logs(self, ref: str, *, tail: bool = False, follow: bool = False) -> Iterator[LogChunk]:
        return self._iterate(self._inner.logs(ref, tail=tail, follow=follow))

    def wait(self, ref: str, *, timeout_s: float | None = None) -> Job:
        return self._run(self._inner.wait(ref, timeout_s=timeout_s))

    def why(self, ref: str, *, limit: int = 20) -> Why:
        return self._run(self._inner.why(ref, limit=limit))

    def change(self, ref: str, **values: str) -> Job:
        return self._run(self._inner.change(ref, **values))

    def stop(self, ref: str) -> Job:
        return self._run(self._inner.stop(ref))

    def resume(self, ref: str) -> Job:
        return self._run(self._inner.resume(ref))

    def cancel(self, ref: str) -> Job:
        return self._run(self._inner.cancel(ref))

    def exec(self, ref: str, command: str, *, timeout_s: int = 60) -> ExecAnswer:
        return self._run(self._inner.exec(ref, command, timeout_s=timeout_s))

    def outputs(self, ref: str) -> Outputs:
        return self._run(self._inner.outputs(ref))

    def hosts(self, *, provider: str | None = None) -> list[Host]:
        return self._run(self._inner.hosts(provider=provider))

    def block_host(self, market: str, machine_id: str) -> Host:
        return self._run(self._inner.block_host(market, machine_id))

    def forgive_host(self, market: str, machine_id: str) -> Host:
        return self._run(self._inner.forgive_host(market, machine_id))

    def budget(self) -> Budget:
        return self._run(self._inner.budget())

    def spend(
        self, by: str = "month", *, month: str | None = None, since: str | None = None, until: str | None = None
    ) -> Spend:
        return self._run(self._inner.spend(by, month=month, since=since, until=until))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Ctrl-C ends the wait, and the request with it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        while True:
            try:
                item = self._run(_next(items))
            except StopAsyncIteration:
                return
            yield item


class SubmittedJob:
    """A job that was submitted or found. ``data`` is its state at that time; ``refresh`` reads it again."""

    def __init__(self, client: Client, inner: AsyncJob) -> None:
        self._client = client
        self.data = inner.data
        self.plan = inner.plan

    @property
    def id(self) -> str:
        return self.data.id

    def refresh(self) -> Job:
        self.data = self._client.read_job(self.id).job
        return self.data

    def wait(self, *, timeout_s: float | None = None) -> Job:
        self.data = self._client.wait(self.id, timeout_s=timeout_s)
        return self.data

    def logs(self, *, tail: bool = False, follow: bool = False) -> Iterator[LogChunk]:
        return self._client.logs(self.id, tail=tail, follow=follow)

    def stop(self) -> Job:
        return self._client.stop(self.id)

    def resume(self) -> Job:
        return self._client.resume(self.id)

    def cancel(self) -> Job:
        return self._client.cancel(self.id)

    def change(self, **values: str) -> Job:
        return self._client.change(self.id, **values)


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
