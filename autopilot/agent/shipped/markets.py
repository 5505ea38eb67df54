"""How a machine gives itself back: requests to its market, with the key that the market gave to it alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .log import Log
from .surroundings import ENV_FILE, WISH, write_wish
from .web import MAX_OBJECT_BYTES, WHOLE_TIMEOUT_S, BadStatus, Web

MARKET_KEYS = ("CONTAINER_API_KEY", "RUNPOD_API_KEY")
WITHHELD = (*MARKET_KEYS, ENV_FILE, WISH)
"""Variables that are not the job's."""
OF_MACHINES = ("CONTAINER_", "RUNPOD_", "VAST_", "NEBIUS_", "MITHRIL_")
"""How variables begin by which a market's machine is known, and by which it may be ended."""
PUBLIC_PORT = 70022
"""Above the last port that there is: both markets then give one that is the same inside and outside, and name it."""


def vastai(env: Mapping[str, str]) -> list[tuple[str, str, str, dict[str, Any] | None]]:
    """Requests (method, URL, key, body), any of which will do, that destroy this machine."""
    base = env.get("AUTOPILOT_PROVIDER_URL") or "https://console.vast.ai"
    url, key = f"{base.rstrip('/')}/api/v0/instances/{env['CONTAINER_ID']}/", env["CONTAINER_API_KEY"]
    return [("DELETE", url, key, {})]


def runpod(env: Mapping[str, str]) -> list[tuple[str, str, str, dict[str, Any] | None]]:
    """As ``vastai``. Which of the two interfaces takes a pod's own key differs from place to place."""
    base = (env.get("AUTOPILOT_PROVIDER_URL") or "https://api.runpod.io").rstrip("/")
    pod, key = env["RUNPOD_POD_ID"], env["RUNPOD_API_KEY"]
    query = f"mutation {{ podTerminate(input: {{podId: {json.dumps(pod)}}}) }}"
    return [("DELETE", f"{base}/v2/pods/{pod}", key, None), ("POST", base + "/graphql", key, {"query": query})]


def market_of(env: Mapping[str, str]) -> Callable[..., Any] | None:
    """The one of the two above whose machine this is: it put an id and a key into the environment."""
    if env.get("RUNPOD_POD_ID") and env.get("RUNPOD_API_KEY"):
        return runpod
    return vastai if env.get("CONTAINER_ID") and env.get("CONTAINER_API_KEY") else None


def instance_id(env: Mapping[str, str]) -> str:
    """What this machine's market calls it; empty if it does not say."""
    return env.get("RUNPOD_POD_ID") or env.get("CONTAINER_ID") or ""


def public_address(env: Mapping[str, str]) -> tuple[str, int] | None:
    """(address, port) under which this machine can be reached, as its market says; None: under none."""
    for host_name, port_name in (("RUNPOD_PUBLIC_IP", "RUNPOD_TCP_PORT"), ("PUBLIC_IPADDR", "VAST_TCP_PORT")):
        host, port = env.get(host_name, "").strip(), env.get(f"{port_name}_{PUBLIC_PORT}", "").strip()
        if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return host, int(port)
    return None


def ask_market(env: Mapping[str, str], web: Web, log: Log) -> None:
    """Ask it to destroy this machine, in each way until one says yes. Raises ``OSError``, ``ValueError``."""
    market = market_of(env)
    if market is None and write_wish(env, "destroy"):  # the host acts: a virtual machine has no key in its container
        return
    if market is None:
        raise OSError("no machine id with its key")
    *others, last = market(env)
    for request in others:
        try:
            return ask(web, *request)
        except (OSError, ValueError) as error:
            log.trouble(f"destroy by {request[0]}", str(error))
    try:
        ask(web, *last)
    except BadStatus as error:
        if error.status != 404 or last[0] != "DELETE":
            raise


def ask(web: Web, method: str, url: str, key: str, body: dict[str, Any] | None) -> None:
    """Raises ``OSError``, ``ValueError`` unless the market says yes, in its own way: ``success`` or no ``errors``."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json", "User-Agent": "autopilot-agent"}
    body_of = None if data is None else lambda: data
    with web.answer(method, url, body_of, headers, WHOLE_TIMEOUT_S) as response:
        answer = json.loads(response.read(MAX_OBJECT_BYTES) or b"{}")
    said_no = not isinstance(answer, dict) or answer.get("errors")
    if said_no or answer.get("success", "/api/v0/" not in url) is not True:
        raise OSError(f"the market answered {str(answer)[:200]}")
