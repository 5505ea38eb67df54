"""Between the daemon and the markets: a request takes time to arrive, takes effect, and its answer takes time to come.

What is on its way arrives, even if either end dies. Bursts, refusals and losses happen here, what a market itself does
wrong in ``vastai``, ``runpod``, ``mithril`` and ``nebius``.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from autopilot.providers.reading import NoReply, Reply
from autopilot.providers.runpod.reply import Fault, fault_in_text
from autopilot.providers.runpod.sdk import SdkRefused
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box
from tests.simulation.ground.wire import UNAUTHORISED, Raw, Request, tear
from tests.simulation.markets import mithril, runpod, vastai
from tests.simulation.markets.market import SimulatedMarket

TIMEOUT_S = 30.0
"""When clients give up."""
_MORE = ('"next_token": "', '"next_cursor": "')
"""In a page of a list that is not its last."""
LOOK_S = 10.0
"""A look at one machine, which begins with its bid, takes no longer; the next list begins later."""
LOOKS = frozenset({"list", "show", "vms", mithril.MACHINES})
"""At machines."""
CHANGES = frozenset({"create", "bid", "start", "stop", "destroy", "make_cap", "drop_cap", "drop_disk"})


class Answerer(Protocol):
    """A market's side of the wire."""

    @property
    def market(self) -> SimulatedMarket: ...

    def answer(self, asked: Request) -> Raw: ...


class Lost(Exception):
    """No answer came."""

    def __init__(self, why: str, *, timed_out: bool = False) -> None:
        super().__init__(why)
        self.timed_out = timed_out


class Connection:
    """One client's way to one market: a daemon's, or all agents'."""

    def __init__(self, ground: Ground, market: SimulatedMarket, answerer: Answerer, rng: random.Random) -> None:
        self.ground = ground
        self.provider = market.provider
        self._market = market
        self._answerer = answerer
        self._rng = rng
        self._shown_s = -LOOK_S

    def send(self, asked: Request) -> asyncio.Future[Raw]:
        """Resolves to the answer or raises ``Lost``."""
        ground, loop, rng = self.ground, self.ground.loop, self._rng
        answer: asyncio.Future[Raw] = loop.create_future()
        ground.trace("sent", self.provider, asked.kind, asked.box_id)
        ground.version += asked.kind in CHANGES
        ground.check.send_request(asked)
        if asked.kind == "show":
            self._shown_s = ground.now_s
        elif asked.kind == mithril.MACHINES and ground.now_s - self._shown_s < LOOK_S:
            asked = replace(asked, is_look=True)
        if asked.kind == "destroy":
            self._note_destroy(asked)
        there_s = rng.uniform(0.02, 0.4) if rng.random() < 0.95 else rng.uniform(0.4, 8.0)
        spoilt = self._spoilt(asked)
        if spoilt is not None:
            self._unreadable(asked)
        if isinstance(spoilt, Raw):
            loop.after(there_s * 2, _settle, answer, spoilt)
        elif isinstance(spoilt, Lost):
            loop.after(TIMEOUT_S if spoilt.timed_out else there_s, _fail, answer, spoilt)
        else:
            self._carry(asked, answer, there_s)
        return answer

    def power_off(self, box: Box) -> None:
        """What runs on the machine has switched it off."""
        self._market.power_off(box)

    def begin_list(self) -> None:
        """Of all machines, from its several parts."""
        self.ground.read_again(self.provider, "")

    def end_list(self) -> None:
        if not self.ground.is_unreadable(self.provider):
            self.ground.check.read_list(self.provider)

    def _unreadable(self, asked: Request) -> None:
        if asked.part:
            self.ground.spoil(self.provider, asked.part)
        if asked.kind in ("list", mithril.MACHINES) and not asked.is_look:
            self.ground.spoil(self.provider, asked.page if asked.kind == "list" else mithril.MACHINES)

    def _note_destroy(self, asked: Request) -> None:
        box = self._market.boxes.get(asked.box_id)
        if box is not None and box.destroy_sent_s is None:
            # From here on it is up to the market; the moment in which it does so is ours.
            box.destroy_sent_s = self.ground.now_s
            self.ground.loop.after(TIMEOUT_S, self._market.rebill, box)

    def _carry(self, asked: Request, answer: asyncio.Future[Raw], there_s: float) -> None:
        faults, loop = self.ground.faults, self.ground.loop
        is_lost = False
        if asked.kind in ("create", "make_cap"):
            if faults.hits("A4"):
                loop.after(TIMEOUT_S, _fail, answer, Lost("no answer in time", timed_out=True))
                loop.after(TIMEOUT_S + faults.rng("A4").uniform(1, 900), self._arrive, asked, answer, "late")
                return
            if faults.hits("A1"):
                loop.after(there_s, self._arrive, asked, answer, "500")
                return
            is_lost = faults.hits("A2")
        elif asked.kind in ("destroy", "drop_cap", "drop_disk"):
            is_lost = faults.hits("D3")
        loop.after(there_s, self._arrive, asked, answer, "lost" if is_lost else "")

    def _arrive(self, asked: Request, answer: asyncio.Future[Raw], fate: str) -> None:
        ground, loop = self.ground, self.ground.loop
        ground.version += asked.kind in CHANGES
        # If its caller no longer waits, the next one of its kind may arrive before it.
        is_late = fate == "late" or answer.done()
        ground.check.receive_request(self.provider, asked, client=self, is_late=is_late)
        ground.is_landing_late = fate == "late"
        if asked.part:
            ground.read_again(self.provider, asked.part)
        elif asked.kind == "list":
            ground.read_again(self.provider, asked.page)
        elif asked.kind == mithril.MACHINES and not (asked.page or asked.is_look):
            ground.read_again(self.provider, mithril.MACHINES)
        self._market.rented_last = None
        plain = self._answerer.answer(asked)
        rented = self._market.rented_last
        ground.is_landing_late = False
        back_s = self._rng.uniform(0.02, 0.4)
        if fate == "500":
            plain = Raw(self._rng.choice((500, 502, 504)), "<html>Internal Server Error</html>")
        found: Raw | Lost = plain
        if ground.faults.hits("C4"):
            found = self._mangled(plain)
            self._unreadable(asked)
        if (
            asked.kind == "list"
            and not ground.is_unreadable(self.provider)
            and not any(more in plain.text for more in _MORE)
        ):
            ground.check.read_list(self.provider)
        if fate in ("", "500"):
            loop.after(back_s, _settle, answer, found)
            if rented is not None and found is plain and not fate:
                rented.is_reported = True
        elif self._rng.random() < 0.5:
            loop.after(back_s, _fail, answer, Lost("connection reset"))
        else:
            loop.after(TIMEOUT_S, _fail, answer, Lost("no answer in time", timed_out=True))

    def _spoilt(self, asked: Request) -> Raw | Lost | None:
        """What comes of a request that never reaches what it asks for."""
        ground, rng = self.ground, self._rng
        faults, now_s = ground.faults, ground.now_s
        if faults.bursts("C2", self.provider, now_s):
            if rng.random() < 0.2:
                return Lost("no answer in time", timed_out=True)
            return Raw(rng.choice((500, 502, 503, 504)), "<html>Bad gateway</html>")
        if asked.kind in LOOKS and not asked.by_agent and ground.is_unlisted(self.provider):
            return Raw(rng.choice((500, 502, 503, 504)), "<html>Bad gateway</html>")
        if faults.bursts("C1", self.provider, now_s):
            return Raw(429, "API requests too frequent: endpoint threshold=3.0")
        if faults.bursts("C3", self.provider, now_s):
            status = rng.choice(UNAUTHORISED)
            error = "insufficient_credit" if status == 402 else "auth_error"
            return Raw(status, json.dumps({"success": False, "error": error}))
        if faults.hits("C5"):
            return Lost(rng.choice(("name not resolved", "certificate has expired")))
        return None

    def _mangled(self, found: Raw) -> Raw | Lost:
        match self._rng.randrange(4):
            case 0:
                return Raw(found.status, tear(found.text, self._rng))
            case 1:
                return Raw(302, "")
            case 2:
                return Raw(200, "[" * 100_000)
            case _:
                return Lost("the answer is larger than allowed")


