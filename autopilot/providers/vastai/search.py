"""Finds offers: one on-demand and one bid search per GPU wanted, remembered for as long as the row budget asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import structlog

from autopilot.domain.host import HostNeeds, driver_order
from autopilot.domain.money import ZERO
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.domain.places import PARTS
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers import values
from autopilot.providers.vastai import mapping, shapes, watched, wire
from autopilot.providers.vastai.budget import RowBudget
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from autopilot.providers.vastai.echoes import Echoes
from autopilot.providers.vastai.outcomes import SearchQuotaExceeded
from autopilot.providers.vastai.pacing import Family
from autopilot.providers.vastai.watched import WatchedFloors

SearchType = Literal["on-demand", "bid"]

FORGET_AFTER_S = 3600.0
"""A query that was not asked for in this time no longer counts in the row budget."""

NAMES_MAX_AGE_S = 86_400.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Found:
    on_demand: tuple[wire.OfferRow, ...]
    bid: tuple[wire.OfferRow, ...]
    rows: int
    seen_at: float
    asked_at: float
    made: _Made | None = None


@dataclass(frozen=True, slots=True)
class _Made:
    """Offers, and all that they were made of. Most ticks find the same rows: the same tuple says so at no cost."""

    shown: tuple[wire.OfferRow, ...]
    """By the on-demand search, GPUs that we hold included."""
    on_demand: tuple[wire.OfferRow, ...]
    bid: tuple[wire.OfferRow, ...]
    offers: tuple[Offer, ...]


class OfferSearch:
    def __init__(self, settings: VastaiSettings, client: VastaiClient, clock: Clock, echoes: Echoes) -> None:
        self._settings = settings
        self._client = client
        self._echoes = echoes
        self._clock = clock
        self._budget = RowBudget(settings.search_rows_per_day, clock.now())
        self._found: dict[OfferQuery, _Found] = {}
        self._watched = WatchedFloors(self._budget, clock, self._ask_floors)
        self._searching = asyncio.Lock()
        self._names: tuple[str, ...] = ()
        self._names_at: float | None = None

    def age_s(self, query: OfferQuery) -> float | None:
        """Market seconds since the offers of this query were seen; None when they are not known."""
        found = self._found.get(query)
        return None if found is None else self._clock.monotonic() - found.seen_at

    def drop(self, offer_id: str) -> None:
        """That offer proved to be gone; the others stay, for a search costs rows."""
        for held in self._found.values():
            held.on_demand = tuple(row for row in held.on_demand if row.offer_id != offer_id)
            held.bid = tuple(row for row in held.bid if row.offer_id != offer_id)

    def row(self, offer_id: str) -> wire.OfferRow | None:
        """What the market showed of that offer, as far as it is remembered."""
        rows = (row for held in self._found.values() for row in (*held.on_demand, *held.bid))
        return next((row for row in rows if row.offer_id == offer_id), None)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Without GPUs that we hold, and with floors that echo no bid of ours.

        Raises ``MarketUnknown``; RATE_LIMITED when the day's rows are used up.
        """
        if query.floors_only:
            async with self._searching:
                rows = await self._watched.rows(query)
            floors = mapping.offers((), self._echoes.remove(rows))
            return tuple(offer for offer in floors if self._fits(offer, query))
        if countries_of(query.host) == frozenset():
            return ()
        async with self._searching:
            now = self._clock.monotonic()
            self._found = {key: held for key, held in self._found.items() if now - held.asked_at < FORGET_AFTER_S}
            held = self._found.get(query)
            if held is None or now - held.seen_at >= self._max_age_s():
                self._found.pop(query, None)
                held = self._found[query] = await self._search(query)
            held.asked_at = self._clock.monotonic()
        shown, on_demand, bid = held.on_demand, self._remove(held.on_demand, held), self._remove(held.bid, held)
        made = held.made
        if made is None or (made.shown, made.on_demand, made.bid) != (shown, on_demand, bid):
            left = {row.offer_id for row in on_demand}
            found = mapping.offers(on_demand, bid, (row for row in shown if row.offer_id not in left))
            fitting = tuple(offer for offer in found if self._fits(offer, query))
            made = held.made = _Made(shown, on_demand, bid, fitting)
        return made.offers

    def _remove(self, rows: tuple[wire.OfferRow, ...], held: _Found) -> tuple[wire.OfferRow, ...]:
        return self._echoes.remove(rows, held.seen_at)

    async def gpu_names(self) -> tuple[str, ...]:
        """All that the market lists; they cost no rows. Raises ``MarketUnknown``."""
        now = self._clock.monotonic()
        if self._names_at is None or now - self._names_at >= NAMES_MAX_AGE_S:
            body = await self._client.read(Family.SEARCH, "/gpu_names/unique/", shapes.GPU_NAMES)
            raw = body.get("gpu_names")
            if not isinstance(raw, list):
                raise MarketUnknown("the answer holds no list of GPU names")
            self._names = tuple(filter(None, map(values.text, raw)))
            self._names_at = now
        return self._names

    def _max_age_s(self) -> float:
        rows = sum(held.rows for held in self._found.values())
        return max(self._settings.offers_max_age_s, self._budget.sustainable_age_s(rows, self._clock.now()))

    async def _search(self, query: OfferQuery) -> _Found:
        on_demand: list[wire.OfferRow] = []
        bid: list[wire.OfferRow] = []
        rows = 0
        searches: tuple[tuple[SearchType, list[wire.OfferRow]], ...] = (("on-demand", on_demand), ("bid", bid))
        for gpu, num_gpus in query.gpus:
            for search_type, into in searches:
                self._check_rows()
                body = search_body(query, gpu, num_gpus, search_type, self._settings)
                found, returned = await self._ask(body)
                into.extend(found)
                rows += returned
        now = self._clock.monotonic()
        return _Found(tuple(on_demand), _with_floors(bid), rows, seen_at=now, asked_at=now)

    async def _ask_floors(self, query: OfferQuery) -> tuple[wire.OfferRow, ...]:
        """A watched query is of one kind of GPU."""
        ((gpu, num_gpus),) = query.gpus
        body = search_body(query, gpu, num_gpus, "bid", self._settings) | {"limit": watched.ROWS}
        found, _ = await self._ask(body, watching=True)
        return _with_floors(found)

    def _check_rows(self) -> None:
        if not self._budget.allows(self._settings.search_limit, self._clock.now()):
            raise MarketUnknown("the search rows of this UTC day are used up", RefusalCode.RATE_LIMITED)

    async def _ask(self, body: dict[str, Any], *, watching: bool = False) -> tuple[tuple[wire.OfferRow, ...], int]:
        try:
            answer = await self._client.read(Family.SEARCH, "/bundles/", shapes.OFFERS, body=body)
        except SearchQuotaExceeded as error:
            self._budget.close_until(self._clock.now(), error.retry_after_s)
            raise
        raw = answer.get("offers")
        if not isinstance(raw, list):
            raise MarketUnknown("the search answer holds no list of offers")
        self._budget.spend(len(raw), self._clock.now(), watching=watching)
        found, skipped = wire.offer_rows(raw)
        if skipped:
            log.info("offers.skipped", skipped=skipped, read=len(found))
        return found, len(raw)

    def _fits(self, offer: Offer, query: OfferQuery) -> bool:
        """Checked here as well: the market's filters are not all binding. What a job asks of the machine itself is left
        to the policy, which counts what it removes.
        """
        return (
            (offer.gpu, offer.num_gpus) in query.gpus
            and offer.vram_gb >= query.min_vram_gb
            and offer.disk_gb >= query.disk_gb
            and offer.reliability >= self._settings.min_reliability
            and (offer.verified or not query.verified_only)
            and (offer.datacenter or not query.datacenter_only)
        )


