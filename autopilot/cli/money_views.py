"""What answers about money look like on a terminal: JSON bodies in, rich renderables out."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from autopilot.cli import text, views
from autopilot.cli.output import facts, table

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = dict[str, Any]

ENTRIES_SHOWN = 30
"""On a terminal; --json has them all."""
COMPARED_WITH = {
    "on_demand": "on demand, the same market",
    "hyperscaler_list": "hyperscalers' list prices",
    "cloud_list": "other clouds' lowest list prices",
}


def spend(body: Row, by: str) -> list[RenderableType]:
    parts: list[RenderableType] = [spend_table(body, by)]
    if compared := body.get("comparisons"):
        parts += ["\nThe same hours elsewhere", _comparisons(compared), *_sources(compared)]
    if body.get("zone", "UTC") != "UTC":
        parts.append(
            f"\ndays are those of {text.plain(body['zone'])}; sums per UTC day are shared out by running hours"
        )
    return parts


def spend_table(body: Row, by: str) -> RenderableType:
    money = ["compute", "storage", "bandwidth", "fees", "total"]
    rows = [*body["rows"], body["total_row"] | {"key": "total", "name": None}]
    if not any(Decimal(row.get("fees") or 0) for row in rows):
        money.remove("fees")
    columns = (by.upper(), *(name.upper() for name in money), "HOURS", "SAVED", "MACHINES")
    made = [
        (
            text.plain(row.get("name") or row["key"]),
            *(text.money(row.get(name), 4) for name in money),
            _hours(row.get("running_s")),
            text.money(row.get("saved")),
            text.plain(row.get("instances")),
        )
        for row in rows
    ]
    return table(columns, made, right=columns[1:])


def _hours(seconds: float | None) -> str:
    return text.NONE if not seconds else f"{seconds / 3600:.1f}"


def _comparisons(compared: list[Row]) -> RenderableType:
    rows = [
        (
            COMPARED_WITH.get(each["name"], text.plain(each["name"])),
            text.money(each["cost"]),
            text.money(each["spent"]),
            text.money(each["saved"]),
            text.percent(each["saved_share"]),
        )
        for each in compared
    ]
    return table(("", "WOULD COST", "COST", "SAVED", "SHARE"), rows, right=("WOULD COST", "COST", "SAVED", "SHARE"))


def _sources(compared: list[Row]) -> list[RenderableType]:
    found = dict.fromkeys(source for each in compared if each["name"] != "on_demand" for source in each["sources"])
    return [f"  {text.plain(source)}" for source in found]


def budget(body: Row) -> list[RenderableType]:
    account = body["account"]
    columns = ("LIMIT OF", "LIMIT", "SPENT", "COMMITTED", "LEFT", "REACHED IN")
    limits = [(name, account[period]) for name, period in (("day (UTC)", "day"), ("month (UTC)", "month"))]
    limits += [(f"job {job['name']}", job) for job in body["jobs"]]
    rows = [
        (
            text.plain(name),
            "none" if limit["limit"] is None else text.money(limit["limit"]),
            text.money(limit["spent"], 4),
            text.money(limit["committed"], 4),
            text.money(limit["left"]),
            text.span(limit["runway_s"]) if limit["runway_s"] is not None else "not at this burn",
        )
        for name, limit in limits
    ]
    reaches = " (held there by the limit)" if account["forecast_reaches_limit"] else ""
    lines = [
        ("burning now", f"{text.per_hour(account['burn'])}, at most {text.per_hour(account['burn_at_most'])}"),
        ("hourly limit", text.per_hour(account["max_hourly"]) if account["max_hourly"] is not None else "none"),
        ("machines", f"{account['instances']} of {account['max_instances']}"),
        ("the month's end", f"about {text.money(account['forecast_month'])} at this burn{reaches}"),
        *(
            (
                f"credit on {text.plain(market['name'])}",
                "unknown"
                if market["credit"] is None
                else text.money(market["credit"])
                + (f", lasts {text.span(market['runway_s'])}" if market["runway_s"] is not None else ""),
            )
            for market in account["markets"]
        ),
    ]
    return [table(columns, rows, right=columns[1:]), "", facts(lines)]


def reconciliation(body: Row) -> list[RenderableType]:
    if not body["rows"]:
        return [f"nothing was spent in {text.plain(body['month'])}"]
    columns = ("MARKET", "INSTANCE", "GPU", "ESTIMATE", "POSTED", "INVOICED", "DRIFT")
    total = body["total"] | {"provider": "total", "instance_id": "", "gpu": ""}
    rows = [
        (
            text.plain(row["provider"]),
            text.plain(row["instance_id"] or row.get("lease_id")) if row is not total else "",
            text.plain(row["gpu"]) if row is not total else "",
            *(text.money(row[name], 4) for name in ("estimate", "posted", "invoiced", "drift")),
        )
        for row in [*body["rows"], total]
    ]
    parts: list[RenderableType] = [table(columns, rows, right=columns[3:])]
    if body["not_invoiced"]:
        parts.append(f"{body['not_invoiced']} not billed by their markets yet")
    return parts


def instance(life: Row, now: datetime) -> list[RenderableType]:
    lease = life["lease"]
    job = f"{text.plain(lease['job'])} ({text.plain(lease['job_id'])})" if lease["job"] else "none of ours"
    parts: list[RenderableType] = [
        facts(
            [
                ("instance", f"{text.plain(lease['instance_id'])} on {text.plain(lease['provider'])}"),
                ("lease", f"{text.plain(lease['id'])}, {text.plain(lease['state'])}: {text.plain(lease['reason'])}"),
                ("label", text.plain(lease["label"])),
                ("job", job),
                (
                    "machine",
                    f"{text.gpu(lease)}, {text.plain(lease['machine_id'])}, host {text.plain(lease['host_id'])}",
                ),
                ("rented", f"{text.plain(lease['capacity_type'])}, {text.when(lease['intended_at'], now)}"),
                ("ran", text.span(lease["running_s"])),
                ("gone", text.when(lease["gone_at"], now)),
                ("settled", text.when(lease["settled_at"], now)),
                ("cost", f"{text.money(lease['posted'], 4)} posted, {text.money(lease['cost'], 4)} by our own clock"),
            ]
        )
    ]
    for title, made in (
        ("What it was, at what price", _spans(life["spans"])),
        ("Bids", _bids(life["bids"])),
        ("Ledger", _entries(life["entries"])),
        ("Billed by the market", _lines(life["invoice_lines"])),
        ("Events", views.event_list(life["events"]) if life["events"] else None),
    ):
        if made is not None:
            parts += [f"\n{title}", made]
    if len(life["entries"]) > ENTRIES_SHOWN:
        parts.append(f"the ledger's last {ENTRIES_SHOWN} of {len(life['entries'])} entries are shown")
    return parts


def _spans(spans: list[Row]) -> RenderableType | None:
    rows = [
        (
            text.clock_time(span["started_at"]),
            text.clock_time(span["ended_at"]) if span["ended_at"] else "now",
            text.plain(span["status"]),
            text.per_hour(span["billed_rate"]),
            text.per_hour(span["storage_rate"]),
        )
        for span in spans
    ]
    return table(("FROM (UTC)", "TO", "STATUS", "BILLED", "DISK"), rows, right=("BILLED", "DISK")) if rows else None


def _bids(bids: list[Row]) -> RenderableType | None:
    rows = [(text.clock_time(bid["at"]), text.per_hour(bid["bid"]), text.plain(bid["outcome"])) for bid in bids]
    return table(("AT (UTC)", "BID", "OUTCOME"), rows, right=("BID",)) if rows else None


def _entries(entries: list[Row]) -> RenderableType | None:
    rows = [
        (
            text.clock_time(entry["posted_at"]),
            text.plain(entry["day"]),
            text.plain(entry["type"]),
            text.plain(entry["kind"]).replace("_", " "),
            text.money(entry["amount"], 6),
        )
        for entry in entries[-ENTRIES_SHOWN:]
    ]
    columns = ("POSTED (UTC)", "DAY", "ENTRY", "KIND", "AMOUNT")
    return table(columns, rows, right=("AMOUNT",)) if rows else None


def _lines(lines: list[Row]) -> RenderableType | None:
    rows = [
        (
            text.plain(line["day"]),
            text.plain(line["kind"]).replace("_", " "),
            text.money(line["amount"], 4),
            text.plain(line["revision"]),
            text.clock_time(line["seen_at"]),
        )
        for line in lines
    ]
    columns = ("DAY", "KIND", "AMOUNT", "REVISION", "SEEN (UTC)")
    return table(columns, rows, right=("AMOUNT", "REVISION")) if rows else None
