"""Nebius's adapter as it ships, on the simulated world's wires.

Of the SDK the messages are real; what calls and watches over the network is the world's.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, TypeVar

from nebius.aio.request_status import request_status_from_rpc_status
from nebius.api.google.rpc import Status
from nebius.api.nebius.common.v1 import Operation
from pydantic import SecretStr

from autopilot.domain.instance import Instance
from autopilot.ports.clock import Clock
from autopilot.providers.nebius.adapter import NebiusProvider
from autopilot.providers.nebius.client import NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.reply import Fault, MarketRefused, Refusal
from autopilot.providers.nebius.sdk import refusal_of
from autopilot.providers.reading import NoReply
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused, too_many_requests
from tests.simulation.ground.wire import Raw, Request
from tests.simulation.markets.capped import PROJECTS
from tests.simulation.markets.nebius import operation_request, request
from tests.simulation.markets.network import Connection, Lost

M = TypeVar("M")

_LISTING: ContextVar[bool] = ContextVar("listing", default=False)
_LOOKING: ContextVar[bool] = ContextVar("looking", default=False)


def connect_nebius(connection: Connection, clock: Clock, key: str) -> NebiusProvider:
    settings = NebiusSettings(api_key=SecretStr(key), projects=PROJECTS)
    client = NebiusClient(NebiusTransport(connection), clock)  # type: ignore[arg-type]
    return ListedNebius(settings, client, clock, connection)


class ListedNebius(NebiusProvider):
    """Tells the world when all machines are read: the parts of that list are asked for beside it as well."""

    def __init__(self, settings: NebiusSettings, client: NebiusClient, clock: Clock, connection: Connection) -> None:
        super().__init__(settings, client, clock)
        self._connection = connection

    async def instances(self) -> tuple[Instance, ...]:
        if _LOOKING.get():
            return await super().instances()
        self._connection.begin_list()
        _LISTING.set(True)
        try:
            found = await super().instances()
        finally:
            _LISTING.set(False)
        self._connection.end_list()
        return found

    async def instance(self, instance_id: str) -> Instance | None:
        _LOOKING.set(True)
        try:
            return await super().instance(instance_id)
        finally:
            _LOOKING.set(False)


class NebiusTransport:
    """The daemon's way to Nebius: in the place of the module that opens the SDK."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, service: type[Any], method: str, asked: object, expected: type[M]) -> M:
        is_listing = _LISTING.get()
        answer = await self._sent(request(service.__name__, method, asked, "", is_listing=is_listing), method)
        if not isinstance(answer, expected):
            raise NoReply(f"the answer to {method} cannot be read")
        return answer

    async def change(self, service: type[Any], method: str, asked: object, key: str) -> Operation:
        return await self._operation(request(service.__name__, method, asked, key, is_listing=False), method)

    async def operation(self, _: type[Any], operation_id: str) -> Operation:
        return await self._operation(operation_request(operation_id), "get")

    async def _operation(self, asked: Request, method: str) -> Operation:
        answer = await self._sent(asked, method)
        if not isinstance(answer, Operation):
            raise NoReply("the answer is no operation")
        return answer

    async def _sent(self, asked: Request, method: str) -> Any:
        try:
            found = await self._connection.send(asked)
        except Lost as lost:
            raise NoReply(str(lost), timed_out=lost.timed_out) from None
        refusal = _refusal(found)
        if refusal is None:
            return found.message
        if refusal.fault is Fault.TRANSIENT:
            raise NoReply(f"no answer to {method}: {refusal.summary}", timed_out=False)
        raise MarketRefused(refusal)

    async def close(self) -> None:
        pass


def _refusal(found: Raw) -> Refusal | None:
    if isinstance(found.message, NebiusRefused):
        return _as_told(found.message)
    if found.message is not None or found.status in (200, 302):
        return None
    if found.status == 429:
        return _as_told(too_many_requests())
    statuses = {401: "UNAUTHENTICATED", 402: "PERMISSION_DENIED", 403: "PERMISSION_DENIED"}
    return Refusal(statuses.get(found.status, "UNAVAILABLE"), "the service does not answer")


def _as_told(refused: NebiusRefused) -> Refusal:
    """As the SDK makes it of the bytes that come beside the status."""
    return refusal_of(request_status_from_rpc_status(Status.FromString(refused.rich_status())))
