"""The pages of a daemon, served by its listener: who may see them, what moves in them, and what is done by them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

from autopilot.answers.codec import from_json
from autopilot.answers.pages import OpenedSession, PageCaller
from autopilot.api.bearer import LONGEST_TOKEN, hash_token
from autopilot.blobs.place import MailboxPlace
from autopilot.client.errors import ApiError
from autopilot.clock import SystemClock
from autopilot.domain.token import PROXIED
from autopilot.ids import new_secret
from autopilot.listener.gate import LOGIN, KnownLogin
from autopilot.listener.known_tokens import KnownTokens
from autopilot.listener.pages import MISSING
from autopilot.web import actions, words, zone
from autopilot.web.daemon_source import DaemonLink, DaemonSilent, DaemonSource, SessionEnded
from autopilot.web.job_list import ListChoice
from autopilot.web.live import Build, Fragment, LiveFragments, Reader, Render, Silence, TooManyStreams
from autopilot.web.session_path import forget_secret, keep_secret, make_path, read_base, read_page_path, read_secret
from autopilot.web.shapes import read_lines
from autopilot.web.site import AT_ONCE, BUILDERS, HEADERS, MADE_WITHIN_S, VISITOR, PageSite, add_headers
from autopilot.web.source import Visitor

PULSE_S = 5.0
"""A stream that has nothing to say says so this often: the page then knows that it is live."""
COOKIE_S = 12 * 3600
_SILENT_HINT = "this does not mean that you have no jobs; the page retries automatically"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Opened(NamedTuple):
    """A request of somebody who is known."""

    source: DaemonSource
    visitor: Visitor
    login: KnownLogin


class NoSession(SessionEnded):
    """The request's cookie belongs to no user."""


