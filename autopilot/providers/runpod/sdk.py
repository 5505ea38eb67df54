"""The one module that imports the vendor's SDK, at its first use and in the thread that uses it.

The SDK takes its base URL from an environment variable and its key from a module variable, so both are process-wide:
they are set around each call, one call at a time. Its values go into GraphQL unescaped: only ids that were checked may.
It sends by ``requests.post``, which bounds neither the time nor the size of an answer and follows redirects; since one
answer that never ends would keep every later call waiting, the SDK is given a ``post`` that does not.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from autopilot.providers import values
from autopilot.providers.reading import NoReply
from autopilot.providers.runpod.reply import Fault, fault_in_text

BASE_URL_VARIABLE = "RUNPOD_API_BASE_URL"
LONGEST_WAIT_S = 30.0
"""Shorter than any caller waits: no call starts after its caller has given up."""

TIMEOUTS = ("TimeIsOver", "ReadTimeout", "ConnectTimeout", "Timeout")

_PROCESS_WIDE = threading.Lock()
_TURNED_DOWN = (None, "urllib3", "paramiko", "uvicorn")
"""Loggers whose level the SDK sets when it is imported; None is the root."""


class SdkRefused(Exception):
    """The market answered with an error; the SDK keeps the text of the first one only."""

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault


class Sdk:
    """Blocking; safe to call from several threads. Every method raises ``SdkRefused`` and ``NoReply``."""

    def __init__(
        self, api_key: str, base_url: str, timeout_s: float = 30, headers: Mapping[str, str] | None = None
    ) -> None:
        """``timeout_s``: real seconds for one exchange with the market; the SDK's own 30 are the most.

        ``headers`` go with every call beside the SDK's own.
        """
        self._key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._headers = dict(headers or {})

    def gpu_types(self) -> Any:
        """All GPU types that the market knows, rentable or not: id, displayName, memoryInGb."""
        found = self._call(lambda sdk: sdk.get_gpus(api_key=self._key))
        return values.decode(json.dumps(found))

    def stop(self, pod_id: str) -> bool:
        """True if the market says that the pod has stopped."""
        answer = self._call(lambda sdk: sdk.stop_pod(pod_id))
        return values.mapping(answer).get("desiredStatus") == "EXITED"

    def terminate(self, pod_id: str) -> None:
        """That nothing is raised proves nothing: the SDK also returns when the market answered 410 or 429."""
        self._call(lambda sdk: sdk.terminate_pod(pod_id))

    def _call(self, use: Callable[[Any], Any]) -> Any:
        if not _PROCESS_WIDE.acquire(timeout=LONGEST_WAIT_S):
            raise NoReply("the SDK is busy")
        before = os.environ.get(BASE_URL_VARIABLE)
        try:
            sdk = _import()
            os.environ[BASE_URL_VARIABLE] = self._base_url
            sdk.api_key = self._key
            vars(importlib.import_module("runpod.api.graphql"))["requests"] = _Requests(self._timeout_s, self._headers)
            return use(sdk)
        except Exception as error:
            raise self._understood(error) from None
        finally:
            if before is None:
                os.environ.pop(BASE_URL_VARIABLE, None)
            else:
                os.environ[BASE_URL_VARIABLE] = before
            _PROCESS_WIDE.release()

    def _understood(self, error: Exception) -> SdkRefused | NoReply:
        """Told apart by name: the classes are the SDK's own. Anything else may have happened after it was sent."""
        kind = type(error).__name__
        message = values.text(_words(error)).replace(self._key, "[key]")[:200]
        if kind == "AuthenticationError":
            return SdkRefused(message, Fault.NO_RIGHTS)
        if kind == "QueryError":
            return SdkRefused(message, fault_in_text(message) or Fault.OTHER)
        return NoReply(f"no answer that the SDK can read: {kind}", timed_out=kind in TIMEOUTS)


def _words(error: Exception) -> str:
    """The SDK passes on the market's message unchecked; one that is no text cannot be shown."""
    try:
        return str(error)
    except TypeError:
        return ""


def _import() -> Any:
    """The SDK, whose import sets up an unconfigured root logger and turns others down: that is undone."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in _TURNED_DOWN}
    sdk = importlib.import_module("runpod")
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    return sdk


class _Requests:
    """What the SDK's one way to the market needs of ``requests``."""

    def __init__(self, timeout_s: float, headers: Mapping[str, str]) -> None:
        self._timeout_s = timeout_s
        self._headers = headers

    def post(self, url: str, *, headers: dict[str, str], data: str, timeout: float) -> Any:
        # Imported late: this comes with the SDK, which is an extra.
        import requests

        from autopilot.providers import guarded_requests

        session = requests.Session()
        request = session.prepare_request(
            requests.Request("POST", url, headers={**headers, **self._headers}, data=data)
        )
        return guarded_requests.send(session, request, min(timeout, self._timeout_s))
