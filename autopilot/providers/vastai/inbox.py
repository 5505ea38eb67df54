"""What the market's notices say of outbids: that there was one, when, and the bid that has won.

The inbox is not documented and therefore optional. What cannot be read there is not known, and nothing else depends on
it. Source: notices that renters have published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import structlog

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers.drift.comparison import MOST_ROWS
from autopilot.providers.vastai import shapes, wire
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.pacing import Family

log = structlog.get_logger(__name__)

READ_EVERY_S = 15.0
READ_WAIT_REAL_S = 10.0
"""The list of machines must not wait longer for it."""
NOTICE_LASTS = timedelta(hours=1)
MOST_NOTICES = 1000
STEP = Decimal("0.001")
"""$/h. A bid that equals the winning one may lose: so much more is bid. Source: assumed."""


class Outbid(NamedTuple):
    price_to_win: Decimal
    """$/h: the least bid above the one that won."""
    at: datetime


class Inbox:
    def __init__(self, client: VastaiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._read_at_s: float | None = None
        self._known: Mapping[str, Outbid] = {}

    async def outbids(self, *, is_anybody_out: bool) -> Mapping[str, Outbid]:
        """By instance, the newest. Asks only while a spot machine is stopped."""
        now_s = self._clock.monotonic()
        if not is_anybody_out:
            self._read_at_s, self._known = None, {}
        elif self._read_at_s is None or now_s - self._read_at_s >= READ_EVERY_S:
            self._read_at_s = now_s
            await self._read()
        return self._known

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(READ_WAIT_REAL_S):
                body = await self._client.read(Family.INBOX, "/notifications/inbox/", shapes.INBOX, tries=1)
        except (MarketUnknown, TimeoutError) as problem:
            log.debug("inbox.unreadable", reason=str(problem))
            return
        raw = body.get("notifications")
        rows = raw[:MOST_NOTICES] if isinstance(raw, list) else []
        for row in rows[:MOST_ROWS]:
            self._client.drift.look(shapes.OUTBID_NOTICE if wire.is_outbid(row) else shapes.NOTICE, row)
        notices = [wire.outbid_notice(row) for row in rows]
        oldest = self._clock.now() - NOTICE_LASTS
        fresh = sorted((notice for notice in notices if notice and notice.at >= oldest), key=lambda notice: notice.at)
        self._known = {notice.instance_id: Outbid(notice.winning_bid + STEP, notice.at) for notice in fresh}
