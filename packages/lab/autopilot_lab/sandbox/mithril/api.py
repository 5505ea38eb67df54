"""Mithril's HTTP API, as far as its documents and its own client show it."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.mithril import rows, strangers
from autopilot_lab.sandbox.mithril.bids import Bid, BidOrder, BidStatus
from autopilot_lab.sandbox.mithril.injected_faults import LOST, UNHEARD, leave_unheard, lose, refusal
from autopilot_lab.sandbox.mithril.market import MithrilMarket, MithrilRefused
from autopilot_lab.sandbox.mithril.pools import AuctionPool
from autopilot_lab.sandbox.mithril.rows import Json
from autopilot_lab.sandbox.wire import Host, bearer_key

PROJECT = "proj_sandbox"
_LIMIT = re.compile(r"\$(\d{1,6})(\.\d{2})?")
MOST_PAGE_ROWS = 100
LISTED = tuple(map(str, BidStatus))
"""What a list may be asked for."""


@dataclass(frozen=True)
class Call:
    market: MithrilMarket
    request: web.Request
    body: Json
    fault: InjectedFault | None

    def has(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind

    def bid(self) -> Bid:
        """The bid that the path names. Raises ``MithrilRefused``."""
        return self.market.find(self.request.match_info["id"])


Endpoint = Callable[[Call], web.Response]


class MithrilApi:
    def __init__(
        self,
        market: MithrilMarket,
        host: Host,
        faults: Faults,
        requests: Counter[str],
        stopping: asyncio.Event,
        *,
        keys: tuple[str, ...],
        page_rows: int,
        list_lag_s: float,
    ) -> None:
        self._market = market
        self._host = host
        self._faults = faults
        self._requests = requests
        self._stopping = stopping
        self._keys = keys
        self._page_rows = page_rows
        self._list_lag_s = list_lag_s
        self._request_ids = itertools.count(1)

    def add_routes(self, app: web.Application) -> None:
        endpoints: tuple[tuple[str, str, str, Endpoint], ...] = (
            ("POST", "/v2/spot/bids", "create", _create),
            ("GET", "/v2/spot/bids", "list", self._list_bids),
            ("GET", "/v2/spot/bids/{id}", "show", _show_bid),
            ("PATCH", "/v2/spot/bids/{id}", "change", _change),
            ("DELETE", "/v2/spot/bids/{id}", "end", _end),
            ("GET", "/v2/instances", "instances", self._list_machines),
            ("GET", "/v2/instances/pricing/history", "bill", self._list_bill),
            ("GET", "/v2/instances/{id}/status", "instances", _show_machine),
            ("GET", "/v2/instance-types", "types", _list_types),
            ("GET", "/v2/spot/availability", "availability", _list_auctions),
            ("GET", "/v2/pricing/current", "price", _show_price),
            ("GET", "/v2/pricing/history", "history", _show_history),
            ("GET", "/v2/projects", "account", lambda call: web.json_response([{"fid": PROJECT, "name": "sandbox"}])),
            ("GET", "/v2/ssh-keys", "account", lambda call: web.json_response([{"fid": call.market.ssh_key}])),
            ("GET", "/v2/me", "account", lambda call: web.json_response({"fid": "user_sandbox"})),
        )
        for method, path, family, endpoint in endpoints:
            app.router.add_route(method, path, self._handler(family, endpoint))

    def _handler(self, family: str, endpoint: Endpoint) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._host.synchronise()
            self._requests[family] += 1
            fault = self._faults.draw(family)
            if fault is not None and fault.kind in LOST:
                return await lose(request, fault, self._stopping)
            if bearer_key(request) not in self._keys:
                return refusal(401, "Invalid or expired API key")
            if family == "price" and "request-pace" in self._market.broken:
                return refusal(429, "rate limit exceeded")
            response = await self._answer(endpoint, request, fault)
            response.headers["x-request-id"] = f"req-{next(self._request_ids):08d}"
            await self._host.settle()
            if fault is not None and fault.kind in UNHEARD and response.status < 400:
                return await leave_unheard(request, fault, self._stopping)
            return response

        return handle

    async def _answer(self, endpoint: Endpoint, request: web.Request, fault: InjectedFault | None) -> web.Response:
        try:
            return endpoint(Call(self._market, request, await _body(request), fault))
        except MithrilRefused as refused:
            return refusal(refused.status, refused.detail, refused.field)

    def _list_bids(self, call: Call) -> web.Response:
        query = call.request.query
        until = call.market.now - timedelta(seconds=call.fault.lag_s if call.fault and call.has("stale_list") else 0)
        if query.get("status", LISTED[0]) not in LISTED:
            raise MithrilRefused(422, "no such status", "status")
        shown = [_bid_row(call, bid) for bid in call.market.bids.values() if bid.created_at <= until]
        if call.market.ended_by_others is not None:
            shown = [*strangers.bids(call.market.ended_by_others), *shown]
        shown = [row for row in shown if all(query.get(name, row[name]) == row[name] for name in ("name", "status"))]
        if "list-shows-label" in call.market.broken:
            shown = [row | {"name": f"bid-{row['fid'][-4:]}"} for row in shown if row["fid"] in call.market.bids]
        return self._page(call, shown)

    def _list_machines(self, call: Call) -> web.Response:
        lag_s = call.fault.lag_s if call.fault and call.has("stale_list") else self._list_lag_s
        shown = rows.listed_machines(call.market, lag_s)
        if call.market.ended_by_others is not None:
            shown = [*strangers.machines(call.market.ended_by_others), *shown]
        return self._page(call, shown)

    def _list_bill(self, call: Call) -> web.Response:
        bid = call.market.find(call.request.query.get("bid_fid", ""))
        return self._page(call, rows.bill_rows(bid), "instances")

    def _page(self, call: Call, shown: list[Json], name: str = "data") -> web.Response:
        query = call.request.query
        if query.get("project") != PROJECT:
            raise MithrilRefused(403, "no such project, or none of yours")
        start, wish = query.get("next_cursor", "0"), query.get("limit", str(MOST_PAGE_ROWS))
        if not (start.isascii() and start.isdigit() and wish.isascii() and wish.isdigit() and int(wish)):
            raise MithrilRefused(422, "not a cursor, or no limit", "next_cursor")
        size = min(int(wish), self._page_rows, MOST_PAGE_ROWS)
        if call.has("repeated_cursor"):
            return web.json_response({name: shown[:1], "next_cursor": "1"})
        end = int(start) + size
        cursor = str(end) if end < len(shown) else None
        return web.json_response({name: shown[int(start) : end], "next_cursor": cursor})


def _create(call: Call) -> web.Response:
    body, launch = call.body, call.body.get("launch_specification")
    if not isinstance(launch, dict):
        raise MithrilRefused(422, "field required", "launch_specification")
    for name in ("project", "region", "instance_type", "name", "limit_price"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise MithrilRefused(422, "field required", name)
    if body["project"] != PROJECT:
        raise MithrilRefused(403, "no such project, or none of yours")
    quantity = body.get("instance_quantity")
    if not isinstance(quantity, int) or isinstance(quantity, bool) or quantity < 1:
        raise MithrilRefused(422, "must be at least 1", "instance_quantity")
    order = BidOrder(
        name=body["name"],
        project=body["project"],
        region=body["region"],
        type_id=body["instance_type"],
        limit=_limit(body["limit_price"]),
        quantity=quantity,
        ssh_keys=tuple(map(str, launch.get("ssh_keys") or ())),
        startup_script=str(launch.get("startup_script") or ""),
        volumes=tuple(map(str, launch.get("volumes") or ())),
    )
    key = call.request.headers.get("Idempotency-Key")
    bid = call.market.place(order, key)
    bid.is_defective = call.has("error_machine")
    if call.has("made_twice"):
        call.market.place(replace(order, name=f"{order.name}-again"), None)
    return web.json_response(_bid_row(call, bid), status=201)


def _bid_row(call: Call, bid: Bid) -> Json:
    return rows.bid_row(bid) | ({"region": None} if call.has("null_region") else {})


def _show_bid(call: Call) -> web.Response:
    theirs = strangers.find(call.request.match_info["id"]) if call.market.ended_by_others is not None else None
    return web.json_response(theirs or _bid_row(call, call.bid()))


def _change(call: Call) -> web.Response:
    bid, body = call.bid(), call.body
    if bid.is_over:
        raise MithrilRefused(400, "the bid has ended")
    if "limit_price" in body:
        limit = _limit(body["limit_price"])
        is_ignored = limit > bid.limit and "raise-taken" in call.market.broken
        if bid.status is BidStatus.PAUSED or not is_ignored:
            call.market.change_limit(bid, limit)
    elif isinstance(body.get("paused"), bool):
        if body["paused"]:
            call.market.pause(bid)
        else:
            call.market.resume(bid)
    else:
        raise MithrilRefused(422, "nothing to change", "limit_price")
    return web.json_response(_bid_row(call, bid))


def _end(call: Call) -> web.Response:
    bid = call.bid()
    if bid.is_over:
        raise MithrilRefused(404, "bid not found")
    call.market.end(bid)
    return web.Response(status=204)


def _show_machine(call: Call) -> web.Response:
    wanted = call.request.match_info["id"]
    for bid in call.market.bids.values():
        for machine in bid.machines:
            if machine.id == wanted:
                return web.json_response(rows.status_row(bid, machine))
    raise MithrilRefused(404, "instance not found")


def _list_types(call: Call) -> web.Response:
    kinds = {pool.spec.type.id: pool.spec.type for pool in call.market.pools.values()}
    return web.json_response([rows.type_row(kind) for kind in kinds.values()])


def _list_auctions(call: Call) -> web.Response:
    return web.json_response([rows.auction_row(pool) for pool in call.market.pools.values()])


def _show_price(call: Call) -> web.Response:
    if call.has("no_price"):
        raise MithrilRefused(404, "no current price")
    (pool, *_) = _pools(call, call.request.query.get("instance_type", ""))
    row = rows.price_row(call.market, pool, is_stale=call.has("stale_price"))
    return web.json_response(dict.fromkeys(row) if call.has("null_prices") else row)


def _show_history(call: Call) -> web.Response:
    query = call.request.query
    count = query.get("num_samples", "100")
    if count != "-1" and not (count.isascii() and count.isdigit() and 1 <= int(count) <= 1000):
        raise MithrilRefused(422, "1 to 1000", "num_samples")
    start, end = (_instant(query[name], name) if name in query else None for name in ("start_time", "end_time"))
    pools = [pool for name in query.get("instance_types", "").split(",") for pool in _pools(call, name)]
    if call.has("old_history"):
        return web.json_response(
            {"prices": [row for pool in pools for row in rows.old_history(pool, start, end, int(count))]}
        )
    return web.json_response(
        {"series": [rows.series_row(pool, start, end, int(count)) for pool in pools], "complete": True}
    )


def _pools(call: Call, type_id: str) -> list[AuctionPool]:
    """Raises ``MithrilRefused``."""
    region = call.request.query.get("region")
    shown = [
        pool
        for pool in call.market.pools.values()
        if pool.spec.type.id == type_id and region in (None, pool.spec.region)
    ]
    if not shown:
        raise MithrilRefused(404, "no current price")
    return shown


def _instant(text: str, name: str) -> datetime:
    try:
        shown = datetime.fromisoformat(text)
    except ValueError:
        raise MithrilRefused(422, "not a time", name) from None
    return shown if shown.tzinfo else shown.replace(tzinfo=UTC)


def _limit(text: object) -> Decimal:
    if not isinstance(text, str) or _LIMIT.fullmatch(text) is None:
        raise MithrilRefused(422, "write it as $2.50", "limit_price")
    return Decimal(text[1:])


async def _body(request: web.Request) -> Json:
    """The JSON object that was sent, ``{}`` for none. Raises ``MithrilRefused``."""
    raw = await request.read()
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise MithrilRefused(422, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise MithrilRefused(422, "the body is no object")
    return body
