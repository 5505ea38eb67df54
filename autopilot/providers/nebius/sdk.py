"""The one module that opens the vendor's SDK: one try per call, our own keys and time limits, answers checked.

Left to itself the SDK sends a call up to three times at once, makes up keys, waits a quarter of an hour for a token,
and answers None if a body cannot be read.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nebius.aio.client import Client
from nebius.aio.operation import Operation as Pending
from nebius.aio.request_status import RequestStatus
from nebius.aio.service_error import RequestError
from nebius.aio.token.options import OPTION_MAX_RETRIES, OPTION_REPORT_ERROR
from nebius.api.nebius.common.v1 import GetOperationRequest, Operation, ServiceError
from nebius.base.options import INSECURE
from nebius.base.resolver import Constant
from nebius.base.service_account.service_account import ServiceAccount
from nebius.sdk import SDK

from autopilot import __version__
from autopilot.domain.errors import UserError
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.reply import MOST_ERRORS, ErrorDetail, Fault, MarketRefused, Refusal
from autopilot.providers.reading import NoReply

USER_AGENT = f"gpu-autopilot/{__version__}"
KEY_HEADER = "x-idempotency-key"
AUTH_OPTIONS = {OPTION_REPORT_ERROR: "true", OPTION_MAX_RETRIES: "1"}
"""A rejected key fails at once. Otherwise the SDK retries it past its caller's timeout."""
OVERTIME_S = 5.0
"""Real seconds that the SDK gets to end by itself what its own limit has ended."""

M = TypeVar("M")


class Sdk:
    """Nothing is opened before the first call. Every call raises ``NoReply`` and ``MarketRefused``."""

    def __init__(self, settings: NebiusSettings) -> None:
        self._settings = settings
        self._credentials = _credentials(settings)
        self._opened: SDK | None = None
        self._clients: dict[type[Client], Client] = {}

    async def read(self, service: type[Client], method: str, request: object, expected: type[M]) -> M:
        """The answer, of the kind that was expected."""
        answer = await self._send(self._client(service), method, request, None)
        if not isinstance(answer, expected):
            raise NoReply(f"the answer to {method} cannot be read")
        return answer

    async def change(self, service: type[Client], method: str, request: object, key: str) -> Operation:
        """``key``: the same one brings the same operation."""
        answer = await self._send(self._client(service), method, request, key)
        if not isinstance(answer, Pending):
            raise NoReply(f"the answer to {method} cannot be read")
        return _operation(answer.raw())

    async def operation(self, service: type[Client], operation_id: str) -> Operation:
        """As it is now. Each service keeps those that it made."""
        keeper = self._client(service).operation_service()  # type: ignore[attr-defined]
        answer = await self._send(keeper, "get", GetOperationRequest(id=operation_id), None)
        return _operation(answer.raw() if isinstance(answer, Pending) else answer)

    async def _send(self, client: Any, method: str, request: object, key: str | None) -> object:
        limit_s = self._settings.timeout_s
        try:
            async with asyncio.timeout(limit_s + OVERTIME_S):
                answer: object = await getattr(client, method)(
                    request,
                    metadata=[(KEY_HEADER, key)] if key is not None else None,
                    retries=1,
                    timeout=limit_s,
                    per_retry_timeout=limit_s,
                    auth_timeout=limit_s,
                    auth_options=AUTH_OPTIONS,
                )
                return answer
        except RequestError as error:
            refusal = refusal_of(error.status)
            if refusal.fault is not Fault.TRANSIENT:
                raise MarketRefused(refusal) from None
            timed_out = refusal.status == "DEADLINE_EXCEEDED"
            raise NoReply(f"no answer to {method}: {refusal.summary}", timed_out=timed_out) from None
        except Exception as error:
            # Anything at all may have happened after the request left, so that no kind of error means "not sent".
            timed_out = isinstance(error, TimeoutError)
            raise NoReply(f"no answer to {method}: {type(error).__name__}", timed_out=timed_out) from None

    def _client(self, service: type[Client]) -> Client:
        if service not in self._clients:
            self._clients[service] = service(self._open())
        return self._clients[service]

    def _open(self) -> SDK:
        if self._opened is None:
            address = urlsplit(self._settings.base_url)
            if address.scheme == "grpc":
                self._opened = SDK(
                    resolver=Constant(address.netloc),
                    options=[(INSECURE, True)],
                    credentials=self._credentials,
                    user_agent_prefix=USER_AGENT,
                )
            else:
                self._opened = SDK(
                    domain=f"{address.netloc}:443", credentials=self._credentials, user_agent_prefix=USER_AGENT
                )
        return self._opened

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        self._clients.clear()
        if opened is not None:
            await opened.close()


def refusal_of(status: RequestStatus) -> Refusal:
    errors = [each for each in getattr(status, "service_errors", ()) if isinstance(each, ServiceError)]
    return Refusal(status.code.name, status.message or "", tuple(_detail(each) for each in errors[:MOST_ERRORS]))


def failure_of(operation: Operation) -> Refusal | None:
    """Why it came to nothing. None: it has succeeded, or is under way."""
    status = operation.status
    return None if status is None or status.code.name == "OK" else refusal_of(status)


def _detail(error: ServiceError) -> ErrorDetail:
    details = error.details
    if details is None:
        return ErrorDetail("", error.code)
    kind, value = details.field, details.value
    texts = [getattr(value, "message", "") or getattr(value, "violation", "")]
    for violation in list(getattr(value, "violations", ()))[:MOST_ERRORS]:
        subject = next(
            (said for name in ("quota", "field", "resource_type") if (said := getattr(violation, name, ""))), ""
        )
        asked = f"{violation.requested} asked for" if getattr(violation, "requested", "") else ""
        limit = f"{violation.limit} allowed" if getattr(violation, "limit", "") else ""
        texts.append(" - ".join(part for part in (subject, violation.message, limit, asked) if part))
    limit = getattr(value, "limit", "")
    if limit:
        texts.append(f"the limit is {limit}")
    return ErrorDetail(kind, ", ".join(text for text in texts if text) or error.code, limit)


def _operation(answer: object) -> Operation:
    if not isinstance(answer, Operation):
        raise NoReply("the answer is no operation")
    return answer


def _credentials(settings: NebiusSettings) -> str | ServiceAccount:
    """Raises ``UserError``."""
    found = settings.credentials
    if found is None:
        return settings.api_key.get_secret_value()
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(found["private-key"].encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise UserError(
            "the private key in the credentials of Nebius is no RSA key",
            hint="make new credentials in the console, and store them with `autopilot init --nebius-key-file`",
        )
    return ServiceAccount(key, found["kid"], found["sub"])