def _with_floors(bid: Iterable[wire.OfferRow]) -> tuple[wire.OfferRow, ...]:
    """A bid search's price is the floor, also in a row that does not name it."""
    return tuple(replace(row, min_bid=row.min_bid or row.price) for row in bid)


def search_body(
    query: OfferQuery, gpu: str, num_gpus: int, search_type: SearchType, settings: VastaiSettings
) -> dict[str, Any]:
    """Every filter spelt out: what the SDK adds by itself differs between its ways of asking."""
    body: dict[str, Any] = {
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "external": {"eq": False},
        "gpu_name": {"eq": gpu},
        "num_gpus": {"eq": num_gpus},
        "disk_space": {"gte": values.plain(query.disk_gb)},
        "reliability": {"gte": values.plain(max(settings.min_reliability, query.host.reliability or ZERO))},
        "order": [["dph_total", "asc"]],
        "type": search_type,
        "limit": settings.search_limit,
        "allocated_storage": values.plain(query.disk_gb),
    }
    if query.min_vram_gb > 0:
        body["gpu_ram"] = {"gte": values.plain(query.min_vram_gb * wire.MEGABYTES_PER_GB)}
    if query.verified_only:
        body["verified"] = {"eq": True}
    if query.datacenter_only:
        body["datacenter"] = {"eq": True}
    return body | _host_filters(query.host)


def _host_filters(needs: HostNeeds) -> dict[str, Any]:
    """What the market can tell of the machine. Of memory it knows the whole machine's alone, of which an offer has a
    share: its least is asked for, and the share is looked at in what is found.
    """
    least = {
        "cuda_max_good": needs.cuda,
        "cpu_cores_effective": needs.cpus,
        "cpu_ram": None if needs.ram_gb is None else needs.ram_gb * wire.MEGABYTES_PER_GB,
        "disk_bw": needs.disk_mb_per_s,
        "inet_down": needs.download_mbps,
        "inet_up": needs.upload_mbps,
        "driver_version": _driver_number(needs.driver) if needs.driver else None,
    }
    body: dict[str, Any] = {name: {"gte": values.plain(value)} for name, value in least.items() if value is not None}
    if needs.arch is not None:
        body["cpu_arch"] = {"eq": needs.arch.value}
    countries = countries_of(needs)
    if countries is not None:
        body["geolocation"] = {"in": sorted(countries)}
    return body


def _driver_number(driver: str) -> Decimal:
    """``535.86.05`` as the market compares it: 535086005."""
    first, second, third = (*driver_order(driver), 0, 0)[:3]
    return Decimal(first * 1_000_000 + second * 1_000 + third)


def countries_of(needs: HostNeeds) -> frozenset[str] | None:
    """None: anywhere. Empty: nowhere, as for a region of another market; this one has countries alone."""
    named = frozenset(needs.countries)
    if not needs.regions:
        return named or None
    within = frozenset(code for part in needs.regions for code in PARTS.get(part, ()))
    return named & within if named else within
