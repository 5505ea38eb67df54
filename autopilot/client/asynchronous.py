"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from autopilot.answers.files import Outputs
from autopilot.answers.hosts import Host, HostAnswer, Hosts
from autopilot.answers.jobs import (
    Cancelled,
    Changed,
    Event,
    Job,
    JobAnswer,
    JobLife,
    LogChunk,
    Logs,
    Resumed,
    Retried,
    Submitted,
    SubmittedSet,
    Why,
)
from autopilot.answers.models import jobs as m
from autopilot.answers.models import money
from autopilot.answers.models import schedules as s
from autopilot.answers.models.hosts import HostsQuery
from autopilot.answers.money import Budget, Spend
from autopilot.answers.plans import Plan
from autopilot.answers.schedules import Schedule, ScheduleAnswer, Scheduled, Schedules
from autopilot.answers.shells import ExecAnswer
from autopilot.answers.status import Status
from autopilot.client.code import send_code
from autopilot.client.errors import JobEnded, Unreachable
from autopilot.client.http import Http
from autopilot.code.bundle import bundle, has_code
from autopilot.code.table import read_table_of
from autopilot.config.daemon_address import DaemonAddress, find_daemon_address
from autopilot.config.login import check_daemon_url
from autopilot.domain.job import JobStatus

_STAYS = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.PARKED)
"""Nothing happens to a job by itself any more."""
_WAIT_S = 30
PAGE = 500
_FOLLOW_AGAIN_S = 2.0
_CHUNK = TypeAdapter(LogChunk)


