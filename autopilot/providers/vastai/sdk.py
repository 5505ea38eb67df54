"""The one module that imports the vendor's SDK; it is imported only when a connection is asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import requests
from vastai.api.client import VastClient, VastSession
from vastai.api.instances import build_create_instance_payload

from autopilot.providers import guarded_requests
from autopilot.providers.reading import NoReply, Reply
from autopilot.providers.reported_time import date_of


class OneShotClient(VastClient):  # type: ignore[misc]
    """The SDK's HTTP client, less what must not happen to a request that spends money.

    The SDK can be told not to repeat a request (``retry=1``), but not to leave redirects alone: a redirected PUT
    is sent again without its body, and a create without a body rents on demand.
    """

    def _request(
        self, method: str, url: str, headers: dict[str, str], json_data: object = None, timeout: float | None = None
    ) -> requests.Response:
        session = VastSession(self.server_url)
        request = session.prepare_request(requests.Request(method, url, headers=headers, json=json_data))
        return guarded_requests.send(session, request, timeout or self.timeout)


class Sdk:
    """Blocking; safe to call from several threads."""

    def __init__(self, api_key: str, base_url: str, timeout_s: float) -> None:
        _quieten_logger()
        self._key = api_key
        self._client = OneShotClient(api_key=api_key, server_url=base_url, retry=1, timeout=timeout_s)

    def send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None
    ) -> Reply:
        """One attempt. Raises ``NoReply`` when no complete answer came."""
        call = getattr(self._client, method.lower())
        try:
            response = call(path, query_args=dict(query or {}), json_data=None if body is None else dict(body))
            text = response.content.decode("utf-8", "replace")
        except guarded_requests.BodyTooLarge as error:
            raise NoReply(str(error)) from None
        except Exception as error:
            # Anything at all may have happened after the request left, so that no kind of error means "not sent".
            timed_out = isinstance(error, requests.Timeout)
            raise NoReply(f"no answer to {method} {path}: {type(error).__name__}", timed_out=timed_out) from None
        headers = response.headers
        return Reply(
            response.status_code, text.replace(self._key, "[key]"), headers.get("Retry-After"), date_of(headers)
        )

    def fetch(self, url: str) -> Reply:
        """One attempt, without the key. Raises ``NoReply``."""
        try:
            # Prepared apart from any session, which would add a login of this computer's netrc.
            request = requests.Request("GET", url).prepare()
            response = guarded_requests.send(requests.Session(), request, self._client.timeout)
        except requests.RequestException as error:
            # The address may hold a signature, so no message has it.
            raise NoReply(f"no answer from where the log lies: {type(error).__name__}") from None
        return Reply(response.status_code, response.content.decode("utf-8", "replace"), None, None)


def create_body(**fields: Any) -> dict[str, Any]:
    """The body of a create request as this version of the SDK builds it."""
    body: dict[str, Any] = build_create_instance_payload(**fields)
    return body


def _quieten_logger() -> None:
    """The SDK writes to stderr by itself; its records belong to the configured logging."""
    logger = logging.getLogger("vastai")
    logger.handlers.clear()
    logger.propagate = True
