"""The account and its charges: one row for each instance and UTC day, every line rounded to a tenth of a cent."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal

from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.market.market import SandboxMarket
from autopilot_lab.sandbox.market.metering import DISK, GPU, BillLine
from autopilot_lab.sandbox.units import start_of_day
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.query import matches
from autopilot_lab.sandbox.vastai.replies import Failure, HttpReply, Json, invalid_body, invalid_token

BILLED_AFTER = timedelta(hours=40)
"""From the create, where the bill is late."""
_MAX_LIMIT = 500
_DEFAULT_LIMIT = 20


def current_user(call: Call) -> HttpReply:
    return HttpReply(
        {
            "id": call.site.account_id,
            "email": "dev@example.com",
            "balance": 0.0,
            "credit": float(call.market.credit),
            "ssh_key": None,
            "sid": "sandbox",
            "key_id": 77,
            "balance_threshold": 5.0,
            "balance_threshold_enabled": call.market.tops_up,
        }
    )


def charges(call: Call) -> HttpReply:
    filters = call.json_query("select_filters", "{}")
    if not isinstance(filters, dict):
        raise invalid_body()
    days = filters.get("day")
    if not isinstance(days, dict) or not {"gte", "lte"} <= set(days):
        msg = "Must provide both 'day' gte and lte filters for instance charges"
        raise Failure(HttpReply({"success": False, "msg": msg}, 400))
    rows = [row for row in _rows(call.market) if matches(row["start"], days)]
    rows = [row for row in rows if matches(row["type"], filters.get("type", {}))]
    if call.query.get("latest_first") == "true":
        rows.reverse()
    start = _read_token(call.query.get("after_token"))
    page = rows[start : start + _limit(call.query.get("limit"))]
    end = start + len(page)
    return HttpReply(
        {
            "success": True,
            "count": len(page),
            "total": len(rows),
            "next_token": _write_token(end) if end < len(rows) else None,
            "results": page,
        }
    )


def billed_total(market: SandboxMarket, instance: Contract) -> Decimal:
    """The sum of all lines billed for the instance so far."""
    return sum((line.amount for line in instance.meter.lines(market.now)), Decimal(0))


def _rows(market: SandboxMarket) -> list[Json]:
    """Oldest day first."""
    rows: list[tuple[date, int, Json]] = []
    for instance in market.instances.values():
        if "bill-in-a-day" in market.broken and market.now < instance.created_at + BILLED_AFTER:
            continue
        by_day: dict[date, list[BillLine]] = defaultdict(list)
        for line in instance.meter.lines(market.now):
            by_day[line.day].append(line)
        rows.extend((day, instance.id, _row(instance, day, lines)) for day, lines in by_day.items())
    return [row for _, _, row in sorted(rows, key=lambda item: item[:2])]


def _row(instance: Contract, day: date, lines: list[BillLine]) -> Json:
    return {
        **_frame(day),
        "type": "instance",
        "source": f"instance-{instance.id}",
        "description": f"Instance {instance.id} Charges - 1 day",
        "amount": float(sum((line.amount for line in lines), Decimal(0))),
        "metadata": {"label": instance.label} if instance.label else {},
        "items": [
            {
                **_frame(day),
                "type": line.kind,
                "source": None,
                "description": _description(line),
                "amount": float(line.amount),
                "metadata": {},
                "items": [],
            }
            for line in lines
        ],
    }


def _frame(day: date) -> Json:
    start = start_of_day(day)
    return {"start": int(start.timestamp()), "end": int((start + timedelta(days=1)).timestamp())}


def _description(line: BillLine) -> str:
    if line.kind in (GPU, DISK):
        return f"{float(line.quantity):.3f} hours at ${float(line.price):.3f}/hour"
    return f"{float(line.quantity):.3f} GB at ${float(line.price):.3f}/GB"


def _limit(text: str | None) -> int:
    try:
        limit = int(text) if text else _DEFAULT_LIMIT
    except ValueError:
        raise invalid_body() from None
    return min(max(limit, 1), _MAX_LIMIT)


def _write_token(end: int) -> str:
    return base64.urlsafe_b64encode(json.dumps({"values": {"n": end}}).encode()).decode()


def _read_token(token: str | None) -> int:
    if not token:
        return 0
    try:
        return max(int(json.loads(base64.urlsafe_b64decode(token.encode()))["values"]["n"]), 0)
    except (ValueError, KeyError, TypeError):
        raise invalid_token() from None