class DaemonPages:
    def __init__(self, place: MailboxPlace) -> None:
        self._site = PageSite()
        self._link = DaemonLink(place)
        self._known = KnownTokens(place.page_sessions_path)
        self._clock = SystemClock()
        self._live = LiveFragments(self._clock.now)
        self._making = asyncio.Semaphore(AT_ONCE)
        self._form_key = new_secret().encode()
        self._answers: dict[str, Answer] = {name: self._page(name) for name in BUILDERS}
        self._answers |= {
            "job_log": self._job_log,
            "confirm": self._confirm,
            "act": self._act,
            "new": self._new,
            "plan_or_submit": self._plan_or_submit,
            "stream_now": self._stream_now,
            "stream_job": self._stream_job,
            "enter": self._enter,
            "leave": self._leave,
            "choose_zone": self._choose_zone,
            "static": self._static,
            MISSING: self._miss,
        }

    async def close(self) -> None:
        await self._live.close()
        await self._link.close()

    async def answer(self, name: str, request: web.Request) -> web.StreamResponse:
        zone.choose_of(request)
        try:
            answer = await self._answers[name](request)
        except NoSession:
            answer = self._ask_who(request)
        except SessionEnded:
            answer = self._ask_who(request)
            forget_secret(answer, request)
        except DaemonSilent as silent:
            message = f"The daemon does not respond: {silent}."
            answer = self._site.tell(request, 503, "The daemon does not respond", message, _SILENT_HINT)
            answer.headers["Refresh"] = "5"
        except ApiError as refusal:
            answer = self._tell_refusal(request, refusal)
        except web.HTTPException as error:
            if error.status != 404:
                error.headers.update(HEADERS)
                raise
            answer = self._site.tell_error(request, error)
        except Exception as error:
            answer = self._site.tell_error(request, error)
        if not answer.prepared:
            add_headers(answer)
        return answer

    def _ask_who(self, request: web.Request) -> web.Response:
        if LOGIN in request:
            message, hint = "The daemon does not accept this proxy.", "see the daemon's log"
            return self._site.tell(request, 401, "Sign in", message, hint)
        message = "Open the page with a link. It signs you in for twelve hours."
        hint = "run autopilot web for a new link: single use, expires in five minutes"
        return self._site.tell(request, 401, "Sign in", message, hint)

    def _tell_refusal(self, request: web.Request, refusal: ApiError) -> web.Response:
        title = "Not allowed" if refusal.status == 403 else "Not possible"
        return self._site.tell(request, refusal.status, title, refusal.message, refusal.hint)

    def _identify(self, request: web.Request) -> KnownLogin:
        """By the proxy, where the request has come through the port that a proxy has; else by a session.

        Raises ``NoSession`` without a word to the daemon.
        """
        if LOGIN in request:
            return request[LOGIN]
        secret = read_secret(request)
        if not secret or len(secret) > LONGEST_TOKEN or not self._known.has(hash_token(secret)):
            raise NoSession
        return _log_in(secret)

    async def _open(self, request: web.Request, *, is_pulse: bool = False) -> Opened:
        login, is_proxied = self._identify(request), LOGIN in request
        me = from_json(PageCaller, await self._link.ask(login, "GET", "/v1/page", is_pulse=is_pulse))
        source = DaemonSource(self._link, login, me)
        key, name = "all" if source.sees_all else str(me.owner), me.name.removeprefix(PROXIED)
        form_token = self._form_token(login, is_proxied)
        request[VISITOR] = visitor = Visitor(
            name, source.scope, source.sees_all, True, f"{key} {source.scope}", form_token, is_proxied=is_proxied
        )
        return Opened(source, visitor, login)

    def _form_token(self, login: KnownLogin, is_proxied: bool) -> str:
        """What only pages have that were made for them. It tells nothing of a session's secret, from which it is made;
        of a proxy's user others know the name."""
        if is_proxied:
            return hmac.digest(self._form_key, login.key.encode(), "sha256").hex()
        return hashlib.sha256(f"forms of {login.key}".encode()).hexdigest()

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        if len(key) > LONGEST_TOKEN or not self._known.has(hash_token(key)):
            raise NoSession
        body = await self._link.ask(_log_in(key), "POST", "/v1/page/enter", body={}, peer=request.remote or "")
        secret = from_json(OpenedSession, body).secret
        answer = web.Response(status=303, headers={"Location": make_path(secret)})
        keep_secret(answer, request, secret, COOKIE_S)
        return answer

    async def _leave(self, request: web.Request) -> web.StreamResponse:
        opened = await self._open(request)
        await self._read_form(request, opened)
        await self._link.ask(opened.login, "POST", "/v1/page/end", body={})
        answer = self._site.tell(
            request, 200, "Signed out", "This browser no longer has access.", "run autopilot web to sign in again"
        )
        forget_secret(answer, request)
        return answer

    async def _choose_zone(self, request: web.Request) -> web.StreamResponse:
        return zone.keep(request, await self._read_form(request, await self._open(request)))

    async def _miss(self, request: web.Request) -> web.StreamResponse:
        """An address that there is not, of somebody who is known."""
        await self._open(request)
        raise web.HTTPNotFound

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._site.send_static(request)

    def _page(self, name: str) -> Answer:
        async def make(request: web.Request) -> web.StreamResponse:
            async with asyncio.timeout(MADE_WITHIN_S), self._making:
                opened = await self._open(request)
                page = await BUILDERS[name](opened.source, request)
                has_log = name == "job" and not page.job.tasks  # of an array its tasks have some
                log = (page.log or await self._read_lines(opened, page.job.id)) if has_log else ()
            given = {"done": request.query.get("done", ""), "chosen": request.query.get("d", "")}
            return self._site.answer(request, f"{name}.html", opened.visitor, page=page, log=log, **given)

        return make

    async def _read_lines(self, opened: Opened, job_id: str) -> list[str]:
        return read_lines(await opened.source.read_log(job_id))

    async def _job_log(self, request: web.Request) -> web.StreamResponse:
        """The lines alone, for a page that asks for them again."""
        opened = await self._open(request)
        log = await self._read_lines(opened, request.match_info["ref"])
        return self._site.answer(request, "log_lines.html", opened.visitor, log=log)

    # What moves

    async def _stream_now(self, request: web.Request) -> web.StreamResponse:
        return await self._stream(request, "now", (ListChoice.read(request.query).query(),))

    async def _stream_job(self, request: web.Request) -> web.StreamResponse:
        shown = (request.match_info["ref"], request.query.get("period", "all"), request.query.get("d", ""))
        return await self._stream(request, "job", shown)

    async def _stream(self, request: web.Request, name: str, shown: tuple[str, ...]) -> web.StreamResponse:
        opened = await self._open(request)
        visitor, path = opened.visitor, read_page_path(request).removeprefix("/stream")

        async def build(source: DaemonSource) -> Any:
            async with asyncio.timeout(MADE_WITHIN_S), self._making:
                return await BUILDERS[name](source, request)

        def render(page: Any) -> str:
            # Shared by all who may see the same: it contains no form token.
            return self._site.render(f"{name}_live.html", path, visitor._replace(form_token=""), page=page)

        async def ask() -> DaemonSource:
            return (await self._open(request, is_pulse=True)).source

        return await self._send(
            request, (name, visitor.key, zone.name(), *shown), Reader(opened.source.me.owner, ask), build, render
        )

    async def _send(
        self, request: web.Request, key: tuple[str, ...], reader: Reader, build: Build, render: Render
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
        answer.headers["X-Accel-Buffering"] = "no"
        known = request.headers.get("Last-Event-ID", "")[:64]
        try:
            following = self._live.follow(key, reader, build, render, known, PULSE_S)
            await answer.prepare(request)
            await answer.write(_event("state", {"silent": ""}))
            async with contextlib.aclosing(following):
                async for fragment in following:
                    await answer.write(_event("pulse", {}) if fragment is None else _frame(fragment))
            if reader.is_ended:
                await answer.write(_event("ended", {}))
        except TooManyStreams:
            await answer.write(_event("full", {}))
        except ConnectionError:
            pass  # the reader has disconnected
        return answer

    # What is done

    async def _read_form(self, request: web.Request, opened: Opened) -> dict[str, str]:
        """Raises ``ApiError`` for a form that is not of a page of this session."""
        form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
        if not hmac.compare_digest(form.pop("form_token", "").encode(), opened.visitor.form_token.encode()):
            raise ApiError(
                403, "wrong_form", "this form does not belong to a page of this session", hint="reload the page"
            )
        return form

    async def _confirm(self, request: web.Request) -> web.StreamResponse:
        opened = await self._open(request)
        page = await actions.build_confirmation(opened.source, opened.visitor, request.match_info, request.query)
        return self._site.answer(request, "confirm.html", opened.visitor, page=page)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        opened = await self._open(request)
        form, where = await self._read_form(request, opened), request.match_info
        try:
            job_id = await actions.act(
                self._link, opened.login, where["ref"], where["verb"], form, request.remote or ""
            )
        except ApiError as refusal:
            page = await actions.build_confirmation(opened.source, opened.visitor, where, form, refusal)
            answer = self._site.answer(request, "confirm.html", opened.visitor, page=page)
            answer.set_status(refusal.status)
            return answer
        return _lead_to(request, f"/jobs/{job_id}?done={where['verb']}")

    async def _new(self, request: web.Request) -> web.StreamResponse:
        opened = await self._open(request)
        page = actions.build_draft(opened.visitor)
        return self._site.answer(request, "new.html", opened.visitor, page=page)

    async def _plan_or_submit(self, request: web.Request) -> web.StreamResponse:
        opened = await self._open(request)
        form = await self._read_form(request, opened)
        page = await actions.plan_or_submit(self._link, opened.login, opened.source.now, form, request.remote or "")
        if page.job_id:
            return _lead_to(request, f"/jobs/{page.job_id}?done=submit")
        answer = self._site.answer(request, "new.html", opened.visitor, page=page)
        answer.set_status(page.status)
        return answer


def _lead_to(request: web.Request, path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": read_base(request) + path})


def _log_in(secret: str) -> KnownLogin:
    """By a session, or by a link."""
    return KnownLogin(secret, "session", {"Authorization": f"Bearer {secret}"})


def _frame(fragment: Fragment) -> bytes:
    state = _event("state", {"silent": _tell_silence(fragment.silence)})
    if not fragment.html:
        return state
    data = "".join(f"data: {line}\n" for line in fragment.html.splitlines())
    return state + f"id: {fragment.id}\n{data}\n".encode()


def _tell_silence(silence: Silence | None) -> str:
    if silence is None:
        return ""
    since = words.moment_in_zone(silence.since)
    return (
        f"The daemon has not responded since {since}: {silence.why}. Below is its last known state. "
        "Machines keep running until their permits expire."
    )


def _event(name: str, data: dict[str, str]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
