"""Endpoints beside the renter's path: they answer in the provider's shape and change nothing."""

from __future__ import annotations

from autopilot.domain.gpu_names import NAMES
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.replies import OK, HttpReply, Json, failure

ANSWERS: dict[tuple[str, str], Json] = {
    ("GET", "/api/v0/ssh/"): {"success": True, "ssh_keys": []},
    ("POST", "/api/v0/ssh/"): {"success": True},
    ("PUT", "/api/v0/commands/copy_direct/"): {"success": True},
    ("DELETE", "/api/v0/commands/copy_direct/"): {"success": True},
    ("PUT", "/api/v0/commands/rsync/"): {"success": True},
    ("POST", "/api/v0/commands/rclone/"): {"success": True},
    ("DELETE", "/api/v0/commands/rclone/"): {"success": True},
    ("GET", "/api/v0/commands/schedule_job/"): {"success": True, "schedule_jobs": []},
    ("PUT", "/api/v0/commands/transfer_credit/"): {"success": True},
    ("GET", "/api/v0/users/cloud_integrations/"): {"success": True, "cloud_integrations": []},
    ("GET", "/api/v0/users/me/ipaddrs"): {"success": True, "results": []},
    ("GET", "/api/v0/users/me/invoices"): {"success": True, "invoices": [], "current": {"charges": 0.0}},
    ("GET", "/api/v0/users/me/machine-earnings"): {"success": True, "summary": {}, "per_day": [], "per_machine": []},
    ("PUT", "/api/v0/users/"): {"success": True},
    ("GET", "/api/v0/invoices"): {"success": True, "invoices": []},
    ("POST", "/api/v0/volumes/search/"): {"success": True, "offers": []},
    ("PUT", "/api/v0/volumes/"): {"success": True, "volume_name": "V.20118481"},
    ("GET", "/api/v0/volumes"): {"success": True, "volumes": []},
    ("DELETE", "/api/v0/volumes/"): {"success": True},
    ("POST", "/api/v0/volumes/copy/"): {"success": True},
    ("GET", "/api/v0/secrets/"): {"success": True, "secrets": {}},
    ("POST", "/api/v0/secrets/"): {"success": True},
    ("PUT", "/api/v0/secrets/"): {"success": True},
    ("DELETE", "/api/v0/secrets/"): {"success": True},
    ("POST", "/api/v0/contracts/fetch/"): {"success": True, "contracts": []},
    ("GET", "/api/v0/instances/pending-price-increases/"): {"success": True, "pending_price_increases": []},
    ("GET", "/api/v0/auth/apikeys/"): {"success": True, "apikeys": []},
    ("POST", "/api/v0/auth/apikeys/"): {"success": True, "key": "0" * 64},
    ("GET", "/api/v0/audit_logs/"): {"success": True, "audit_logs": []},
    ("GET", "/api/v0/instances/balance/{id}/"): {"success": True, "balance": 0.0},
    ("GET", "/api/v1/invoices/"): {"success": True, "count": 0, "total": 0, "next_token": None, "results": []},
}


def gpu_names(call: Call) -> HttpReply:
    """Every kind of GPU that was ever offered, whether one is free or not."""
    offered = {each.spec.gpu_name for each in call.site.market.machines.values()}
    return HttpReply({"success": True, "gpu_names": sorted({*NAMES, *offered})})


def touch_instance(call: Call) -> HttpReply:
    """Accepted for an instance that exists: template updates, prepayment, snapshots."""
    call.instance()
    return OK


def execute(call: Call) -> HttpReply:
    call.instance()
    raise failure(400, "invalid_args", "Only a running machine's own host can execute commands.")


def no_price_increase(call: Call) -> HttpReply:
    raise failure(404, "no_pending_price_increase", "No pending price increase.")