def _settle(answer: asyncio.Future[Raw], found: Raw | Lost) -> None:
    if isinstance(found, Lost):
        _fail(answer, found)
    elif not answer.done():
        answer.set_result(found)


def _fail(answer: asyncio.Future[Raw], why: Lost) -> None:
    if not answer.done():
        answer.set_exception(why)
        answer.exception()  # its caller may be dead


class VastaiTransport:
    """The daemon's way to vast.ai."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        try:
            found = await self._connection.send(vastai.request(method, path, query, body))
        except Lost as lost:
            raise NoReply(str(lost), timed_out=lost.timed_out) from None
        return Reply(found.status, found.text)

    async def fetch(self, url: str) -> Reply:
        return await self.send("GET", url, query=None, body=None)

    def close(self) -> None:
        pass


class MithrilTransport:
    """The daemon's way to Mithril."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        try:
            found = await self._connection.send(mithril.request(method, path, parameters, body))
        except Lost as lost:
            raise NoReply(str(lost), timed_out=lost.timed_out) from None
        return Reply(found.status, found.text)

    async def close(self) -> None:
        pass


class RunpodTransport:
    """The daemon's way to RunPod. Three calls are the SDK's, which hides statuses and tells only the first error."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(
        self, method: str, path: str, *, parameters: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        if path == "/v2/registries":
            return Reply(200, '{"registries": []}')  # no job here has a private image
        found = await self._sent(runpod.request(method, path, parameters, body))
        return Reply(found.status, found.text)

    async def _sent(self, asked: Request) -> Raw:
        try:
            return await self._connection.send(asked)
        except Lost as lost:
            raise NoReply(str(lost), timed_out=lost.timed_out) from None

    async def listen(self, path: str, parameters: Mapping[str, str]) -> Reply:
        found = await self._sent(runpod.request("GET", path, parameters, None))
        return Reply(found.status, found.text)

    async def gpu_types(self) -> Any:
        return (await self._by_sdk("types"))["gpuTypes"]

    async def stop(self, pod_id: str) -> bool:
        answer = (await self._by_sdk("stop", pod_id)).get("podStop") or {}
        return bool(answer.get("desiredStatus") == "EXITED")

    async def terminate(self, pod_id: str) -> None:
        await self._by_sdk("destroy", pod_id)

    async def _by_sdk(self, kind: str, pod_id: str = "") -> dict[str, Any]:
        found = await self._sent(Request(kind, "POST", "/graphql", {}, None, pod_id))
        if found.status == 401:
            raise SdkRefused("unauthorized", Fault.NO_RIGHTS)
        try:
            body = json.loads(found.text)
        except (ValueError, RecursionError):
            raise NoReply("no answer that the SDK can read") from None
        if isinstance(body, dict) and body.get("errors"):
            message = str(body["errors"][0]["message"])
            raise SdkRefused(message, fault_in_text(message) or Fault.OTHER)
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, dict):
            if kind == "types":
                raise NoReply("no answer that the SDK can read")
            return {}
        return data

    async def close(self) -> None:
        pass
