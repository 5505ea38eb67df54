"""What our start text wrote into a container's log: asked for by one call, fetched from an address that it names."""

from __future__ import annotations

from urllib.parse import urlsplit

from autopilot.domain.start_faults import START_WORDS
from autopilot.ports.clock import Clock
from autopilot.providers import values
from autopilot.providers.reading import NoReply
from autopilot.providers.vastai import shapes
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.pacing import Family

MOST_POLLS = 8
POLL_S = 0.5
"""The vendor's own client asks every 0.3 s for 9 s."""
KEPT_AT = "s3.amazonaws.com"
"""Where the market keeps these logs."""


async def read_start_log(client: VastaiClient, clock: Clock, instance_id: str, base_url: str) -> str:
    """Its newest lines; empty: there are none, or they cannot be read now."""
    try:
        wish = {"tail": "20", "filter": START_WORDS.strip()}
        path = f"/instances/request_logs/{instance_id}/"
        answer = await client.change(Family.LOGS, "PUT", path, wish, shapes.LOG_ASKED)
        body = answer.body or {}
        url = values.text(body.get("result_url")) if answer.status == 200 and body.get("success") else ""
        if not _is_of_market(url, base_url):
            return ""
        for _ in range(MOST_POLLS):
            reply = await client.fetch(url)
            if reply.status == 200:
                return "\n".join(line for line in reply.text.splitlines() if line.startswith(START_WORDS))
            await clock.sleep(POLL_S)
    except NoReply:
        pass
    return ""


def _is_of_market(url: str, base_url: str) -> bool:
    """The address comes with an answer: no other place is asked for it."""
    try:
        asked, own = urlsplit(url), urlsplit(base_url)
    except ValueError:
        return False
    is_bucket = asked.scheme == "https" and asked.hostname == KEPT_AT and asked.port is None
    return is_bucket or (asked.scheme, asked.netloc) == (own.scheme, own.netloc)
