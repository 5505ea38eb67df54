"""The paged list of instances, ``/api/v1/instances/``."""

from __future__ import annotations

import base64
import json
from collections import Counter
from datetime import timedelta

from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.query import matches, sort_rows
from autopilot_lab.sandbox.vastai.replies import (
    HttpReply,
    Json,
    failure,
    invalid_body,
    invalid_search_key,
    invalid_token,
)
from autopilot_lab.sandbox.vastai.rows import instance_row

STORED_COLUMNS = frozenset(
    {"id", "label", "machine_id", "host_id", "actual_status", "intended_status", "cur_state", "next_state"}
    | {"gpu_name", "verification", "is_bid", "image_uuid", "geolocation", "start_date", "end_date", "template_id"}
)
_MAX_LIMIT = 25
_SMALL_LIMIT = 5


def list_instances(call: Call) -> HttpReply:
    filters = call.json_query("select_filters", "{}")
    order = call.json_query("order_by", '[{"col": "id", "dir": "asc"}]')
    columns = call.json_query("select_cols", "null")
    if not isinstance(filters, dict) or not isinstance(order, list) or not isinstance(columns, list | None):
        raise invalid_body()
    sorting = [(str(item.get("col")), str(item.get("dir", "asc"))) for item in order if isinstance(item, dict)]
    for name in [*filters, *(column for column, _ in sorting)]:
        if name not in STORED_COLUMNS:
            raise invalid_search_key(str(name))
    everything = [instance_row(call.market, instance) for instance in _visible(call)]
    rows = [row for row in everything if all(matches(row[name], condition) for name, condition in filters.items())]
    rows = sort_rows(rows, [*sorting, ("id", "asc")])
    page, token = _page(rows, call.query.get("after_token"), _limit(call.query.get("limit")))
    if call.has_fault("truncated_page"):
        page, token = page[: len(page) // 2], None
    if call.has_fault("null_fields"):
        page = [{**row, "start_date": None, "extra_env": None} for row in page]
    if columns is not None:
        page = [{str(name): row.get(str(name)) for name in columns} for row in page]
    return HttpReply(
        {
            "success": True,
            "instances_found": len(page),
            "total_instances": len(rows),
            "label_counts": dict(Counter(str(row["label"] or "") for row in everything)),
            "next_token": token,
            "instances": page,
        }
    )


def list_instances_v0(call: Call) -> HttpReply:
    raise failure(410, "deprecated_endpoint", "This endpoint is deprecated, use /api/v1/instances/")


def _visible(call: Call) -> list[Contract]:
    """The live instances, as the list knew them some seconds ago when it lags behind."""
    lag_s = call.site.list_lag_s
    if call.fault is not None and call.fault.kind == "stale_list":
        lag_s = call.fault.lag_s
    seen_at = call.market.now - timedelta(seconds=lag_s)
    return [
        instance
        for instance in call.market.instances.values()
        if instance.created_at <= seen_at and (instance.destroyed_at is None or instance.destroyed_at > seen_at)
    ]


def _limit(text: str | None) -> int:
    try:
        limit = int(text) if text else _SMALL_LIMIT
    except ValueError:
        raise invalid_body() from None
    return min(limit, _MAX_LIMIT) if limit > 0 else _SMALL_LIMIT


def _page(rows: list[Json], token: str | None, limit: int) -> tuple[list[Json], str | None]:
    """The rows after the one that ``token`` names, and the token of the next page."""
    start = 0
    if token:
        last_id, index = _read_token(token)
        ids = [row["id"] for row in rows]
        # A row that has gone since leaves its place to the next one.
        start = ids.index(last_id) + 1 if last_id in ids else index
    page = rows[start : start + limit]
    more = start + limit < len(rows)
    return page, _write_token(page[-1]["id"], start + limit - 1) if more else None


def _write_token(last_id: object, index: int) -> str:
    return base64.urlsafe_b64encode(json.dumps({"values": {"id": last_id, "n": index}}).encode()).decode()


def _read_token(token: str) -> tuple[int, int]:
    try:
        values = json.loads(base64.urlsafe_b64decode(token.encode()))["values"]
        return int(values["id"]), int(values.get("n", 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise invalid_token() from None
