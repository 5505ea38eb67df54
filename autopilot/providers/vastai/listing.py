"""Reads of many pages that count only when they are complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any, TypeVar

from autopilot.domain.time import start_of_day
from autopilot.ports.provider import MarketUnknown
from autopilot.providers import values
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.strangers import each_once
from autopilot.providers.vastai import shapes, wire
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.pacing import Family

T = TypeVar("T")

INSTANCES_PER_PAGE = 25
CHARGES_PER_PAGE = 100
MOST_PAGES = 400


async def instance_rows(client: VastaiClient) -> tuple[wire.InstanceRow, ...]:
    """Every instance of the account. Raises ``MarketUnknown`` when the list cannot be shown to be complete."""
    query = {"select_filters": {}, "order_by": [{"col": "id", "dir": "asc"}], "limit": INSTANCES_PER_PAGE}
    keys = "instances", "total_instances"
    raw = await _all_pages(client, Family.LIST, "/api/v1/instances/", shapes.INSTANCE_PAGE, query, *keys)
    rows = (_read_plausible(wire.listed_instance, row) for row in raw)
    return tuple(each_once(rows, lambda row: row.instance_id, lambda row: row.label))


async def charge_rows(client: VastaiClient, since: date, until: date) -> tuple[wire.ChargeRow, ...]:
    """The instance charges of the UTC days ``since``..``until``. Raises ``MarketUnknown``."""
    query = {
        "select_filters": {
            "day": {"gte": _epoch_s(since), "lte": _epoch_s(until + timedelta(days=1)) - 1},
            "type": {"in": ["instance"]},
        },
        "latest_first": True,
        "limit": CHARGES_PER_PAGE,
        "format": "table",
    }
    raw = await _all_pages(client, Family.CHARGES, "/charges/", shapes.CHARGE_PAGE, query, "results", "total")
    rows = (_read_plausible(wire.charge_row, row) for row in raw)
    return tuple(row for row in rows if row is not None)


def _epoch_s(day: date) -> int:
    return int(start_of_day(day).timestamp())


def _read_plausible(read: Callable[[object], T], raw: object) -> T:
    try:
        return read(raw)
    except wire.UnreadableRow as error:
        raise MarketUnknown(str(error)) from error


async def _all_pages(
    client: VastaiClient,
    family: Family,
    path: str,
    shape: AnswerShape,
    query: Mapping[str, Any],
    rows_key: str,
    total_key: str,
) -> list[Any]:
    """Follows the tokens to the end; each page states the same total, and it is what came."""
    gathered: list[Any] = []
    totals: set[int | None] = set()
    token: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        asked = dict(query) if token is None else {**query, "after_token": token}
        page = await client.read(family, path, shape, query=asked)
        rows = page.get(rows_key)
        if not isinstance(rows, list):
            raise MarketUnknown(f"a page holds no {rows_key}")
        gathered += rows
        totals.add(values.integer(page.get(total_key)))
        following = page.get("next_token")
        if not following:
            break
        if not isinstance(following, str) or following in seen:
            raise MarketUnknown("the pages run in a circle")
        seen.add(following)
        token = following
    if totals != {len(gathered)}:
        raise MarketUnknown(f"the list is incomplete: {len(gathered)} {rows_key} of {sorted(map(str, totals))}")
    return gathered
