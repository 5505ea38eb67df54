"""The daemon, asked over the socket of the listener, in the name of one login."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

import aiohttp

from autopilot.answers.codec import from_json
from autopilot.answers.hosts import Host, Hosts
from autopilot.answers.instances import Instances
from autopilot.answers.jobs import Logs
from autopilot.answers.money import MonthOfMoney
from autopilot.answers.pages import Decisions, DrawnLife, MachinesOfJob, Now, PageCaller
from autopilot.answers.plans import RankedOffer
from autopilot.answers.prices import Prices
from autopilot.api.of_listener import PEER
from autopilot.blobs.place import MailboxPlace
from autopilot.books.finding import JobNotFound
from autopilot.client.answer import read_answer
from autopilot.client.errors import ApiError, NoAccess, NotRunning, TimedOut, Unreachable, UnreadableAnswer
from autopilot.client.exchange import DaemonExchange, read_whole
from autopilot.config.daemon_address import DaemonAddress
from autopilot.domain.token import Scope
from autopilot.listener.gate import KnownLogin
from autopilot.web.source import Json

CALLS_AT_ONCE = 16
ANSWER_BYTES = 32 << 20
_WITHIN = aiohttp.ClientTimeout(total=30, sock_connect=3)
_PULSE_WITHIN = aiohttp.ClientTimeout(total=3)


class DaemonSilent(Exception):
    """The daemon does not answer; ``str`` says why."""


class SessionEnded(Exception):
    """The session is not known, or over."""


class DaemonLink:
    """Connections to one daemon."""

    def __init__(self, place: MailboxPlace) -> None:
        address = DaemonAddress(place.daemon_socket)
        self._exchange = DaemonExchange(address, _WITHIN, calls_at_once=CALLS_AT_ONCE)

    async def close(self) -> None:
        await self._exchange.close()

    async def ask(
        self,
        login: KnownLogin,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        *,
        once: str = "",
        peer: str = "",
        is_pulse: bool = False,
    ) -> Json:
        """``once``: the key of a request that is not to act twice. ``peer``: who sits at the browser.

        Raises ``DaemonSilent``, ``SessionEnded``, ``JobNotFound``, ``ApiError``.
        """
        headers = {**login.headers, PEER: peer or "page"}
        if once:
            headers["Idempotency-Key"] = once
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        within = _PULSE_WITHIN if is_pulse else _WITHIN
        try:
            async with self._exchange.open(method, path, headers, query=query, data=data, within=within) as answer:
                return read_answer(answer.status, await read_whole(answer, ANSWER_BYTES))
        except (Unreachable, UnreadableAnswer) as problem:
            raise DaemonSilent(_tell(problem)) from None
        except ApiError as refusal:
            if refusal.status == 401:
                raise SessionEnded(refusal.message) from None
            if refusal.status == 404:
                raise JobNotFound(refusal.message, hint=refusal.hint) from None
            raise


def _tell(problem: Unreachable | UnreadableAnswer) -> str:
    match problem:
        case TimedOut():
            return "it timed out"
        case NotRunning() | NoAccess():
            return "it is not running"
    return "it closed the connection"


class DaemonSource:
    """A ``PageSource``. ``me``: what ``GET /v1/page`` answered."""

    def __init__(self, link: DaemonLink, login: KnownLogin, me: PageCaller) -> None:
        self._link = link
        self._login = login
        self.me = me

    @property
    def now(self) -> datetime:
        return self.me.now

    @property
    def newest_at(self) -> datetime | None:
        return self.me.last_tick_at

    @property
    def sees_all(self) -> bool:
        return self.me.sees_all

    @property
    def scope(self) -> Scope:
        return self.me.scope

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        return await self._link.ask(self._login, "GET", path, query)

    async def read_now(self) -> Now:
        return from_json(Now, await self.get("/v1/page/now"))

    async def read_money(self, by: str, month: str) -> MonthOfMoney:
        return from_json(MonthOfMoney, await self.get("/v1/page/money", {"by": by, "month": month}))

    async def read_job(self, reference: str) -> DrawnLife:
        return from_json(DrawnLife, await self.get(f"/v1/jobs/{quote(reference, safe='')}/life"))

    async def read_machines(self, job_ids: Sequence[str]) -> dict[str, MachinesOfJob]:
        return await self._read_spans({"jobs": ",".join(job_ids)}) if job_ids else {}

    async def read_newest_machines(self) -> dict[str, MachinesOfJob]:
        return await self._read_spans()

    async def _read_spans(self, query: Mapping[str, str] | None = None) -> dict[str, MachinesOfJob]:
        return from_json(dict[str, MachinesOfJob], (await self.get("/v1/spans", query))["jobs"])

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> Prices:
        query = {"gpu": gpu, "since": since.isoformat(), "until": until.isoformat(), "steps": str(steps)}
        return from_json(Prices, await self.get("/v1/prices", query))

    async def instance(self, reference: str) -> Instances:
        return from_json(Instances, await self.get(f"/v1/instances/{quote(reference, safe='')}"))

    async def list_decisions(self, before: str, kind: str) -> Decisions:
        return from_json(Decisions, await self.get("/v1/decisions", {"before": before, "kind": kind}))

    async def list_offers(self, gpu: str) -> list[RankedOffer]:
        answer = await self._link.ask(self._login, "POST", "/v1/offers", body={"gpu": gpu})
        return from_json(list[RankedOffer], answer["offers"])

    async def list_hosts(self) -> list[Host]:
        return from_json(Hosts, await self.get("/v1/hosts")).hosts

    async def read_log(self, reference: str) -> Logs:
        return from_json(Logs, await self.get(f"/v1/jobs/{quote(reference, safe='')}/logs", {"tail": "1"}))
