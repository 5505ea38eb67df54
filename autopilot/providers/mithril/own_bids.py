"""Our own bids in each pool: they are no competition, though the market's prices show them as such.

When we hold the last machine of a pool, its lowest winning limit is our own; when a bid of ours loses, the price that
all pay may be its limit. A policy that takes these for rivals bids against itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.labels import LABEL_PREFIX
from autopilot.domain.money import CENT
from autopilot.ports.clock import Clock
from autopilot.providers.mithril.wire import BidRow

SHOWN_FOR_S = 300.0
"""Prices may be so old when they are used: two rounds of the auction, and the time that they are kept."""
_COMPETES = frozenset({"Open", "Preempting"})
_OUT = frozenset({"Paused", "Terminated", "Replaced"})

Pool = tuple[str, str]
"""(region, kind of machine)"""


@dataclass(frozen=True, slots=True)
class Own:
    """Ours in one pool."""

    limits: frozenset[Decimal] = frozenset()
    """$/h of one machine: of all that are in the auction, and of those that lately were."""
    waiting: int = 0
    """Bids that compete for a machine, or have won one so lately that prices may not show it."""

    def is_echoed_by(self, limit: Decimal) -> bool:
        return limit in self.limits or limit - CENT in self.limits


class OwnBids:
    """As the newest list showed them, and as changes since have made them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bids: dict[str, BidRow] = {}
        self._won_at: dict[str, float] = {}
        self._past: dict[tuple[Pool, Decimal], float] = {}
        """Limits that hold no more, and until when a price may show them."""

    def observe(self, bids: Iterable[BidRow]) -> None:
        """The whole of a list."""
        ours = {bid.bid_id: bid for bid in bids if _is_in_the_auction(bid)}
        for bid_id in self._bids.keys() - ours.keys():
            self.forget(bid_id)
        for bid in ours.values():
            self.note(bid)

    def note(self, bid: BidRow) -> None:
        """One that was made, changed or read by itself."""
        if not _is_in_the_auction(bid):
            self.forget(bid.bid_id)
            return
        before = self._bids.get(bid.bid_id)
        if before is not None and before.limit != bid.limit:
            self._remember(before)
        if bid.status == "Allocated" and (before is None or before.status != "Allocated"):
            self._won_at[bid.bid_id] = self._clock.monotonic()
        self._bids[bid.bid_id] = bid

    def forget(self, bid_id: str) -> None:
        """One that is over, or out of the auction."""
        bid = self._bids.pop(bid_id, None)
        self._won_at.pop(bid_id, None)
        if bid is not None:
            self._remember(bid)

    def pool_of(self, bid_id: str) -> Pool | None:
        bid = self._bids.get(bid_id)
        return None if bid is None or not bid.region else _pool(bid)

    def of(self, region: str, type_id: str) -> Own:
        """As a new bid finds them."""
        there = self._in((region, type_id))
        return self._own((region, type_id), there, there)

    def beside(self, bid: BidRow) -> Own:
        """As a bid of ours finds the others. Of those that wait the oldest goes first: no two are raised against each
        other.
        """
        others = [each for each in self._in(_pool(bid)) if each.bid_id != bid.bid_id]
        return self._own(_pool(bid), others, [each for each in others if each.status != "Open" or each.name < bid.name])

    def _in(self, pool: Pool) -> list[BidRow]:
        """Includes bids whose region is unknown: they may be there."""
        region, type_id = pool
        return [bid for bid in self._bids.values() if bid.type_id == type_id and bid.region in ("", region)]

    def _own(self, pool: Pool, there: Iterable[BidRow], ahead: Iterable[BidRow]) -> Own:
        now = self._clock.monotonic()
        self._past = {key: until for key, until in self._past.items() if now < until}
        past = {limit for where, limit in self._past if where == pool}
        waiting = sum(bid.status in _COMPETES or self._has_just_won(bid, now) for bid in ahead)
        return Own(frozenset({bid.limit for bid in there} | past), waiting)

    def _has_just_won(self, bid: BidRow, now: float) -> bool:
        return now - self._won_at.get(bid.bid_id, -SHOWN_FOR_S) < SHOWN_FOR_S

    def _remember(self, bid: BidRow) -> None:
        self._past[_pool(bid), bid.limit] = self._clock.monotonic() + SHOWN_FOR_S


def _is_in_the_auction(bid: BidRow) -> bool:
    return bid.name.startswith(LABEL_PREFIX) and bid.status not in _OUT


def _pool(bid: BidRow) -> Pool:
    return bid.region, bid.type_id