class AsyncClient:
    """One daemon. Methods raise ``ApiError`` for what it refuses, and ``Unreachable``.

    What may spend money carries a key of its own: a request whose answer was lost is sent again and acts once.
    """

    def __init__(self, url: str = "", token: str = "", *, ca_file: str = "", socket: str | Path = "") -> None:
        """``url`` and ``token``, or ``socket``; without either the daemon that the command line would find.

        Raises ``UserError``.
        """
        if url:
            address = DaemonAddress(None, check_daemon_url(url), ca_file, token)
        elif socket:
            address = DaemonAddress(Path(socket), token=token)
        else:
            address = find_daemon_address()
        self._http = Http(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()

    async def status(self) -> Status:
        return await self._http.ask("GET /v1/status", Status)

    async def submit(
        self, job_file: str | Path, *, min_probability: float | None = None, again: bool = False, plan: str = ""
    ) -> AsyncJob:
        """``job_file``: a path, or the text of one. The code that it asks for is packed and sent, unless it is there.

        Its path is relative to the job file, of a text to the directory in which the program runs.

        ``plan``: what a person has confirmed. Raises ``ApiError``: ``over_budget``, ``unlikely``, ``same_job_open``
        unless ``again``, ``confirm_first``, ``bad_input`` …; ``UserError`` for code that cannot be sent.
        """
        answer = await self._submit(job_file, min_probability, again=again, dry_run=False, plan=plan)
        assert answer.job is not None, "a job was made"
        return AsyncJob(self, answer.job, answer.plan)

    async def submit_set(
        self,
        job_files: Sequence[str | Path],
        *,
        min_probability: float | None = None,
        again: bool = False,
        plan: str = "",
    ) -> list[AsyncJob]:
        """Several that may name one another in ``after``: all of them, or none. The rest is as for ``submit``."""
        parts = [m.SetPart(**await self._send(each, dry_run=False)) for each in job_files]
        body = m.SubmitSetBody(jobs=parts, again=again, plan=plan)
        if min_probability is not None:
            body = body.model_copy(update={"min_probability": min_probability})
        answer = await self._http.ask("POST /v1/sets", SubmittedSet, body=body, acts_once=True)
        return [AsyncJob(self, made.job, made.plan) for made in answer.jobs if made.job is not None]

    async def schedule(self, job_file: str | Path, *, min_probability: float | None = None, plan: str = "") -> Schedule:
        """Submit a file with ``[schedule]``, which makes a job of it again and again. The rest is as for ``submit``."""
        body = s.ScheduleBody(**await self._send(job_file, dry_run=False), plan=plan)
        if min_probability is not None:
            body = body.model_copy(update={"min_probability": min_probability})
        answer = await self._http.ask("POST /v1/schedules", Scheduled, body=body, acts_once=True)
        assert answer.schedule is not None, "one was made"
        return answer.schedule

    async def schedules(self, *, all: bool = False) -> list[Schedule]:
        """Those that have not ended, oldest first; with ``all`` the others too, newest first."""
        query = s.SchedulesQuery(all=all)
        return (await self._http.ask("GET /v1/schedules", Schedules, query=query)).schedules

    async def pause_schedule(self, ref: str) -> Schedule:
        """Make no more jobs for now. ``ref``: its id or name."""
        return (await self._http.ask("POST /v1/schedules/{schedule}/pause", ScheduleAnswer, ref)).schedule

    async def resume_schedule(self, ref: str) -> Schedule:
        return (await self._http.ask("POST /v1/schedules/{schedule}/resume", ScheduleAnswer, ref)).schedule

    async def end_schedule(self, ref: str) -> Schedule:
        """For good. Jobs that it has made continue."""
        return (await self._http.ask("POST /v1/schedules/{schedule}/end", ScheduleAnswer, ref)).schedule

    async def plan(self, job_file: str | Path, *, min_probability: float | None = None) -> Plan:
        """What a submit would cost, without one."""
        return (await self._submit(job_file, min_probability, again=True, dry_run=True)).plan

    async def _submit(
        self, job_file: str | Path, min_probability: float | None, *, again: bool, dry_run: bool, plan: str = ""
    ) -> Submitted:
        part = await self._send(job_file, dry_run=dry_run)
        body = m.SubmitBody(**part, dry_run=dry_run, again=again, plan=plan)
        if min_probability is not None:
            body = body.model_copy(update={"min_probability": min_probability})
        return await self._http.ask("POST /v1/jobs", Submitted, body=body, acts_once=True)

    async def _send(self, job_file: str | Path, *, dry_run: bool) -> dict[str, Any]:
        """What a submit says of one job file, once its code is sent."""
        toml, source, beside = _read(job_file)
        part: dict[str, Any] = {"toml": toml, "source": source}
        if (table := await asyncio.to_thread(read_table_of, toml, beside)) is not None:
            part["table"] = table
        if has_code(toml, source):
            found = await asyncio.to_thread(bundle, toml, source, beside, (await self.status()).now)
            if not dry_run:
                await send_code(found.packed, self._http.ask)
            part["code"] = m.SentCode.model_validate(found.claim())
        return part

    async def job(self, ref: str) -> AsyncJob:
        """By its id, the beginning of one, or its name."""
        return AsyncJob(self, (await self.read_job(ref)).job)

    async def read_job(self, ref: str) -> JobLife:
        """With its machines, checkpoints, bids and events."""
        return await self._http.ask("GET /v1/jobs/{ref}", JobLife, ref)

    async def tasks(self, ref: str) -> AsyncIterator[Job]:
        """The tasks of an array that have begun, in order, finished ones included."""
        after = ""
        while True:
            query = m.ListQuery(array=ref, limit=PAGE, after=after)
            page = await self._http.ask("GET /v1/jobs", m.Jobs, query=query)
            for each in page.jobs:
                if isinstance(each, Job):
                    yield each
            if page.next is None:
                return
            after = page.next

    async def retry(self, ref: str, *, failed: bool = False) -> Retried:
        """Restart tasks that have ended: ``JOB/17``, ``JOB/3-9``, or with ``failed`` all failed ones of an array."""
        body = m.RetryBody(failed=failed)
        return await self._http.ask("POST /v1/jobs/{ref}/retry", Retried, ref, body=body, acts_once=True)

    async def jobs(self, *, all: bool = False, since: datetime | None = None) -> AsyncIterator[Job]:
        """Open jobs, oldest first; with ``all`` finished ones too, newest first."""
        after = ""
        while True:
            query = m.ListQuery(all=all, limit=PAGE, after=after, since=None if since is None else since.isoformat())
            page = await self._http.ask("GET /v1/jobs", m.Jobs, query=query)
            for each in page.jobs:
                if isinstance(each, Job):
                    yield each
            if page.next is None:
                return
            after = page.next

    async def events(self, after: int = 0, *, follow: bool = False) -> AsyncIterator[Event]:
        """Those after that sequence number, oldest first. ``follow``: on and on; a lost line is taken up again."""
        while True:
            query = m.EventsQuery(after=after, wait_s=_WAIT_S if follow else 0)
            try:
                page = await self._http.ask("GET /v1/events", m.Events, query=query)
            except Unreachable:
                if not follow:
                    raise
                await asyncio.sleep(_FOLLOW_AGAIN_S)
                continue
            for each in page.events:
                if isinstance(each, Event):
                    yield each
            if not page.events and not follow:
                return
            after = page.after

    async def logs(self, ref: str, *, tail: bool = False, follow: bool = False) -> AsyncIterator[LogChunk]:
        """A job's output. ``tail``: the newest 1 MB of it; ``follow``: to the job's end."""
        after = ""
        if follow:
            async for chunk in self._follow(ref, tail):
                yield chunk
            return
        while True:
            query = m.LogsQuery(after=after, tail=tail and not after)
            page = await self._http.ask("GET /v1/jobs/{ref}/logs", Logs, ref, query=query)
            for chunk in page.chunks:
                yield chunk
            if not page.chunks or tail:
                return
            after = page.chunks[-1].key

    async def _follow(self, ref: str, tail: bool) -> AsyncIterator[LogChunk]:
        last = ""
        while True:
            query = m.LogsQuery(tail=tail and not last)
            try:
                async for _, name, data in self._http.stream("GET /v1/jobs/{ref}/logs", query, last, ref):
                    if name == "end":
                        return
                    chunk = _CHUNK.validate_json(data)
                    last = chunk.key
                    yield chunk
            except Unreachable:
                pass
            await asyncio.sleep(_FOLLOW_AGAIN_S)

    async def wait(self, ref: str, *, timeout_s: float | None = None) -> Job:
        """Until the job has succeeded. A daemon that does not answer for a while is waited for.

        Raises ``JobEnded`` if it failed, was cancelled or is parked, and ``TimeoutError``.
        """
        async with asyncio.timeout(timeout_s):
            after = await self._newest_event()
            while True:
                try:
                    job = (await self.read_job(ref)).job
                    if job.status in _STAYS:
                        break
                    query = m.EventsQuery(after=after, wait_s=_WAIT_S)
                    after = (await self._http.ask("GET /v1/events", m.Events, query=query)).after
                except Unreachable:
                    await asyncio.sleep(_FOLLOW_AGAIN_S)
        if job.status is not JobStatus.SUCCEEDED:
            raise JobEnded(job)
        return job

    async def why(self, ref: str, *, limit: int = 20) -> Why:
        """The state of a job, and its newest decisions."""
        return await self._http.ask("GET /v1/jobs/{ref}/why", Why, ref, query=m.WhyQuery(limit=limit))

    async def change(self, ref: str, **values: str) -> Job:
        """``budget``, ``deadline``, ``max_price``, ``max_hourly``, ``max_rate``, as they are typed in a job file."""
        body = m.ChangeBody.model_validate(values)
        answer = await self._http.ask("PATCH /v1/jobs/{ref}", Changed, ref, body=body, acts_once=True)
        return answer.job

    async def stop(self, ref: str) -> Job:
        """Save and park it."""
        return (await self._http.ask("POST /v1/jobs/{ref}/stop", JobAnswer, ref)).job

    async def resume(self, ref: str) -> Job:
        answer = await self._http.ask("POST /v1/jobs/{ref}/resume", Resumed, ref, body=m.ResumeBody(), acts_once=True)
        return answer.job

    async def cancel(self, ref: str) -> Job:
        return (await self._http.ask("POST /v1/jobs/{ref}/cancel", Cancelled, ref)).job

    async def exec(self, ref: str, command: str, *, timeout_s: int = 60) -> ExecAnswer:
        """Run a command beside the job, on its machine."""
        body = m.ExecBody(command=command, timeout_s=timeout_s)
        return await self._http.ask("POST /v1/jobs/{ref}/exec", ExecAnswer, ref, body=body)

    async def outputs(self, ref: str) -> Outputs:
        """What a job has left, part by part; ``autopilot pull`` fetches it."""
        return await self._http.ask("GET /v1/jobs/{ref}/outputs", Outputs, ref)

    async def hosts(self, *, provider: str | None = None) -> list[Host]:
        """What is remembered of machines, over all jobs."""
        query = HostsQuery(provider=provider)
        return (await self._http.ask("GET /v1/hosts", Hosts, query=query)).hosts

    async def block_host(self, market: str, machine_id: str) -> Host:
        """Nothing new is rented there; a machine that runs there keeps running."""
        answer = await self._http.ask("POST /v1/hosts/{market}/{machine}/block", HostAnswer, market, machine_id)
        return answer.host

    async def forgive_host(self, market: str, machine_id: str) -> Host:
        answer = await self._http.ask("POST /v1/hosts/{market}/{machine}/forgive", HostAnswer, market, machine_id)
        return answer.host

    async def budget(self) -> Budget:
        return await self._http.ask("GET /v1/budget", Budget)

    async def spend(
        self, by: str = "month", *, month: str | None = None, since: str | None = None, until: str | None = None
    ) -> Spend:
        """``by``: ``job``, ``day``, ``owner`` and the like, or ``tag:project``."""
        query = money.SpendQuery.model_validate({"by": by, "month": month, "since": since, "until": until})
        return await self._http.ask("GET /v1/spend", Spend, query=query)

    async def _newest_event(self) -> int:
        """Events from now on: a page of none that is later than all."""
        now = (await self.status()).now
        query = m.EventsQuery(since=now.isoformat(), fields="seq")
        return (await self._http.ask("GET /v1/events", m.Events, query=query)).after


class AsyncJob:
    """A job that was submitted or found. ``data`` is its state at that time; ``refresh`` reads it again."""

    def __init__(self, client: AsyncClient, data: Job, plan: Plan | None = None) -> None:
        self._client = client
        self.data = data
        self.plan = plan

    @property
    def id(self) -> str:
        return self.data.id

    async def refresh(self) -> Job:
        self.data = (await self._client.read_job(self.id)).job
        return self.data

    async def wait(self, *, timeout_s: float | None = None) -> Job:
        """As ``AsyncClient.wait``."""
        self.data = await self._client.wait(self.id, timeout_s=timeout_s)
        return self.data

    def logs(self, *, tail: bool = False, follow: bool = False) -> AsyncIterator[LogChunk]:
        return self._client.logs(self.id, tail=tail, follow=follow)

    async def stop(self) -> Job:
        return await self._client.stop(self.id)

    async def resume(self) -> Job:
        return await self._client.resume(self.id)

    async def cancel(self) -> Job:
        return await self._client.cancel(self.id)

    async def change(self, **values: str) -> Job:
        return await self._client.change(self.id, **values)


def _read(job_file: str | Path) -> tuple[str, str, Path]:
    """(text, its name, the directory that its paths are relative to). A text has lines; a path has none."""
    if isinstance(job_file, str) and ("\n" in job_file or "=" in job_file):
        return job_file, "", Path.cwd()
    path = Path(job_file)
    return path.read_text(), str(job_file), path.parent
