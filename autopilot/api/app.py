"""The routes. An error is a problem document (``api.problems``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial

import structlog
from aiohttp import web

from autopilot import __version__, render
from autopilot.answers.codec import to_json
from autopilot.answers.models.account import DriftQuery
from autopilot.answers.models.jobs import (
    ChangeBody,
    ExecBody,
    ListQuery,
    ResumeBody,
    RetryBody,
    SetPart,
    SubmitBody,
    SubmitSetBody,
    WhyQuery,
)
from autopilot.answers.models.money import MonthQuery, PricesQuery, SpendQuery
from autopilot.answers.models.plans import OffersBody
from autopilot.api.access import ApiCaller
from autopilot.api.callers import caller_of, check_access, is_from_elsewhere, job_ref, origin_of
from autopilot.api.certify import CertifyService
from autopilot.api.certify_routes import CertifyRoutes
from autopilot.api.code import SentCode
from autopilot.api.drift import drift
from autopilot.api.event_feed import EventFeed
from autopilot.api.from_store import check_wish
from autopilot.api.jobs import JobService
from autopilot.api.large_bodies import bound_bodies
from autopilot.api.lives import LifeRoutes
from autopilot.api.log_feed import LogFeed
from autopilot.api.markets import render_markets
from autopilot.api.metrics import CONTENT_TYPE, Metrics
from autopilot.api.once import OnceOnly
from autopilot.api.openapi import openapi
from autopilot.api.page_routes import PageRoutes
from autopilot.api.page_sessions import PageSessions
from autopilot.api.problem_documents import Handler
from autopilot.api.problems import answer_errors
from autopilot.api.proxied_users import ProxiedUsers
from autopilot.api.requests import MAX_BODY_BYTES, read_body, read_body_if_any, read_query, whole
from autopilot.api.schedule_routes import ScheduleRoutes
from autopilot.api.submissions import Sent, Tell
from autopilot.api.token_routes import TokenRoutes
from autopilot.api.tokens import TokenService
from autopilot.api.uploads import Uploads
from autopilot.books.budget import budget, credits_of
from autopilot.books.prices import prices
from autopilot.books.reconciliation import instance, reconciliation
from autopilot.books.spend import spend
from autopilot.domain.delegation import NO_LIMITED_USERS, Settled
from autopilot.domain.errors import UserError
from autopilot.domain.gpu_choices import parse_choices
from autopilot.domain.job import Job, JobSpec, JobStatus
from autopilot.domain.lease import BillWait
from autopilot.domain.proxied import ProxyRules
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Token
from autopilot.engine.engine import Engine
from autopilot.engine.outstanding import Moment, read_moment
from autopilot.planning.gpu_check import check_gpus, meanings
from autopilot.planning.host_notes import host_notes
from autopilot.planning.plan import ranked_offers
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)


class Api:
    """The routes, to be served on one socket or several: ``app`` makes an application for each."""

    def __init__(
        self,
        jobs: JobService,
        engine: Engine,
        store: Store,
        clock: Clock,
        certify: CertifyService,
        tokens: TokenService,
        uploads: Uploads,
        metrics: Metrics,
        sessions: PageSessions,
        find_page: Callable[[], Awaitable[str]],
        own_store: str = "",
        settled: Settled = NO_LIMITED_USERS,
        proxied: ProxiedUsers | None = None,
    ) -> None:
        """``find_page``: where the page is, for a browser on this machine; see ``PageRoutes``.

        ``own_store``: the beginning of addresses in the store that only this machine can reach. A caller elsewhere
        gets them without it: the listener serves the same at its own address.

        ``settled``: whom the settings limit: what they may do.

        ``proxied``: users that a reverse proxy has signed in; None: there is no such proxy."""
        self._settled = settled
        self._proxied = proxied or ProxiedUsers(ProxyRules(), store, clock)
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._metrics, self._feed, self._log_feed = metrics, EventFeed(store, clock), LogFeed(jobs)
        routes = _Routes(jobs, engine, store, clock, uploads, own_store)
        certification, token_routes = CertifyRoutes(certify), TokenRoutes(tokens, jobs)
        lives, page = LifeRoutes(jobs, engine, store, clock), PageRoutes(sessions, engine, clock, find_page)
        schedules = ScheduleRoutes(jobs, routes.once)
        self._end_calls = routes.end_calls
        self._routes = [
            web.get("/metrics", self._render_metrics),
            web.get("/v1/openapi.json", routes.openapi),
            web.get("/v1/status", routes.status),
            web.post("/v1/jobs", routes.submit),
            web.post("/v1/sets", routes.submit_set),
            web.post("/v1/schedules", schedules.create),
            web.get("/v1/schedules", schedules.list_all),
            web.post("/v1/schedules/{schedule}/pause", schedules.pause),
            web.post("/v1/schedules/{schedule}/resume", schedules.resume),
            web.post("/v1/schedules/{schedule}/end", schedules.end),
            web.get("/v1/jobs", routes.list_jobs),
            web.get("/v1/jobs/{ref}", routes.show),
            web.get("/v1/jobs/{ref}/logs", self._log_feed.answer),
            web.get("/v1/jobs/{ref}/outputs", routes.outputs),
            web.get("/v1/jobs/{ref}/code", routes.code_of_job),
            web.get("/v1/jobs/{ref}/why", routes.why),
            web.get("/v1/jobs/{ref}/receipt", routes.receipt),
            web.patch("/v1/jobs/{ref}", routes.change),
            web.post("/v1/jobs/{ref}/stop", routes.stop),
            web.post("/v1/jobs/{ref}/cancel", routes.cancel),
            web.post("/v1/jobs/{ref}/resume", routes.resume),
            web.post("/v1/jobs/{ref}/exec", routes.exec),
            web.post("/v1/jobs/{ref}/retry", routes.retry),
            web.post("/v1/jobs/{ref}/release", routes.release),
            web.get("/v1/jobs/{ref}/ssh", routes.ssh),
            web.get("/v1/code/{sha256}", routes.look_for_code),
            web.put("/v1/code/{sha256}", routes.begin_code),
            web.put("/v1/code/{sha256}/parts/{number}", routes.add_code),
            web.get("/v1/events", self._feed.answer),
            web.post("/v1/offers", routes.offers),
            web.get("/v1/spend", routes.spend),
            web.get("/v1/budget", routes.budget),
            web.get("/v1/reconcile", routes.reconcile),
            web.get("/v1/instances/{ref}", routes.instance),
            web.get("/v1/prices", routes.prices),
            web.get("/v1/drift", routes.drift),
            web.get("/v1/markets/{market}/certification", certification.report),
            web.post("/v1/markets/{market}/certification", certification.begin),
            web.post("/v1/markets/{market}/accept", certification.accept),
            web.get("/v1/decisions", lives.decisions),
            web.get("/v1/jobs/{ref}/life", lives.life),
            web.get("/v1/spans", lives.spans),
            web.get("/v1/page", page.whoami),
            web.get("/v1/page/now", lives.now),
            web.get("/v1/page/money", lives.money),
            web.post("/v1/page/link", page.invite),
            web.post("/v1/page/enter", page.enter),
            web.post("/v1/page/end", page.end),
            web.get("/v1/plans", token_routes.list_plans),
            web.post("/v1/plans/{plan}/confirm", token_routes.confirm),
            web.get("/v1/tokens", token_routes.list_all),
            web.post("/v1/tokens", token_routes.create),
            web.post("/v1/tokens/{name}/revoke", token_routes.revoke),
        ]

    def app(self, *, is_listeners: bool = False) -> web.Application:
        """``is_listeners``: for the socket that the listener alone can open, where each call needs a token."""
        access = check_access(
            self._store, self._clock, self._sessions, self._settled, self._proxied, is_listeners=is_listeners
        )
        # The listener has bounded what it passes on.
        bounds = () if is_listeners else (bound_bodies(),)
        app = web.Application(middlewares=[answer_errors, access, *bounds, _log_call], client_max_size=MAX_BODY_BYTES)
        app.add_routes(self._routes)
        app.on_shutdown.append(self._end_calls)
        app.on_shutdown.append(self._feed.close)
        app.on_shutdown.append(self._log_feed.close)
        return app

    async def _render_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})


class _Routes:
    def __init__(
        self, jobs: JobService, engine: Engine, store: Store, clock: Clock, uploads: Uploads, own_store: str
    ) -> None:
        self._jobs = jobs
        self._own_store = own_store
        self._uploads = uploads
        self._engine = engine
        self._store = store
        self._clock = clock
        self.once = OnceOnly(store, clock)

    async def openapi(self, _: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(openapi))

    async def status(self, request: web.Request) -> web.Response:
        caller, error = caller_of(request), self._engine.clock_error
        async with self._store.snapshot() as uow:
            jobs = [job for job in await uow.jobs.list_open() if caller.sees_all or job.owner == caller.owner]
            unsettled = await uow.leases.list_unsettled() if caller.sees_all else ()
        return web.json_response(
            {
                "version": __version__,
                "pid": os.getpid(),
                "now": render.plain(self._clock.now()),
                "speed": self._clock.speed,
                "install_id": self._engine.config.install_id,
                "last_tick_at": render.plain(self._engine.last_tick_at),
                "failing_since": render.plain(self._engine.failing_since),
                "failure": self._engine.failure if caller.sees_all else "",
                "clock_behind_s": None if error is None else round(error.total_seconds()),
                "jobs_open": len(jobs),
                "behind_store": [job.spec.name for job in jobs if job.id in self._engine.from_store.behind],
                "unsettled_leases": len(unsettled),
                "unbilled_leases": sum(lease.billing.waits_for is not BillWait.SECOND_LOOK for lease in unsettled),
                "providers": self._markets(caller),
            }
        )

    async def submit(self, request: web.Request) -> web.Response:
        body = await read_body(request, SubmitBody)
        part = SetPart(toml=body.toml, source=body.source, code=body.code, table=body.table)
        return await self._submit(request, [part], body, lambda made: made[0])

    async def submit_set(self, request: web.Request) -> web.Response:
        body = await read_body(request, SubmitSetBody)
        return await self._submit(request, body.jobs, body, lambda made: {"jobs": made})

    async def _submit(
        self, request: web.Request, parts: Sequence[SetPart], body: SubmitBody | SubmitSetBody, tell: Tell
    ) -> web.Response:
        caller = caller_of(request)
        sent = [
            Sent(each.toml, each.source, SentCode.of(each.code) if each.code else None, each.table) for each in parts
        ]
        submit = partial(
            self._jobs.submissions.submit,
            sent,
            tell,
            dry_run=body.dry_run,
            least_probability=body.min_probability,
            owner=caller.owner,
            token=caller.token,
            again=body.again,
            plan_id=body.plan,
        )
        if body.dry_run:
            return web.json_response(await submit())
        return await self.once.answer(request, caller.owner, 201, lambda once: submit(once=once))

    async def list_jobs(self, request: web.Request) -> web.Response:
        return web.json_response(await self._jobs.overview(read_query(request, ListQuery), _own_alone(request)))

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response(await self._jobs.show(job_ref(request)))

    async def outputs(self, request: web.Request) -> web.Response:
        answer = await self._jobs.outputs(job_ref(request))
        for part in answer["parts"]:
            part["url"] = self._reachable(request, part["url"])
        return web.json_response(answer)

    async def code_of_job(self, request: web.Request) -> web.Response:
        answer = await self._jobs.code_of(job_ref(request), caller_of(request).owner)
        answer["urls"] = [self._reachable(request, url) for url in answer["urls"]]
        return web.json_response(answer)

    def _reachable(self, request: web.Request, url: str) -> str:
        """An address in the store as the caller can use it."""
        is_own = self._own_store and url.startswith(self._own_store)
        return "/v1" + url.removeprefix(self._own_store) if is_own and is_from_elsewhere(request) else url

    async def look_for_code(self, request: web.Request) -> web.Response:
        return web.json_response(await self._jobs.code.look(caller_of(request).owner, request.match_info["sha256"]))

    async def begin_code(self, request: web.Request) -> web.Response:
        where = caller_of(request).owner, request.match_info["sha256"]
        return web.json_response(await self._jobs.code.begin(*where, self._uploads.of(request)))

    async def add_code(self, request: web.Request) -> web.Response:
        number = whole(request.match_info["number"], "the number of a part")
        where = caller_of(request).owner, request.match_info["sha256"], number
        await self._jobs.code.add_part(*where, self._uploads.of(request))
        return web.json_response({})

    async def receipt(self, request: web.Request) -> web.Response:
        return web.json_response(to_json(await self._jobs.receipt(job_ref(request))))

    async def why(self, request: web.Request) -> web.Response:
        limit = read_query(request, WhyQuery).limit
        return web.json_response(await self._jobs.why(job_ref(request), limit=limit))

    async def change(self, request: web.Request) -> web.Response:
        body = await read_body(request, ChangeBody)
        wish = body.model_dump(exclude={"min_probability", "plan"}, exclude_none=True)
        change = partial(
            self._jobs.change,
            job_ref(request),
            wish,
            least_probability=body.min_probability,
            token=caller_of(request).token,
            plan_id=body.plan,
        )
        return await self.once.answer(request, caller_of(request).owner, 200, lambda once: change(once=once))

    async def stop(self, request: web.Request) -> web.Response:
        return web.json_response({"job": await self._jobs.stop(job_ref(request))})

    async def cancel(self, request: web.Request) -> web.Response:
        job, unrecorded = await self._jobs.cancel(job_ref(request))
        if not unrecorded:
            return web.json_response({"job": job})
        return web.json_response({"job": job, "unrecorded": unrecorded}, status=202)

    async def resume(self, request: web.Request) -> web.Response:
        chosen = await read_body_if_any(request, ResumeBody)
        check_wish(chosen)
        if chosen.dry_run:
            return web.json_response(await self._jobs.look_into_store(job_ref(request)))
        resume = partial(self._jobs.resume, job_ref(request), chosen.from_checkpoint)
        if chosen.from_store:
            resume = partial(self._jobs.resume_from_store, job_ref(request))
        return await self.once.answer(request, caller_of(request).owner, 200, lambda once: resume(once=once))

    async def retry(self, request: web.Request) -> web.Response:
        body = await read_body_if_any(request, RetryBody)
        retry = partial(self._jobs.tasks.retry, job_ref(request), failed=body.failed)
        return await self.once.answer(request, caller_of(request).owner, 200, lambda once: retry(once=once))

    async def exec(self, request: web.Request) -> web.Response:
        body = await read_body(request, ExecBody)
        where = job_ref(request), body.command, body.timeout_s, caller_of(request).owner
        return web.json_response(await self._jobs.execs.call(*where))

    async def release(self, request: web.Request) -> web.Response:
        return web.json_response({"job": await self._jobs.release(job_ref(request))})

    async def ssh(self, request: web.Request) -> web.Response:
        return web.json_response(await self._jobs.ssh.locate(job_ref(request), caller_of(request).owner))

    async def end_calls(self, _: web.Application) -> None:
        """A call that waits for a machine's answer must not keep the daemon from ending."""
        self._engine.execs.close()

    async def offers(self, request: web.Request) -> web.Response:
        body = await read_body(request, OffersBody)
        spec = await check_gpus(self._spec_of(body, caller_of(request).token), self._engine)
        job = Job("", spec, JobStatus.PENDING, Reason.SUBMITTED, self._clock.now())
        found = await self._engine.offers(spec.query)
        market = self._engine.market_view(found, None, self._clock.now())
        rows = ranked_offers(job, market, self._engine.config.params)
        notes = [*meanings(spec), *await host_notes(self._engine, job, found, self._clock.now())]
        return web.json_response({"offers": rows, "markets": self._markets(caller_of(request)), "notes": notes})

    async def spend(self, request: web.Request) -> web.Response:
        asked = read_query(request, SpendQuery).model_dump(exclude_none=True)
        async with self._moment() as (uow, moment):
            return web.json_response(to_json(await spend(uow, moment, asked, _own_alone(request))))

    async def budget(self, request: web.Request) -> web.Response:
        limits, credits = self._engine.config.limits, credits_of(self._engine)
        async with self._moment() as (uow, moment):
            body = await budget(uow, moment, limits, credits, _own_alone(request), self._engine.config.settled)
        return web.json_response(to_json(body))

    async def reconcile(self, request: web.Request) -> web.Response:
        month = read_query(request, MonthQuery).month
        async with self._moment() as (uow, moment):
            return web.json_response(to_json(await reconciliation(uow, moment, month)))

    async def instance(self, request: web.Request) -> web.Response:
        async with self._store.snapshot() as uow:
            found = await instance(uow, request.match_info["ref"], self._clock.now(), self._engine.config.params)
        return web.json_response(found)

    async def prices(self, request: web.Request) -> web.Response:
        listed = await self._engine.gpu_names()
        asked = read_query(request, PricesQuery)
        async with self._store.snapshot() as uow:
            return web.json_response(await prices(uow, asked, self._clock.now(), listed))

    async def drift(self, request: web.Request) -> web.Response:
        return web.json_response(await drift(self._store, read_query(request, DriftQuery)))

    def _spec_of(self, body: OffersBody, token: Token | None) -> JobSpec:
        if body.toml is not None:
            return self._jobs.submissions.parse(body.toml, body.source, token)
        disk_gb = Decimal(body.disk_gb)
        try:
            gpus = parse_choices(body.gpu)
        except ValueError as error:
            raise UserError(f"gpu: {error}") from None
        return JobSpec(name="offers", image="", run="", gpus=gpus, disk_gb=disk_gb)

    def _markets(self, caller: ApiCaller) -> list[render.Json]:
        return render_markets(self._engine, self._clock.now(), sees_all=caller.sees_all)

    @asynccontextmanager
    async def _moment(self) -> AsyncIterator[tuple[UnitOfWork, Moment]]:
        async with self._store.snapshot() as uow:
            yield uow, await read_moment(uow, self._clock.now(), self._engine.config.params)


def _own_alone(request: web.Request) -> int | None:
    """Whose jobs an answer is about, for a caller who may not see others'; None: all."""
    caller = caller_of(request)
    return None if caller.sees_all else caller.owner


@web.middleware
async def _log_call(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method != "GET":
        owner = caller_of(request).owner
        log.info("api.called", method=request.method, path=request.path, owner=owner, **origin_of(request))
    return await handler(request)
