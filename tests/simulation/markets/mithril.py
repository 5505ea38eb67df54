"""Mithril's side of the wire: raw requests in, statuses and bodies out, as the market's own documents show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from autopilot.domain.labels import LABEL_PREFIX
from tests.simulation.ground.machines import Box, Host, State
from tests.simulation.ground.wire import NOT_A_LIST, Json, Needs, Raw, Request, Snapshots, drift, raw
from tests.simulation.markets.auction import AuctionMarket, VmBid
from tests.simulation.virtual.clock import at

PROJECT, SSH_KEY = "proj_sim", "sshkey_sim"
PAGE = 25
PAST_STEPS = 24
"""Quarters of an hour that the record of prices has."""
MACHINES = "machines"
"""Of the two lists that make up one look the one that is read first."""
BIDS_PATH = "/v2/spot/bids"
DRIFTING = ("fid", "status", "limit_price", "instances", "name")
_DRIFTING_MACHINES = ("fid", "status", "bid")
BID_NEEDS = Needs("name", ("fid", "name"), ("status", "limit_price", "instances"), texts=("fid", "name", "status"))
MACHINE_NEEDS = Needs("name", ("fid", "bid"), ("status",), texts=("fid", "bid", "status"), nulls=("bid",))
_REPLACED = "STATUS_REPLACED"
REPLACED_NEEDS = replace(MACHINE_NEEDS, of_ours=())
"""What a machine does in whose place its bid has another is no matter."""
_READS = {
    "/v2/instances": MACHINES,
    BIDS_PATH: "list",
    "/v2/projects": "account",
    "/v2/ssh-keys": "keys",
    "/v2/instance-types": "types",
    "/v2/spot/availability": "auctions",
    "/v2/pricing/current": "offers",
    "/v2/pricing/history": "past",
    "/v2/instances/pricing/history": "bill",
}
_NO_BID = {"detail": "bid not found"}
_NO_CREDIT = {"detail": "the payment method of this organization was declined"}
_SHOWN = {"exited": "STOPPED", "offline": "STOPPING", "unknown": "SCHEDULED", "null": None, "loading": "STARTING"}
"""What a state that the world shows wrongly is called here."""


def request(method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Request:
    if path in _READS and method == "GET":
        kind = "named" if path == BIDS_PATH and "name" in (query or {}) else _READS[path]
        return Request(kind, method, path, query or {}, body)
    if path == BIDS_PATH:
        return Request("create", method, path, {}, body)
    machine = re.fullmatch(r"/v2/instances/([A-Za-z0-9_-]+)/status", path)
    if machine is not None:
        return Request("machine", method, path, query or {}, body, machine[1])
    box_id = path.removeprefix(f"{BIDS_PATH}/")
    assert re.fullmatch(r"[A-Za-z0-9_-]+", box_id), f"unexpected {method} {path}"
    kind = {"GET": "show", "DELETE": "destroy"}.get(method, "")
    if not kind:
        asked = dict(body or {})
        kind = "bid" if "limit_price" in asked else ("stop" if asked["paused"] else "start")
    return Request(kind, method, path, query or {}, body, box_id)


class Mithril:
    """Answers for one market."""

    def __init__(self, market: AuctionMarket) -> None:
        self.market = market
        self.ground = market.ground
        self._snapshots, self._machines_seen = Snapshots(), Snapshots()

    def answer(self, asked: Request) -> Raw:
        """The request takes effect here."""
        found: Raw = getattr(self, f"_{asked.kind}")(asked)
        return found

    # --- lists

    def _list(self, asked: Request) -> Raw:
        """Bids that were deleted stay listed."""
        bids = [bid for bid in self.market.bids.values() if bid.box.visible_from_s <= self.ground.now_s]
        rows = [self.bid_row(bid) for bid in bids]
        return self._page_of(asked, rows, self._snapshots, asked.page)

    def _machines(self, asked: Request) -> Raw:
        bids = [bid for bid in self.market.bids.values() if bid.listed_from_s <= self.ground.now_s]
        rows = [row for bid in bids for row in self.machine_rows(bid)]
        return self._page_of(asked, rows, self._machines_seen, MACHINES)

    def _machine(self, asked: Request) -> Raw:
        rows = (row for bid in self.market.bids.values() for row in self.machine_rows(bid))
        found = next((row for row in rows if row["fid"] == asked.box_id), None)
        return raw(404, {"detail": "instance not found"}) if found is None else raw(200, found)

    def _page_of(self, asked: Request, rows: list[Json], snapshots: Snapshots, mark: str) -> Raw:
        """``mark``: of the page among all those of the market that may be spoilt."""
        faults = self.ground.faults
        snapshots.keep(self.ground.now_s, rows)
        if faults.hits("B1"):
            self._spoil(asked, mark)
            return Raw(200, self.market.rng.choice(NOT_A_LIST))
        if faults.hits("B3"):
            rows = snapshots.one(faults.rng("B3"))
        rows = [row for row in rows if asked.query.get("status", row["status"]) == row["status"]]
        if any(row["status"] is None and row["name"].startswith(LABEL_PREFIX) for row in rows):
            self._spoil(asked, mark)
        first = int(asked.page or 0)
        page, more = rows[first : first + PAGE], len(rows) > first + PAGE
        cursor = str(first + PAGE) if more else None
        if page and faults.hits("B4"):
            if faults.rng("B4").random() < 0.5:
                page = page[:-1]
            else:
                cursor = str(first or PAGE)
                if first:  # else there is but an empty page more
                    self._spoil(asked, mark)
        if page and faults.hits("B6"):
            changed, is_read = self._drifted(page[0], asked.kind == MACHINES)
            page = [changed, *page[1:]]
            if not is_read:
                self._spoil(asked, mark)
        return raw(200, {"data": page, "next_cursor": cursor})

    def _spoil(self, asked: Request, mark: str) -> None:
        if not asked.is_look:
            self.ground.spoil(self.market.provider, mark)

    def _drifted(self, row: Json, is_machine: bool) -> tuple[Json, bool]:
        """With one field of another form, and whether a reader can take the list so."""
        changed = drift(row, self.ground.faults.rng("B6"), _DRIFTING_MACHINES if is_machine else DRIFTING)
        needs = BID_NEEDS
        if is_machine:
            needs = REPLACED_NEEDS if row["status"] == _REPLACED else MACHINE_NEEDS
        return changed, needs.are_met(changed, row)

    def _named(self, asked: Request) -> Raw:
        rows = [self.bid_row(bid) for bid in self.market.bids.values() if bid.box.label == asked.query["name"]]
        return raw(200, {"data": rows, "next_cursor": None})

    def _show(self, asked: Request) -> Raw:
        bid, faults = self.market.bids.get(asked.box_id), self.ground.faults
        if bid is None or (bid.box.is_gone and self.market.rng.random() < 0.5):
            return raw(404, _NO_BID)
        row = self.bid_row(bid)
        if faults.hits("B5") and (not bid.box.is_gone or self.ground.now_s - bid.box.gone_s <= 60):
            row["status"] = faults.rng("B5").choice(("Open", "Allocated", "Preempting"))
        return raw(200, row)

    def bid_row(self, bid: VmBid) -> Json:
        box = bid.box
        return {
            "fid": box.id,
            "name": box.label,
            "project": PROJECT,
            "created_by": "user_sim",
            "created_at": f"{at(box.created_s):%Y-%m-%dT%H:%M:%SZ}",
            "deactivated_at": None,
            "limit_price": f"${box.rate:.2f}",
            "instance_quantity": 1,
            "instance_type": box.host.machine_id.partition("/")[2],
            "region": box.host.machine_id.partition("/")[0],
            "instances": [machine for machine, _ in bid.machines],
            "launch_specification": {"volumes": [], "ssh_keys": [SSH_KEY], "startup_script": box.onstart},
            "status": _bid_status(bid),
        }

    def machine_rows(self, bid: VmBid) -> list[Json]:
        last = len(bid.machines) - 1
        return [
            {
                "fid": machine,
                "name": f"{bid.box.label}-{number}",
                "project": PROJECT,
                "created_at": f"{at(since_s):%Y-%m-%dT%H:%M:%SZ}",
                "created_by": "user_sim",
                "instance_type": bid.box.host.machine_id.partition("/")[2],
                "region": bid.box.host.machine_id.partition("/")[0],
                "bid": bid.box.id,
                "reservation": None,
                "ssh_destination": None,
                "private_ip": None,
                "status": _REPLACED if number < last else _machine_status(bid),
            }
            for number, (machine, since_s) in enumerate(bid.machines)
        ]

    # --- prices and the account

    def _types(self, _: Request) -> Raw:
        return raw(200, [_type_row(host) for host in self.market.hosts.values()])

    def _auctions(self, _: Request) -> Raw:
        return raw(200, [self._auction_row(host) for host in self.market.hosts.values()])

    def _auction_row(self, host: Host) -> Json:
        region, _, kind = host.machine_id.partition("/")
        pool = self.market.pools[host.machine_id]
        return {
            "fid": f"auc_{kind[3:]}",
            "instance_type": kind,
            "region": region,
            "capacity": self.market.free_in(host),
            "last_instance_price": f"${pool.price:.2f}",
            "lowest_allocated_price": None if pool.lowest is None else f"${pool.lowest:.2f}",
            "adjustable_memory": False,
            "default_image_version": None,
        }

    def _offers(self, asked: Request) -> Raw:
        host = self.market.hosts.get(f"{asked.query['region']}/{asked.query['instance_type']}")
        if host is None:
            return raw(404, {"detail": "no current price"})
        pool, shown, free = self.market.pools[host.machine_id], host.shown_floor, self.market.free_in(host)
        row: Json = {
            "spot_price_cents": _cents(pool.price) if shown is None else shown,
            "reserved_price_cents": None,
            "minimum_price_cents": _cents(pool.minimum),
            "lowest_allocated_bid_cents": (None if free else _cents(pool.lowest)) if shown is None else shown,
            "dynamic_win_price_cents": None,
            "available_capacity": free,
            "total_capacity": host.room,
        }
        return raw(200, row)

    def _past(self, asked: Request) -> Raw:
        """The last hours at today's price: this is the first look."""
        host = self.market.hosts.get(f"{asked.query['region']}/{asked.query['instance_types']}")
        if host is None:
            return raw(404, {"detail": "no current price"})
        price = f"${self.market.pools[host.machine_id].price:.2f}"
        moments = (at(self.ground.now_s - 900 * step) for step in range(PAST_STEPS))
        return raw(200, {"prices": [{"spot_instance_price": price, "timestamp": each.isoformat()} for each in moments]})

    def _bill(self, asked: Request) -> Raw:
        """Machine by machine, the periods of each price."""
        bid = self.market.bids.get(asked.query["bid_fid"])
        if bid is None:
            return raw(404, _NO_BID)
        events: dict[str, list[Json]] = {machine: [] for machine, _ in bid.machines}
        for machine, cents, since_s, until_s in bid.billed:
            end = None if until_s is None else at(until_s).isoformat()
            events[machine].append({"price_cents": cents, "start_time": at(since_s).isoformat(), "end_time": end})
        rows = [
            {"instance_fid": machine, "events": billed, "bid_fid": bid.box.id, "reservation_fid": None}
            for machine, billed in events.items()
        ]
        return raw(200, {"instances": rows, "next_cursor": None})

    def _account(self, _: Request) -> Raw:
        return raw(200, {"data": [{"fid": PROJECT, "name": "simulated"}], "next_cursor": None})

    def _keys(self, _: Request) -> Raw:
        return raw(200, {"data": [{"fid": SSH_KEY, "name": "simulated"}], "next_cursor": None})

    # --- changes

    def _create(self, asked: Request) -> Raw:
        faults, body = self.ground.faults, asked.body
        host = self.market.hosts[f"{body['region']}/{body['instance_type']}"]
        limit = Decimal(body["limit_price"].removeprefix("$"))
        if self.market.is_dry:
            return raw(402, _NO_CREDIT)
        if faults.hits("A7"):
            host.beaten_bids.append((self.ground.now_s, limit))
            return raw(400, {"detail": "quota of instances reached for this type"})
        if limit < self.market.pools[host.machine_id].minimum:
            host.beaten_bids.append((self.ground.now_s, limit))
            return raw(400, {"detail": "Limit price below minimum of this auction"})
        if any(bid.box.label == body["name"] and not bid.box.is_gone for bid in self.market.bids.values()):
            return raw(400, {"detail": "name already used by another bid"})
        script = body["launch_specification"]["startup_script"]
        onstart = next(line for line in script.splitlines() if line.startswith("agent "))
        is_odd = faults.hits("A6")
        if is_odd:
            limit += Decimal("0.05")
        box = self.market.rent(host, label=body["name"], is_spot=True, rate=limit, disk_gb=100, onstart=onstart)
        box.is_not_as_asked = is_odd
        return raw(201, self.bid_row(self.market.bids[box.id]))

    def _changed(self, box: Box) -> Raw:
        return raw(200, self.bid_row(self.market.bids[box.id]))

    def _bid(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_BID)
        limit = Decimal(asked.body["limit_price"].removeprefix("$"))
        if limit < self.market.pools[box.host.machine_id].minimum:
            return raw(400, {"detail": "Limit price below minimum of this auction"})
        self.market.set_bid(box, limit)
        return self._changed(box)

    def _start(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_BID)
        self.market.start(box)
        return self._changed(box)

    def _stop(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_BID)
        self.market.stop(box)
        return self._changed(box)

    def _destroy(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return raw(404, _NO_BID)
        if self.ground.faults.hits("D1"):
            return Raw(204, "")
        if self.ground.faults.hits("D2"):
            return raw(500, {"detail": "Internal Server Error"})
        self.market.destroy(box)
        return Raw(204, "")


def _bid_status(bid: VmBid) -> str:
    if bid.box.is_gone:
        return "Terminated"
    if not bid.box.wanted:
        return "Paused"
    if bid.notice == "PREEMPTING":
        return "Preempting"
    return "Allocated" if bid.has_won else "Open"


def _machine_status(bid: VmBid) -> str | None:
    box = bid.box
    if box.is_gone:
        return "STATUS_TERMINATED"
    if box.shown is not None and box.state is not State.STOPPED:
        word = _SHOWN[box.shown]
        return None if word is None else f"STATUS_{word}"
    if box.state is State.LOADING:
        return "STATUS_STARTING"
    if box.state is State.STOPPED:
        return "STATUS_PREEMPTED" if box.wanted else "STATUS_PAUSED"
    return f"STATUS_{bid.notice or 'RUNNING'}"


def _type_row(host: Host) -> Json:
    return {
        "fid": host.machine_id.partition("/")[2],
        "name": "rtx4090-24gb.1x",
        "num_cpus": 16,
        "ram_gb": 64,
        "num_gpus": 1,
        "gpu_type": "RTX4090",
        "gpu_memory_gb": 24,
        "gpu_socket": "PCIe",
        "local_storage_gb": 500,
        "network_type": "ethernet",
    }


def _cents(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount * 100)
