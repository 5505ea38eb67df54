"""What the contract suite needs to know of a market, and to be able to do to it, besides what a ``Provider`` offers."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Protocol, TypeVar

from autopilot.clock import ManualClock
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.service.leadership import FencedProvider
from autopilot_lab.memory_store.store import MemoryStore

STRANGERS = "colleague-"
"""Prefix of the names of others' machines, which the emulated lists contain in every test."""


class QuickClock(ManualClock):
    """A sleep advances the time, so pacing costs no real time."""

    async def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, 0))
        await asyncio.sleep(0)


class Harness(Protocol):
    """One market with money on the account and nothing rented, for one test."""

    provider: Provider
    query: OfferQuery
    """Finds at least two machines."""
    capacity_type: CapacityType
    """How the suite rents: a market with both kinds gets a harness for each."""
    image: str
    onstart: str
    has_wire: bool
    """False if no request leaves this process, so that no answer can be lost or garbled."""

    async def make_offer_available(self) -> Offer:
        """An offer that a create takes now, of a machine that was not returned before."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let market time pass."""
        ...

    async def outbid(self, instance_id: str) -> Decimal:
        """Raise the price of that machine above our bid; returns a bid ($/h) that wins it back."""
        ...

    def lost_create_answers(self) -> AbstractAsyncContextManager[None]:
        """Inside, a create takes effect and its answer is lost."""
        ...

    def garbled_lists(self) -> AbstractAsyncContextManager[None]:
        """Inside, the list of instances cannot be read."""
        ...

    async def billed(self, instance_id: str) -> Decimal:
        """What the instance has cost by the market's own books, as it bills it."""
        ...

    def connect(self) -> Provider:
        """Another connection to the same market and account, as after a restart; the caller closes it."""
        ...


H = TypeVar("H", bound=Harness)


def fenced(harness: H) -> H:
    """The same market behind the fence that a daemon with a shared ledger puts around each of its providers."""
    harness.provider = FencedProvider(harness.provider, MemoryStore(), hold_creates_real_s=0)
    return harness
