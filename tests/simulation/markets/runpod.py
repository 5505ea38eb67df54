"""RunPod's side of the wire: GraphQL and REST requests in, statuses and bodies out, as the market's documents show."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from autopilot.providers.runpod import queries
from autopilot_lab.sandbox.host_traits import NO_NETWORK_WORDS, HostTraits, StartStage, is_as_new
from autopilot_lab.sandbox.runpod.lifecycle import javascript_date
from tests.simulation.ground.books import dollars
from tests.simulation.ground.machines import Box, Host, State
from tests.simulation.ground.wire import NOT_A_LIST, Json, Needs, Raw, Request, Snapshots, drift, raw
from tests.simulation.markets.market import REUSED_AFTER_S, SimulatedMarket
from tests.simulation.virtual.clock import at

GPU_ID = "NVIDIA GeForce RTX 4090"
GPU = "RTX 4090"
DRIFTING = ("id", "podType", "desiredStatus", "costPerHr", "runtime", "name")
NEEDS = Needs(
    "name",
    ("id", "name"),
    ("podType", "desiredStatus", "costPerHr", "runtime"),
    texts=("id", "name", "desiredStatus"),
    nulls=("runtime",),
)
_KINDS = {
    queries.SWEEP: "list",
    queries.BALANCE: "account",
    queries.POD: "show",
    queries.PRICES: "offers",
    queries.SPOT_PROBE: "probe",
    queries.RENT_SPOT: "create",
    queries.RENT_ON_DEMAND: "create",
    queries.RESUME_SPOT: "bid",
    queries.RESUME: "start",
}
_ENCODED = re.compile(r"echo (\S+) \|")
_POD_PATH = re.compile(r"/v2/pods/([^/]+)$")
_LOG_PATH = re.compile(r"/v2/pods/([^/]+)/logs$")


def request(method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None) -> Request:
    if path == "/graphql":
        assert body is not None, "GraphQL has a body"
        variables = body["variables"]
        kind = _KINDS[body["query"]]
        asked = variables.get("input", variables)
        return Request(kind, method, path, query or {}, asked, variables.get("podId", ""))
    if path == "/v2/billing/pods":
        return Request("charges", method, path, query or {}, body)
    if (log := _LOG_PATH.match(path)) is not None:
        return Request("logs", method, path, query or {}, body, log[1])
    found = _POD_PATH.match(path)
    if method == "POST" and path == "/v2/pods":
        return Request("create", method, path, {}, body)
    assert found is not None, f"unexpected {method} {path} while GraphQL answers"
    return Request("destroy" if method == "DELETE" else "show", method, path, {}, body, found[1])


class PodMarket(SimulatedMarket):
    """Where hosts differ it does with a pod that cannot start what the market does, and bills as it does."""

    def bills_loading(self, box: Box) -> bool:
        return box.place is not None and box.state is State.LOADING and not box.is_gone

    def end_failed_start(self, box: Box) -> None:
        """An image that cannot be had ends the pod; a container that cannot be made is tried for ever."""
        if box.failure is not None and box.failure.stage is StartStage.PULL:
            box.wanted = False
            self.change(box, State.STOPPED)


class Runpod:
    """Answers for one market. What the SDK is asked comes as requests of the kinds types, stop and destroy."""

    def __init__(self, market: SimulatedMarket) -> None:
        self.market = market
        self.ground = market.ground
        self._snapshots = Snapshots()

    def answer(self, asked: Request) -> Raw:
        """The request takes effect here."""
        found: Raw = getattr(self, f"_{asked.kind}")(asked)
        return found

    # --- reads

    def _types(self, _: Request) -> Raw:
        return _data({"gpuTypes": [{"id": GPU_ID, "displayName": GPU, "memoryInGb": 24}]})

    def _has_spot(self) -> bool:
        return not self.ground.faults.bursts("E14", self.market.provider, self.ground.now_s)

    def _probe(self, _: Request) -> Raw:
        return _data({}) if self._has_spot() else _no_such_call(queries.SPOT_OPERATION)

    @property
    def _balance(self) -> float:
        return -0.25 if self.market.is_dry else 500.0

    def _account(self, _: Request) -> Raw:
        return _data({"myself": {"clientBalance": self._balance}})

    def _list(self, _: Request) -> Raw:
        faults, rng = self.ground.faults, self.market.rng
        rows = [self.row(box) for box in self.market.visible()]
        self._snapshots.keep(self.ground.now_s, rows)
        if faults.hits("B1"):
            self.ground.spoil(self.market.provider)
            return Raw(200, rng.choice(NOT_A_LIST))
        if faults.hits("B3"):
            rows = self._snapshots.one(faults.rng("B3"))
        if rows and faults.hits("B4"):
            rows = rows[:-1]
        if rows and faults.hits("B6"):
            changed = drift(rows[0], faults.rng("B6"), DRIFTING)
            if not NEEDS.are_met(changed, rows[0]):
                self.ground.spoil(self.market.provider)
            rows = [changed, *rows[1:]]
        return _data({"myself": {"clientBalance": self._balance, "pods": rows}})

    def _show(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            lately = self.market.past.get(asked.box_id)
            if lately is None or self.ground.now_s - lately.gone_s > 60 or not self.ground.faults.hits("B5"):
                return _data({"pod": None})
            return _data({"pod": self.row(lately)})
        row = self.row(box)
        if self.ground.faults.hits("B5"):
            row["runtime"] = None
        return _data({"pod": row})

    def _logs(self, asked: Request) -> Raw:
        """A stream of events: what the host says of a pod that it cannot start, and our start text in one that reaches
        nothing."""
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return Raw(404, '{"title": "Not Found", "status": 404}')
        return Raw(200, "".join(f"data: {json.dumps(event)}\n\n" for event in _start_log(box, self.ground.now_s)))

    def row(self, box: Box) -> Json:
        host, up = box.host, box.state is State.RUNNING and box.shown is None
        kind = "INTERRUPTABLE" if box.is_spot else "RESERVED"
        container = min(20, max(box.disk_gb // 2, 5))
        started = f"{at(box.started_s or box.created_s):%Y-%m-%dT%H:%M:%S}Z"
        return {
            "id": box.id,
            "name": box.label,
            "podType": kind,
            "desiredStatus": "EXITED" if box.state is State.STOPPED else "RUNNING",
            "lastStatusChange": _status_change(box),
            "lastStartedAt": started,
            "createdAt": started,
            "gpuCount": 1,
            "containerDiskInGb": container,
            "volumeInGb": max(box.disk_gb - container, 10),
            "costPerHr": float(box.rate),
            "machineId": host.host_id if box.place is None else box.place.id,
            "machine": {"gpuDisplayName": GPU, "gpuTypeId": GPU_ID, "secureCloud": host.machine_id == "SECURE"},
            "runtime": {"uptimeInSeconds": 1} if up else None,
        }

    def _offers(self, _: Request) -> Raw:
        row: Json = {"id": GPU_ID, "displayName": GPU, "memoryInGb": 24}
        has_spot = self._has_spot()
        for cloud, host in self.market.hosts.items():
            name = cloud.lower()
            row[name] = self._price(host)
            row[f"{name}Price"] = float(host.on_demand)
            row[f"{name}SpotPrice"] = float(host.floor)
            if not has_spot:
                row[name]["minimumBidPrice"] = row[f"{name}SpotPrice"] = None
        return _data({"gpuTypes": [row]})

    def _price(self, host: Host) -> Json:
        shown = host.shown_floor if host.shown_floor is not None else host.floor
        stock = "High" if self.market.has_room(host) else "NONE"
        return {
            "minimumBidPrice": float(shown),
            "uninterruptablePrice": float(host.on_demand),
            "stockStatus": stock,
        }

    def _charges(self, asked: Request) -> Raw:
        since = datetime.fromisoformat(asked.query["startTime"]).date()
        until = datetime.fromisoformat(asked.query["endTime"]).date()
        records: list[Json] = []
        if not self.ground.faults.bursts("I1", self.market.provider, self.ground.now_s):
            for box in self.market.billed():
                records += self._bills(box, since, until)
        return raw(200, {"records": records, "metadata": {"recordCount": len(records)}})

    def _bills(self, box: Box, since: date, until: date) -> list[Json]:
        self.ground.books.settle(box.meter, self.ground.now_s)
        days = sorted({day for _, day in box.meter.lines if since <= day < until})
        found = []
        for day in days:
            gpu, disk = (dollars(box.meter.lines.get((kind, day), 0)) for kind in ("gpu", "disk"))
            found.append(
                {
                    "podId": box.id,
                    "startTime": f"{day}T00:00:00Z",
                    "totalAmount": float(gpu + disk),
                    "diskAmount": float(disk),
                }
            )
        return found

    # --- changes

    def _create(self, asked: Request) -> Raw:
        faults, body = self.ground.faults, asked.body
        by_rest = asked.path == "/v2/pods"
        cloud = body["cloud"] if by_rest else body["cloudType"]
        bid = body.get("bidPerGpu")
        is_spot = bid is not None
        host = self.market.hosts[cloud]
        rate = Decimal(str(bid)) if is_spot else host.on_demand
        if is_spot and not self._has_spot():
            return _no_such_call(queries.SPOT_OPERATION)
        if self.market.is_dry:
            return _no_credit(by_rest)
        fitting = self._fitting(host, body["gpu"] if by_rest else body)
        has_room = self.market.has_room(host) and bool(fitting)
        if not has_room or faults.hits("A7") or (is_spot and rate < host.to_win):
            if is_spot:
                host.beaten_bids.append((self.ground.now_s, rate))
            return _no_capacity(by_rest)
        command = body["args"] if by_rest else body["dockerArgs"]
        encoded = _ENCODED.search(command)
        assert encoded is not None, "the start command is encoded"
        disk_gb = (body["disk"] + body["mounts"]["persistent"]["size"]) if by_rest else (
            body["containerDiskInGb"] + body["volumeInGb"]
        )  # fmt: skip
        onstart = base64.b64decode(encoded[1]).decode()
        terms = {"label": body["name"], "disk_gb": disk_gb, "onstart": onstart, "host": host}
        terms["gpu"] = self.market.draw_among(fitting) if host.places else None
        is_odd = faults.hits("A6")
        if is_odd:
            if faults.rng("A6").random() < 0.5:
                is_spot, rate = not is_spot, host.on_demand
            else:
                rate = (rate * Decimal("1.5")).quantize(Decimal("0.0001"))
        if faults.hits("A5"):
            self.market.rent(**terms, is_spot=is_spot, rate=rate)
        starts = not faults.hits("A3")
        box = self.market.rent(**terms, is_spot=is_spot, rate=rate, starts=starts)
        box.is_not_as_asked = is_odd
        operation = queries.SPOT_OPERATION if bid is not None else queries.ON_DEMAND_OPERATION
        if by_rest:
            return raw(201, {"id": box.id})
        if not starts:
            return raw(200, {"errors": [{"message": "something is odd"}], "data": {operation: {"id": box.id}}})
        return _data({operation: {"id": box.id}})

    def _fitting(self, host: Host, wish: Json) -> list[int]:
        """GPUs that are free on hosts as they are wished for."""
        free = self.market.free_gpus(host)
        return [gpu for gpu in free if _meets(host.places[gpu].traits, wish)] if host.places else free

    def _bid(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return _error("pod not found", queries.RESUME_SPOT_OPERATION)
        bid = Decimal(str(asked.body["bidPerGpu"]))
        if not self._has_spot():
            return _no_such_call(queries.RESUME_SPOT_OPERATION)
        if self.market.is_dry:
            return _no_credit(by_rest=False)
        if box.state is State.STOPPED and bid < box.host.to_win:
            return _error("not enough free GPUs on the host machine", queries.RESUME_SPOT_OPERATION)
        box.wanted = True
        self.market.set_bid(box, bid)
        return _data({queries.RESUME_SPOT_OPERATION: {"id": box.id}})

    def _start(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return _error("pod not found", queries.RESUME_OPERATION)
        if self.market.is_dry:
            return _no_credit(by_rest=False)
        self.market.start(box)
        return _data({queries.RESUME_OPERATION: {"id": box.id}})

    def _stop(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return _error("pod not found", "podStop")
        self.market.stop(box)
        return _data({"podStop": {"id": box.id, "desiredStatus": "EXITED"}})

    def _destroy(self, asked: Request) -> Raw:
        box = self.market.boxes.get(asked.box_id)
        if box is None:
            return _error("pod not found to terminate", "podTerminate")
        if self.ground.faults.hits("D1"):
            return _data({"podTerminate": None})
        if self.ground.faults.hits("D2"):
            return raw(500, {"errors": [{"message": "Something went wrong. Please try again later"}]})
        self.market.destroy(box)
        if self.ground.faults.hits("D5"):
            self.ground.loop.after(self.market.rng.uniform(60, 600), self.market.bring_to_life, box)
        elif self.ground.faults.hits("D4"):
            self.ground.loop.after(REUSED_AFTER_S, self.market.reuse, box)
        return _data({"podTerminate": None})


def _meets(traits: HostTraits, wish: Json) -> bool:
    least, versions = wish.get("minCudaVersion"), wish.get("allowedCudaVersions")
    return (
        (not least or is_as_new(traits.cuda, least))
        and (not versions or traits.cuda in versions)
        and traits.download_mbps >= (wish.get("minDownload") or 0)
        and traits.upload_mbps >= (wish.get("minUpload") or 0)
        and wish.get("countryCode") in (None, traits.country)
    )


def _start_log(box: Box, now_s: float) -> list[Json]:
    if tries := box.tries_s(now_s):
        return [{"ts": at(each).isoformat(), "source": "container", "line": NO_NETWORK_WORDS} for each in tries]
    if not box.words or box.failure is None:
        return []
    is_pull = box.failure.stage is StartStage.PULL
    said = "error pulling image: " if is_pull else "error starting container: Error response from daemon: "
    stamp = at(box.created_s).isoformat()
    return [{"ts": stamp, "source": "system", "line": line} for line in f"{said}{box.words}".splitlines()]


def _status_change(box: Box) -> str:
    if box.state is State.STOPPED and box.words:
        return f"Exited by Runpod: {javascript_date(at(box.created_s))}"
    return ""


def _data(data: Json) -> Raw:
    return raw(200, {"data": data})


def _error(message: str, operation: str) -> Raw:
    return raw(200, {"errors": [{"message": message}], "data": {operation: None}})


def _no_such_call(operation: str) -> Raw:
    words = f'Cannot query field "{operation}" on type "Mutation".'
    return raw(400, {"errors": [{"message": words, "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}]})


def _no_credit(by_rest: bool) -> Raw:
    words = "Renting this pod would put you over your current spending limit."
    if by_rest:
        return raw(402, {"title": "Payment Required", "status": 402, "detail": words})
    return raw(200, {"errors": [{"message": words, "extensions": {"code": "INSUFFICIENT_BALANCE"}}], "data": None})


def _no_capacity(by_rest: bool) -> Raw:
    words = "There are no longer any instances available with the requested specifications."
    if by_rest:
        return raw(400, {"title": "Bad Request", "status": 400, "detail": words})
    return raw(200, {"errors": [{"message": words, "extensions": {"code": "SUPPLY_CONSTRAINT"}}], "data": None})
