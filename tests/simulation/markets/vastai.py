"""vast.ai's side of the wire: raw requests in, statuses and bodies out, as the market's own documents show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.providers.vastai.start_log import KEPT_AT
from autopilot_lab.sandbox.host_traits import NO_NETWORK_WORDS
from autopilot_lab.sandbox.vastai.hosts import tell_host
from autopilot_lab.sandbox.vastai.offers import meets
from tests.simulation.ground import recorded
from tests.simulation.ground.books import dollars
from tests.simulation.ground.machines import Box, Host, State
from tests.simulation.ground.wire import NOT_A_LIST, Json, Needs, Raw, Request, Snapshots, drift, raw
from tests.simulation.markets.market import REUSED_AFTER_S, SimulatedMarket
from tests.simulation.virtual.clock import at

PAGE = 25
FIRST_OFFER = 9
"""Millions, in the id of the offer of a host's first GPU."""
DRIFTING = ("id", "is_bid", "dph_base", "actual_status", "label")
NEEDS = Needs("label", ("id", "label"), ("is_bid", "dph_base"), texts=("label",), nulls=("label",))
_DRIFTING_OFFERS = ("id", "min_bid", "dph_base", "machine_id", "storage_cost", "gpu_ram")
_READS = {
    "/bundles/": "offers",
    "/users/current": "account",
    "/charges/": "charges",
    "/notifications/inbox/": "inbox",
    "/gpu_names/unique/": "names",
}
_LOGS = f"https://{KEPT_AT}/logs/"
_ID = re.compile(r"/(\d+)/$")
_NO_INSTANCE = {"success": False, "error": "no_such_instance", "msg": "Instance with that ID does not exist."}
_NO_CREDIT = {"success": False, "error": "insufficient_credit", "msg": "Your account lacks credit."}
_GONE = {"success": False, "error": "no_such_ask", "msg": "error 410/3907: no_such_ask is no longer available."}


