"""Every endpoint: method, path, family (for pacing and faults), who may call it, what answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from autopilot_lab.sandbox.vastai import billing, fixed, instances, listing, logs, offers
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.replies import HttpReply, Json

Endpoint = Callable[[Call], HttpReply]


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    family: str
    endpoint: Endpoint
    public: bool = False
    instance_key_allowed: bool = False
    unknown_key_status: int = 401


def _fixed_reply(body: Json, call: Call) -> HttpReply:
    return HttpReply(body)


ROUTES: tuple[Route, ...] = (
    Route("POST", "/api/v0/bundles/", "search", offers.search, unknown_key_status=404),
    Route("GET", "/api/v0/bundles/", "search", offers.search_by_url, public=True),
    Route("PUT", "/api/v0/search/asks/", "search", offers.search_asks, unknown_key_status=404),
    Route("GET", "/api/v0/gpu_names/unique/", "names", fixed.gpu_names, public=True),
    Route("POST", "/api/v0/asks/bulk/", "create", offers.create_bulk),
    Route("PUT", "/api/v0/asks/{id}/", "create", offers.create),
    Route("GET", "/api/v1/instances/", "list", listing.list_instances),
    Route("GET", "/api/v0/instances/", "list", listing.list_instances_v0),
    Route("GET", "/api/v0/instances/filters/", "other", instances.filters),
    Route("PUT", "/api/v0/instances/bid_price/{id}/", "bid", instances.change_bid),
    Route("PUT", "/api/v0/instances/reboot/{id}/", "state", instances.reboot),
    Route("PUT", "/api/v0/instances/recycle/{id}/", "state", instances.reboot),
    Route("PUT", "/api/v0/instances/update_template/{id}/", "state", fixed.touch_instance),
    Route("PUT", "/api/v0/instances/prepay/{id}/", "other", fixed.touch_instance),
    Route("POST", "/api/v0/instances/take_snapshot/{id}/", "other", fixed.touch_instance),
    Route("PUT", "/api/v0/instances/request_logs/{id}/", "logs", logs.request_logs),
    Route("PUT", "/api/v0/instances/command/{id}/", "execute", fixed.execute),
    Route("PUT", "/api/v0/instances/accept-price-increase/", "other", fixed.no_price_increase),
    Route("PUT", "/api/v0/instances/reject-price-increase/", "other", fixed.no_price_increase),
    Route("POST", "/api/v0/instances/{id}/ssh/", "keys", instances.attach_key),
    Route("DELETE", "/api/v0/instances/{id}/ssh/{key_id}/", "keys", instances.detach_key),
    *(Route(method, path, "other", partial(_fixed_reply, body)) for (method, path), body in fixed.ANSWERS.items()),
    Route("PUT", "/api/v0/instances/", "state", instances.change_state_bulk),
    Route("DELETE", "/api/v0/instances/", "destroy", instances.destroy_bulk),
    Route("GET", "/api/v0/instances/{id}/", "show", instances.show, instance_key_allowed=True),
    Route("PUT", "/api/v0/instances/{id}/", "state", instances.change_state, instance_key_allowed=True),
    Route("DELETE", "/api/v0/instances/{id}/", "destroy", instances.destroy, instance_key_allowed=True),
    Route("GET", "/api/v0/users/current", "user", billing.current_user),
    Route("GET", "/api/v0/users/current/", "user", billing.current_user),
    Route("GET", "/api/v0/charges/", "charges", billing.charges, unknown_key_status=404),
    Route("GET", "/api/v0/notifications/inbox/", "inbox", instances.inbox),
    Route("GET", "/s3/{name}", "other", logs.fetch_log, public=True),
)
"""Fixed paths come before those with a parameter in the same place."""
