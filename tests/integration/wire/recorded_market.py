"""The markets as recorded, served over a real socket to the real clients: one body for each kind of answer."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

ASSETS = Path(__file__).parents[2] / "assets"
INSTANCE, POD = "47848147", "fkjbybgpwuvmhk"


def recorded(name: str) -> Any:
    return json.loads((ASSETS / f"{name}.json").read_text())


def _page() -> Any:
    """One page that is the whole list, of the recorded machines that differ."""
    page = recorded("vastai/instances_v1_page")
    rows = [recorded(f"vastai/instance_{name}")["instances"] for name in ("running_bid", "outbid", "loading")]
    page["instances"] = [row | {"id": int(INSTANCE) + at} for at, row in enumerate(rows)]
    return page | {"total_instances": len(rows), "instances_found": len(rows), "next_token": None}


def vastai() -> dict[str, Any]:
    """Bodies by method and the part of the path that tells answers apart; the first that fits counts."""
    outbid = recorded("vastai/inbox_outbid")
    return {
        "GET /api/v1/instances/": _page(),
        "PUT /instances/request_logs/": {"success": True, "result_url": "https://elsewhere.example/log"},
        "GET /users/current": recorded("vastai/user"),
        "GET /charges/": recorded("vastai/charges"),
        "GET /notifications/inbox/": {"notifications": [outbid, outbid | {"notif_type": "instance_started"}]},
        "GET /gpu_names/unique/": {"success": True, "gpu_names": ["RTX 4090"]},
        "GET /instances/": recorded("vastai/instance_running_bid"),
        "POST /bundles/ bid": recorded("vastai/offer_bid"),
        "POST /bundles/ on-demand": recorded("vastai/offer_ondemand"),
        "PUT /asks/": recorded("vastai/create_response_ok"),
        "PUT /instances/bid_price/": recorded("vastai/change_bid_ok"),
        "PUT /instances/": recorded("vastai/change_bid_ok"),
        "DELETE /instances/": recorded("vastai/change_bid_ok"),
    }


POD_FIELDS = """id name podType desiredStatus lastStatusChange lastStartedAt createdAt gpuCount containerDiskInGb
volumeInGb costPerHr lowestBidPriceToResume machineId"""
PRICE_FIELDS = "id displayName memoryInGb securePrice communityPrice secureSpotPrice communitySpotPrice"


def _pod() -> Any:
    """What the sweep selects of the recorded pod."""
    pod = recorded("runpod/graphql/pod_running_sweep_fields")["data"]["pod"]
    machine = {name: pod["machine"][name] for name in ("gpuDisplayName", "gpuTypeId", "secureCloud")}
    runtime = {"uptimeInSeconds": pod["runtime"]["uptimeInSeconds"]}
    return {name: pod[name] for name in POD_FIELDS.split()} | {"machine": machine, "runtime": runtime}


def _prices() -> Any:
    kinds = recorded("runpod/graphql/gpuTypes_market.response")["data"]["gpuTypes"]
    pools = ("minimumBidPrice", "uninterruptablePrice", "stockStatus")
    return [
        {name: kind[name] for name in PRICE_FIELDS.split()}
        | {cloud: {name: kind[cloud][name] for name in pools} for cloud in ("secure", "community")}
        for kind in kinds
    ]


def runpod() -> dict[str, Any]:
    balance = recorded("runpod/graphql/myself_balance")["data"]["myself"]["clientBalance"]
    stopped = _pod() | {"id": "stopped1", "desiredStatus": "EXITED", "runtime": None}
    kinds = [{name: kind[name] for name in ("id", "displayName", "memoryInGb")} for kind in _prices()]
    return {
        "query Sweep": {"data": {"myself": {"clientBalance": balance, "pods": [_pod(), stopped]}}},
        "query Balance": {"data": {"myself": {"clientBalance": balance}}},
        "query OnePod": {"data": {"pod": _pod()}},
        "query Prices": {"data": {"gpuTypes": _prices()}},
        "mutation Probe": {"data": {}},
        "mutation RentSpot": {"data": {"podRentInterruptable": {"id": POD}}},
        "mutation RentOnDemand": {"data": {"podFindAndDeployOnDemand": {"id": POD}}},
        "mutation ResumeSpot": {"data": {"podBidResume": {"id": POD}}},
        "mutation Resume": {"data": {"podResume": {"id": POD}}},
        "gpuTypes": {"data": {"gpuTypes": kinds}},
        "GET /v2/billing/pods": recorded("runpod/rest_v2/billing_pods"),
        "GET /v2/registries": {"registries": [{"id": "cregauth1", "name": "ap1.one"}]},
    }


def runpod_rest() -> dict[str, Any]:
    """Once GraphQL is withdrawn."""
    pod = recorded("runpod/rest_v2/pod_running")
    pod["env"]["AUTOPILOT_CAPACITY"] = "spot"
    priced = recorded("runpod/rest_v2/catalog_gpus")
    kind = {
        name: value
        for name, value in priced["gpus"][0].items()
        if name not in ("availability", "dataCenters", "cudaVersions")
    }
    return {
        "GET /logs": (ASSETS / "runpod/rest_v2/pod_logs.sse.txt").read_text(),
        "GET /v2/pods/": pod,
        "GET /v2/pods": {"pods": [pod, recorded("runpod/rest_v2/pod_exited") | {"id": "other1", "name": "ap1.x"}]},
        "GET /v2/catalog/gpus?include": priced,
        "GET /v2/catalog/gpus": {"gpus": [kind]},
        "GET /v2/billing/pods": recorded("runpod/rest_v2/billing_pods"),
        "POST /v2/pods": pod,
    }


BID = "bid_Ab3dEf6hIj9kLm2n"


def mithril() -> dict[str, Any]:
    """Not recorded, but written after its documents."""
    bid = recorded("mithril/bid_allocated")
    return {
        f"GET /v2/spot/bids/{BID}": bid,
        "GET /v2/spot/bids?": recorded("mithril/bids_page"),
        "GET /v2/instances/": recorded("mithril/instance_status"),
        "GET /v2/instances?": recorded("mithril/instances_page"),
        "GET /v2/instance-types": recorded("mithril/instance_types"),
        "GET /v2/spot/availability": recorded("mithril/availability"),
        "GET /v2/pricing/current": recorded("mithril/pricing_current"),
        "GET /v2/pricing/history": recorded("mithril/pricing_series"),
        "GET /v2/projects": recorded("mithril/projects"),
        "GET /v2/ssh-keys": recorded("mithril/ssh_keys"),
        "POST /v2/spot/bids": bid,
        "PATCH /v2/spot/bids": bid | {"limit_price": "$0.30"},
        "DELETE /v2/spot/bids": {},
    }


@dataclass
class RecordedMarket:
    """``bodies`` may be changed at any time. What is not among them is not found."""

    bodies: dict[str, Any]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    """Every key of ``bodies`` that was answered with."""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        words = f"{request.method} {request.path_qs}"
        if request.path.endswith("/graphql"):
            words = str(body["query"])
        elif request.path.endswith("/bundles/"):
            words = f"POST /bundles/ {body['type']}"
        key = next((key for key in self.bodies if all(part in words for part in key.split(" ", 1))), None)
        if key is None:
            return web.json_response({"title": "Gone", "status": 410, "detail": "gone"}, status=410)
        self.asked.append(key)
        found = self.bodies[key]
        return web.Response(text=found) if isinstance(found, str) else web.json_response(found)


@asynccontextmanager
async def recorded_market(bodies: dict[str, Any]) -> AsyncIterator[RecordedMarket]:
    made = RecordedMarket(copy.deepcopy(bodies))
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()