def request(method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Request:
    found = _ID.search(path)
    id_ = found[1] if found else ""
    if path.startswith("/asks/"):
        kind = "create"
    elif path == "/api/v1/instances/":
        kind = "list"
    elif path.startswith("/instances/request_logs/"):
        kind = "logs"
    elif path.startswith(_LOGS):
        kind = "log"
    elif path.startswith("/instances/bid_price/"):
        kind = "bid"
    elif path.startswith("/instances/"):
        changes = {"DELETE": "destroy", "GET": "show"}
        kind = changes.get(method) or ("start" if (body or {}).get("state") == "running" else "stop")
    else:
        kind = _READS[path]
    return Request(kind, method, path, query or {}, body, id_)


class Vastai:
    """Answers for one market."""

    def __init__(self, market: SimulatedMarket) -> None:
        self.market = market
        self.ground = market.ground
        self._snapshots = Snapshots()

    def answer(self, asked: Request) -> Raw:
        """The request takes effect here."""
        found: Raw = getattr(self, f"_{asked.kind}")(asked)
        return found

    # --- reads

    def _logs(self, asked: Request) -> Raw:
        """Where the log can be fetched. Only the start text writes one, where it reaches nothing."""
        box = self.market.boxes.get(asked.box_id)
        if box is None or not box.tries_s(self.ground.now_s):
            return Raw(404, '{"error": "invalid_id", "msg": "Invalid instance id."}')
        return raw(200, {"success": True, "result_url": f"{_LOGS}{box.id}/", "msg": "Logs requested"})

    def _log(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        tries = [] if box is None else box.tries_s(self.ground.now_s)
        return Raw(200, f"{NO_NETWORK_WORDS}\n" * len(tries))

    def _list(self, asked: Request) -> Raw:
        faults, rng = self.ground.faults, self.market.rng
        rows = [self.row(box) for box in self.market.visible()]
        self._snapshots.keep(self.ground.now_s, rows)
        if faults.hits("B1"):
            self.ground.spoil(self.market.provider, asked.page)
            return Raw(200, rng.choice(NOT_A_LIST))
        if faults.hits("B3"):
            rows = self._snapshots.one(faults.rng("B3"))
        first = int(asked.query.get("after_token", 0))
        page, more = rows[first : first + PAGE], len(rows) > first + PAGE
        if page and faults.hits("B6"):
            changed = drift(page[0], faults.rng("B6"), DRIFTING)
            if not NEEDS.are_met(changed, page[0]):
                self.ground.spoil(self.market.provider, asked.page)
            page = [changed, *page[1:]]
        body = {
            "success": True,
            "instances": page,
            "instances_found": len(page),
            "total_instances": len(rows),
            "label_counts": {},
            "next_token": None,
        }
        if more:
            body["next_token"] = str(first + PAGE)
        if page and faults.hits("B4"):
            is_cut = faults.rng("B4").random() < 0.5
            if is_cut:
                body["instances"] = page[:-1]
            else:
                body["next_token"] = str(first or PAGE)
            if is_cut or first:  # else there is but an empty page more
                self.ground.spoil(self.market.provider, asked.page)
        return raw(200, body)

    def _show(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            lately = self.market.past.get(asked.box_id)
            if lately is None or self.ground.now_s - lately.gone_s > 60 or not self.ground.faults.hits("B5"):
                return raw(404, _NO_INSTANCE) if self.market.rng.random() < 0.5 else raw(200, {"instances": None})
            return raw(200, {"instances": self.row(lately)})
        row = self.row(box)
        if self.ground.faults.hits("B5"):
            row["actual_status"] = self.ground.faults.rng("B5").choice(("loading", "exited", "offline", None))
        return raw(200, {"instances": row})

    def _inbox(self, asked: Request) -> Raw:
        """Of each spot machine that is stopped: the floor that it lost to."""
        rows = [
            {
                **recorded.NOTICE,
                "created_at": at(self.ground.now_s).timestamp(),
                "associated_id": {
                    **recorded.NOTICE["associated_id"],
                    "instance_id": int(box.id),
                    "new_min_bid": float(box.host.to_win),
                },
            }
            for box in self.market.visible()
            if self._is_told_outbid(box)
        ]
        return raw(200, {"success": True, "notifications": rows})

    def _is_told_outbid(self, box: Box) -> bool:
        """What its user, or an empty account, has stopped was not outbid."""
        is_out = box.is_spot and box.state is State.STOPPED and box.wanted and not self.market.is_dry
        return is_out and box.host.is_rival_told and box.rate < box.host.to_win

    def row(self, box: Box) -> Json:
        stopped = box.state is State.STOPPED
        truly = {State.LOADING: "loading", State.RUNNING: "running", State.STOPPED: "exited", State.OFFLINE: "offline"}
        actual: str | None = truly[box.state]
        if box.words and box.state is State.LOADING:
            actual = "created"
        if box.shown is not None:
            actual = None if box.shown == "null" else box.shown
        return {
            **recorded.INSTANCE,
            "id": int(box.id),
            "label": box.label,
            "machine_id": int(box.host.machine_id),
            "host_id": int(box.host.host_id),
            "is_bid": box.is_spot,
            "dph_base": float(box.rate),
            "storage_total_cost": float(box.storage_rate),
            "instance": {**recorded.INSTANCE["instance"], "diskHour": float(box.storage_rate)},
            "gpu_name": box.host.gpu,
            "num_gpus": 1,
            "actual_status": actual,
            "intended_status": "stopped" if stopped else "running",
            "cur_state": "stopped" if stopped else "running",
            "status_msg": box.words,
        }

    def _names(self, _: Request) -> Raw:
        return raw(200, {"success": True, "gpu_names": sorted({host.gpu for host in self.market.hosts.values()})})

    def _account(self, _: Request) -> Raw:
        return raw(200, {**recorded.ACCOUNT, "credit": -0.25 if self.market.is_dry else 500.0})

    def _offers(self, asked: Request) -> Raw:
        gpu, is_bid = asked.body["gpu_name"]["eq"], asked.body["type"] == "bid"
        rows: list[Json] = []
        for host in self.market.hosts.values():
            if host.gpu == gpu:
                rows += (
                    _that_meet(asked.body, self._on_offer(host, is_bid))
                    if host.places
                    else self._on_offer(host, is_bid)
                )
        if rows and self.ground.faults.hits("B6"):
            rows[0] = drift(rows[0], self.ground.faults.rng("B6"), _DRIFTING_OFFERS)
        return raw(200, {"offers": rows})

    def _on_offer(self, host: Host, is_bid: bool) -> list[Json]:
        """A row for each GPU that is free, and in a search for bids for those that we hold by one."""
        now_s, echo = self.ground.now_s, host.echo
        shown = host.shown_floor if host.shown_floor is not None else host.floor
        rows = []
        for gpu in self.market.free_gpus(host):
            if echo is not None and gpu == echo.gpu and now_s < echo.ends_s:
                self.ground.faults.counts["E12"] += 1
                rows.append(offer_row(host, gpu, echo.bid, is_bid))
                continue
            if isinstance(shown, Decimal):
                host.told_floors.append((now_s, shown))
            rows.append(offer_row(host, gpu, shown, is_bid))
        if is_bid:
            ours = [box for box in self.market.boxes.values() if box.is_echoed and box.host is host]
            rows += [offer_row(host, box.gpu, box.rate, is_bid) for box in ours if box.state is not State.STOPPED]
        return rows

    def _charges(self, asked: Request) -> Raw:
        day = asked.query["select_filters"]["day"]
        since, until = (datetime.fromtimestamp(day[end], UTC).date() for end in ("gte", "lte"))
        rows = []
        if not self.ground.faults.bursts("I1", self.market.provider, self.ground.now_s):
            for box in self.market.billed():
                rows += self._charge_rows(box, since, until)
        first = int(asked.query.get("after_token", 0))
        last = first + int(asked.query["limit"])
        token = str(last) if last < len(rows) else None
        page = rows[first:last]
        return raw(
            200,
            {"success": True, "count": len(page), "results": page, "total": len(rows), "next_token": token},
        )

    def _charge_rows(self, box: Box, since: Any, until: Any) -> list[Json]:
        self.ground.books.settle(box.meter, self.ground.now_s)
        by_day: dict[Any, list[Json]] = {}
        for (kind, day), amount in box.meter.lines.items():
            if since <= day <= until:
                by_day.setdefault(day, []).append(
                    {**recorded.CHARGE_ITEM, "type": kind, "amount": float(dollars(amount)), **_day(day)}
                )
        return [
            {
                **recorded.CHARGE,
                "source": f"instance-{box.id}",
                "metadata": {"label": box.label},
                "amount": sum(item["amount"] for item in items),
                "items": items,
                **_day(day),
            }
            for day, items in by_day.items()
        ]

    # --- changes

    def _create(self, asked: Request) -> Raw:
        faults, body = self.ground.faults, asked.body
        number, machine = divmod(int(asked.box_id), 1_000_000)
        gpu, host = number - FIRST_OFFER, self.market.hosts.get(str(machine))
        price = body.get("price")
        is_spot = price is not None
        is_there = host is not None and gpu in self.market.free_gpus(host)
        if self.market.is_dry:
            return raw(400, _NO_CREDIT)
        if host is None or not is_there or faults.hits("A7"):
            if host is not None and is_spot:
                host.beaten_bids.append((self.ground.now_s, Decimal(str(price))))
            return raw(410, _GONE) if self.market.rng.random() < 0.7 else raw(404, {**_GONE, "error": "invalid_args"})
        rate = Decimal(str(price)) if is_spot else host.on_demand
        terms = {"label": body["label"], "disk_gb": int(body["disk"]), "onstart": body["onstart"], "host": host}
        terms["gpu"] = gpu
        # A rival whom the list does not show wins at once, or soon after.
        if is_spot and (rate < host.floor or (rate < host.to_win and self.market.rng.random() < 0.6)):
            host.beaten_bids.append((self.ground.now_s, rate))
            return raw(410, _GONE)
        if faults.hits("A3"):
            if is_spot:  # the answer is the market's word for a bid that lost
                host.beaten_bids.append((self.ground.now_s, rate))
            box = self.market.rent(**terms, is_spot=is_spot, rate=rate, starts=False)
            return raw(200, {**recorded.CREATED, "success": False, "new_contract": int(box.id)})
        is_odd = faults.hits("A6")
        if is_odd:
            if faults.rng("A6").random() < 0.5:
                is_spot, rate = not is_spot, host.on_demand
            else:
                rate = (rate * Decimal("1.5")).quantize(Decimal("0.0001"))
        if faults.hits("A5"):
            self.market.rent(**{**terms, "gpu": None}, is_spot=is_spot, rate=rate)
        box = self.market.rent(**terms, is_spot=is_spot, rate=rate)
        box.is_not_as_asked = is_odd
        return raw(200, {**recorded.CREATED, "new_contract": int(box.id)})

    def _bid(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_INSTANCE)
        self.market.set_bid(box, Decimal(str(asked.body["price"])))
        return raw(200, {"success": True})

    def _start(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_INSTANCE)
        if self.market.is_dry:
            return raw(400, _NO_CREDIT)
        self.market.start(box)
        return raw(200, {"success": True})

    def _stop(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_INSTANCE)
        self.market.stop(box)
        return raw(200, {"success": True})

    def _destroy(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_INSTANCE)
        if self.ground.faults.hits("D1"):
            return raw(200, {"success": True})
        if self.ground.faults.hits("D2"):
            return raw(500, {"success": False, "msg": "try again in 60 s"})
        self.market.destroy(box)
        if self.ground.faults.hits("D5"):
            self.ground.loop.after(self.market.rng.uniform(60, 600), self.market.bring_to_life, box)
        elif self.ground.faults.hits("D4"):
            self.ground.loop.after(REUSED_AFTER_S, self.market.reuse, box)
        return raw(200, {"success": True})


def offer_row(host: Host, gpu: int, shown: Decimal | float, is_bid: bool) -> Json:
    return {
        **recorded.OFFER,
        "id": (FIRST_OFFER + gpu) * 1_000_000 + int(host.machine_id),
        "machine_id": int(host.machine_id),
        "host_id": int(host.host_id),
        "gpu_name": host.gpu,
        "num_gpus": 1,
        "gpu_ids": [gpu],
        "gpu_frac": 1 / host.room,
        "gpu_ram": 24_564,
        "min_bid": float(shown),
        "dph_base": float(shown if is_bid else host.on_demand),
        "storage_cost": float(host.storage_price),
        "inet_up_cost": float(host.upload_price),
        "inet_down_cost": 0.0,
        "inet_down": 900.0,
        "reliability": 0.99,
        "verification": "verified",
        "hosting_type": 0,
        "disk_space": 500.0,
        "geolocation": "Sweden, SE",
        **(tell_host(host.places[gpu].traits) if host.places else {}),
    }


def _that_meet(query: Json, rows: list[Json]) -> list[Json]:
    conditions: Json = {name: value for name, value in query.items() if isinstance(value, dict)}
    return [row for row in rows if meets(row, conditions)]


def _day(day: date) -> Json:
    """The seconds at which a UTC day begins and ends."""
    begins_at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return {"start": int(begins_at.timestamp()), "end": int((begins_at + timedelta(days=1)).timestamp())}
