"""The API over TLS, from the same machine: a command, and the stream of events to many followers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import time
from pathlib import Path

import aiohttp
from commands import TICK_S, wall_s
from figures import Figure

from autopilot.blobs.place import API, MailboxPlace
from autopilot_lab.demo.theatre import Theatre
from tests.certificates import make_certificate

FOLLOWERS = 100
OF_A_TOKEN = 25
"""Calls at once; the listener lets one have 32."""
EVENTS = 300
REPEATS = 2
"""The daemon holds places for 256, and one who has left has his until the next sign of life."""
HERE = "127.0.0.1"
WITHIN_S = 120.0
JOB = 'name = "j"\nimage = "a/b:1"\nrun = "true"\n[resources]\ngpu = "RTX 4090:1"\n[budget]\ntotal = "$2"\n'


def measure(root: Path) -> list[Figure]:
    cert, key = make_certificate(root, HERE)
    settings = {
        "AUTOPILOT_HTTP__LISTEN": f"{HERE}:0",
        "AUTOPILOT_HTTP__CERT_FILE": str(cert),
        "AUTOPILOT_HTTP__KEY_FILE": str(key),
    }
    theatre = Theatre(root / "t", seed=1, speed=1.0, tick_s=TICK_S, settings=settings)
    try:
        theatre.start_market()
        theatre.start_daemon()
        made = theatre.client.post("/v1/tokens", {"name": "laptop", "scope": "admin"})
        url = f"https://{HERE}:{MailboxPlace(theatre.root / 'daemon').port(API)}"
        login = {"AUTOPILOT_URL": url, "AUTOPILOT_TOKEN": made["secret"], "AUTOPILOT_CA_FILE": str(cert)}
        ps_s = wall_s(["ps"], os.environ | login)
        pid = int(theatre.client.get("/v1/status")["pid"])
        names = [f"follower{number}" for number in range(-(-FOLLOWERS // OF_A_TOKEN))]
        others = [
            theatre.client.post("/v1/tokens", {"name": name, "scope": "read", "sees_all": True}) for name in names
        ]
        tokens = [each["secret"] for each in (made, *others)]
        rates, memory = asyncio.run(_follow(url, tokens, cert, pid))
        return [
            Figure("`autopilot ps` over TLS, by token, wall", ps_s, "s", target=0.6),
            Figure(f"events to {FOLLOWERS} followers over TLS, all of them together", rates, "per s"),
            Figure("… memory of the daemon meanwhile", memory[:1], "MB"),
            Figure("… memory of the listener meanwhile", memory[1:], "MB"),
        ]
    finally:
        theatre.stop()


async def _follow(url: str, tokens: list[str], cert: Path, pid: int) -> tuple[list[float], list[float]]:
    """(events a second, over all followers), and MB of daemon and listener."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(cert)), limit=0)
    headers = {"Authorization": f"Bearer {tokens[0]}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=WITHIN_S)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as http:
        await _make_events(http, url)
        rates: list[float] = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            following = (_take(http, url, tokens[1 + number // OF_A_TOKEN]) for number in range(FOLLOWERS))
            async with asyncio.timeout(WITHIN_S):
                taken = sum(await asyncio.gather(*following))
            rates.append(taken / (time.perf_counter() - began))
        return rates, [_rss_mb(pid), _rss_mb(_listener_of(pid))]


async def _make_events(http: aiohttp.ClientSession, url: str) -> None:
    """One job, whose budget is changed again and again."""
    async with http.post(f"{url}/v1/jobs", data=json.dumps({"toml": JOB, "min_probability": 0})) as answer:
        assert answer.status == 201, await answer.text()
    for number in range(EVENTS):
        body = {"budget": f"${number + 3}", "min_probability": 0}
        async with http.patch(f"{url}/v1/jobs/j", data=json.dumps(body)) as answer:
            assert answer.status == 200, await answer.text()


async def _take(http: aiohttp.ClientSession, url: str, token: str) -> int:
    """From the opening of a connection of its own to the last of so many events."""
    taken = 0
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "0", "Authorization": f"Bearer {token}"}
    async with http.get(f"{url}/v1/events", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            taken += line.startswith(b"data:")
            if taken == EVENTS:
                break
    return taken


def _rss_mb(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None, "Linux states VmRSS"
    return int(found[1]) * 1024 / 1e6


def _listener_of(daemon: int) -> int:
    for children in Path(f"/proc/{daemon}/task").glob("*/children"):
        for pid in map(int, children.read_text().split()):
            if b"autopilot.listener" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    raise AssertionError("the daemon has no listener")
