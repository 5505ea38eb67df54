"""What answers about money look like on a terminal: rich renderables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from autopilot.answers.instances import Entry, InstanceLife, InvoiceLine, Span
from autopilot.answers.jobs import Bid
from autopilot.answers.money import (
    AccountLaunches,
    Against,
    Budget,
    Comparison,
    JobLaunches,
    ReconciledLease,
    Reconciliation,
    ScheduleMoney,
    Spend,
    TokenMoney,
)
from autopilot.cli import views
from autopilot.cli.output import facts, table
from autopilot.domain.cost_columns import list_shown
from autopilot.words import bills, readings, text

if TYPE_CHECKING:
    from rich.console import RenderableType

PURPOSES = {
    "start": "for a machine that is being rented",
    "safe_stop": "to save and stop",
    "disk": "for its disk, in case deletion is delayed",
    "traffic": "for traffic that only the bill shows",
    "unwatched": "in case it is unmonitored: it cannot end its own bill",
    "permit": "to work on while the daemon is silent",
    "unobserved": "for time when the market listed nothing",
    "hold": "for the time it is kept",
    "bill": "until the bill is complete",
}
NANO_DIGITS = 9
"""Decimals of an exact amount."""
ENTRIES_SHOWN = 30
"""On a terminal; --json has them all."""
COMPARED_WITH = {
    "on_demand": "on demand, the same market",
    "hyperscaler_list": "hyperscalers' list prices",
    "cloud_list": "other clouds' lowest list prices",
}


def spend(body: Spend, by: str, *, exact: bool = False) -> list[RenderableType]:
    parts: list[RenderableType] = [spend_table(body, by, exact=exact)]
    if compared := body.comparisons:
        parts += ["\nThe same hours elsewhere", _comparisons(compared, exact=exact), *_sources(compared)]
    if body.zone != "UTC":
        parts.append(f"\ndays are those of {text.plain(body.zone)}; sums per UTC day are divided by running hours")
    return parts


def spend_table(body: Spend, by: str, *, exact: bool = False) -> RenderableType:
    """Amounts in cents; ``exact``: with all their digits."""
    rows = body.rows
    kinds = [column.name for column in list_shown(rows)]
    amounts = text.Amounts(rows, (*kinds, "accrued", "held"), least=NANO_DIGITS if exact else 2, most=2)
    shown = [
        *amounts.sum_columns(kinds),
        amounts.sum_columns(["accrued"])[0],
        amounts.sum_columns(["held"])[0],
    ]
    columns = (by.upper(), *(name.upper() for name in kinds), *text.MONEY, "HOURS", "SAVED", "MACHINES")
    facts_of = [*rows, replace(body.total_row, key="total", name=None)]
    made = [
        (
            text.plain(row.name or row.key),
            *cells,
            _hours(row.running_s),
            text.money(row.saved),
            text.plain(row.instances),
        )
        for row, cells in zip(facts_of, zip(*shown, strict=True), strict=True)
    ]
    drop = ("HOURS", "MACHINES", "ACCRUED", "RESERVED", *(name.upper() for name in reversed(kinds)), "SAVED")
    return table(columns, made, right=columns[1:], drop=drop)


def _hours(seconds: float | None) -> str:
    return text.NONE if not seconds else f"{seconds / 3600:.1f}"


def _comparisons(compared: list[Comparison], *, exact: bool) -> RenderableType:
    rows, least = [], NANO_DIGITS if exact else 2
    for each in compared:
        spent, saved, cost = text.Amounts([each], ("spent", "saved"), least, most=2).sum_columns(["spent", "saved"])
        name = COMPARED_WITH.get(each.name, text.plain(each.name))
        rows.append((name, cost[0], spent[0], saved[0], text.percent(each.saved_share)))
    return table(("", "WOULD COST", "COST", "SAVED", "SHARE"), rows, right=("WOULD COST", "COST", "SAVED", "SHARE"))


def _sources(compared: list[Comparison]) -> list[RenderableType]:
    found = dict.fromkeys(source for each in compared if each.name != "on_demand" for source in each.sources)
    return [f"  {text.plain(source)}" for source in found]


def budget(body: Budget) -> list[RenderableType]:
    account = body.account
    columns = ("LIMIT OF", "LIMIT", *text.MONEY, "LEFT", "REACHED IN")
    limits: list[tuple[str, Against]] = []
    limits += [("day (UTC)", account.day), ("month (UTC)", account.month)] if account else []
    limits += [(f"job {job.name}", job) for job in body.jobs]
    limits += [(f"{_whose(token)}, {_period(token)}", token) for token in body.tokens]
    limits += [(f"schedule {each.name}, {_period(each)}", each) for each in body.schedules]
    rows = [
        (
            text.plain(name),
            *_against(limit),
            text.span(limit.runway_s) if limit.runway_s is not None else "not at this rate",
        )
        for name, limit in limits
    ]
    launched = [
        (f"rented in 10 min, job {text.plain(job.name)}", _count_launches(job.launches))
        for job in body.jobs
        if job.launches.rented or job.launches.refused
    ]
    if account is None:  # a token that sees its own jobs alone
        return [_limits(columns, rows), "", facts([*_held_lines(body), *launched])]
    reaches = " (capped by the limit)" if account.forecast_reaches_limit else ""
    lines = [
        ("spend rate", f"{text.per_hour(account.burn)}, at most {text.per_hour(account.burn_at_most)}"),
        ("hourly limit", text.per_hour(account.max_hourly) if account.max_hourly is not None else "none"),
        ("machines", f"{account.instances} of {account.max_instances}"),
        ("rented in an hour", _count_launches(account.launches, account.launches.kept_back)),
        *launched,
        ("month end", f"about {text.money(account.forecast_month)} at this rate{reaches}"),
        *(
            (
                f"credit on {text.plain(market.name)}",
                "unknown"
                if market.credit is None
                else text.money(market.credit)
                + (f", lasts {text.span(market.runway_s)}" if market.runway_s is not None else ""),
            )
            for market in account.markets
        ),
    ]
    return [_limits(columns, rows), "", facts([*_held_lines(body), *lines])]


def _limits(columns: Sequence[str], rows: list[tuple[str, ...]]) -> RenderableType:
    return table(columns, rows, right=columns[1:], drop=("ACCRUED", "RESERVED", "POSTED", "LIMIT"))


def _whose(token: TokenMoney) -> str:
    """The token's name, with its maker if that is a token too: it also counts in the maker's line."""
    made_by = token.made_by or ""
    of_maker = f" (of {made_by})" if made_by.startswith(("token:", "proxy:")) else ""
    return f"{'token' if token.number > 0 else 'user'} {token.name}{of_maker}"


def _period(limited: TokenMoney | ScheduleMoney) -> str:
    return "month (UTC)" if limited.is_monthly else "in total"


def _count_launches(launches: AccountLaunches | JobLaunches, kept_back: int = 0) -> str:
    """``3 of 20 (5 kept for urgent deadlines), 12 of 200 refused``."""
    kept = f" ({kept_back} kept for urgent deadlines)" if kept_back else ""
    refused = f"{launches.refused} of {launches.refused_limit} refused"
    return f"{launches.rented} of {launches.limit}{kept}, {refused}"


def _against(limit: Against) -> tuple[str, ...]:
    """The limit, its parts, and what they leave of it."""
    if limit.limit is None:
        amounts = text.Amounts([limit], ("posted", "accrued", "held"))
        return ("none", *(amounts.sum_columns([name])[0][0] for name in ("posted", "accrued", "held")), text.NONE)
    names = ("posted", "accrued", "held", "left")
    *parts, whole = text.Amounts([limit], names).sum_columns(names)
    return (whole[0], *(part[0] for part in parts))


def _held_lines(body: Budget) -> list[tuple[str, str]]:
    """The reserves and their purposes: for each job, and for the account if they belong to no job."""
    holders = [(f"reserved, job {text.plain(job.name)}", job.held_for) for job in body.jobs]
    whole = [] if body.account is None else [("reserved in total", body.account.held_for)]
    return [(name, held_for(parts)) for name, parts in (*holders, *whole) if parts]


def held_for(parts: Mapping[str, Decimal]) -> str:
    """``$0.04 to save and stop, $0.06 for traffic``."""
    return ", ".join(
        f"{text.money(amount, 4)} {PURPOSES.get(name, text.plain(name))}" for name, amount in parts.items()
    )


def reconciliation(body: Reconciliation) -> list[RenderableType]:
    rows = body.rows
    if not rows:
        return [f"nothing was spent in {text.plain(body.month)}"]
    amounts = text.Amounts(rows, ("estimate", "corrected", "invoiced", "not_billed", "accrued", "held"))
    estimate, corrected, posted = amounts.sum_columns(["estimate", "corrected"])
    invoiced, not_billed, _ = amounts.sum_columns(["invoiced", "not_billed"])
    accrued, held = amounts.sum_columns(["accrued"])[0], amounts.sum_columns(["held"])[0]
    invoiced = [text.NONE if row.invoiced is None else cell for row, cell in zip(rows, invoiced, strict=False)] + [
        invoiced[-1]
    ]
    numbers = zip(estimate, corrected, posted, invoiced, not_billed, accrued, held, strict=True)
    names = [(f"{row.provider} {row.instance_id or row.lease_id}", _tell_wait(row)) for row in rows]
    made = [
        (text.plain(machine), *cells, wait)
        for (machine, wait), cells in zip([*names, ("total", "")], numbers, strict=True)
    ]
    columns = ("INSTANCE", "ESTIMATE", "CORRECTED", "POSTED", "INVOICED", "UNBILLED", "ACCRUED", "RESERVED", "BILL")
    drop = ("ESTIMATE", "CORRECTED", "RESERVED", "ACCRUED", "UNBILLED", "BILL")
    parts: list[RenderableType] = [table(columns, made, right=columns[1:-1], drop=drop)]
    if body.not_invoiced:
        parts.append(f"{body.not_invoiced} not billed by their markets yet")
    return parts


def _tell_wait(row: ReconciledLease) -> str:
    is_billed = row.invoiced is not None
    return bills.tell_wait(row.waits_for, row.posted, is_billed=is_billed, again=row.second_look_at)


def instance(life: InstanceLife, now: datetime, *, with_fields: bool = False) -> list[RenderableType]:
    lease, gpu = life.lease, text.gpu(life.lease.num_gpus, life.lease.gpu)
    job = f"{text.plain(lease.job)} ({text.plain(lease.job_id)})" if lease.job else "none of ours"
    parts: list[RenderableType] = [
        facts(
            [
                ("instance", f"{text.plain(lease.instance_id)} on {text.plain(lease.provider)}"),
                ("lease", f"{text.plain(lease.id)}, {text.plain(lease.state)}: {text.plain(lease.reason)}"),
                ("label", text.plain(lease.label)),
                ("job", job),
                ("machine", f"{gpu}, {text.plain(lease.machine_id)}, host {text.plain(lease.host_id)}"),
                *[("readings", told) for told in [readings.tell(lease, now)] if told],
                ("rented", f"{text.plain(lease.capacity_type)}, {text.when(lease.intended_at, now)}"),
                ("ran", text.span(lease.running_s)),
                ("gone", text.when(lease.gone_at, now)),
                ("settled", text.when(lease.settled_at, now)),
                ("posted", text.money(lease.posted, 4)),
                ("accrued", text.money(lease.accrued, 4)),
                ("reserved", text.money(lease.held, 4)),
                ("bill", bills.tell_wait(lease.waits_for, lease.posted, is_billed=bool(life.invoice_lines))),
            ]
        )
    ]
    for title, made in (
        ("States and prices", _spans(life.spans)),
        ("Bids", _bids(life.bids)),
        ("Ledger", _entries(life.entries)),
        ("Billed by the market", _lines(life.invoice_lines)),
        ("Events", views.event_list(life.events, with_fields=with_fields) if life.events else None),
    ):
        if made is not None:
            parts += [f"\n{title}", made]
    if len(life.entries) > ENTRIES_SHOWN:
        parts.append(f"the ledger's last {ENTRIES_SHOWN} of {len(life.entries)} entries are shown")
    return parts


def _spans(spans: list[Span]) -> RenderableType | None:
    rows = [
        (
            text.clock_time(span.started_at),
            text.clock_time(span.ended_at) if span.ended_at else "now",
            text.plain(span.status),
            text.per_hour(span.billed_rate),
            text.per_hour(span.storage_rate),
        )
        for span in spans
    ]
    return table(("FROM (UTC)", "TO", "STATUS", "BILLED", "DISK"), rows, right=("BILLED", "DISK")) if rows else None


def _bids(bids: list[Bid]) -> RenderableType | None:
    rows = [(text.clock_time(bid.at), text.per_hour(bid.bid), text.plain(bid.outcome)) for bid in bids]
    return table(("AT (UTC)", "BID", "OUTCOME"), rows, right=("BID",)) if rows else None


def _entries(entries: list[Entry]) -> RenderableType | None:
    rows = [
        (
            text.clock_time(entry.posted_at),
            text.plain(entry.day),
            text.plain(entry.type),
            text.plain(entry.kind).replace("_", " "),
            text.money(entry.amount, 6),
        )
        for entry in entries[-ENTRIES_SHOWN:]
    ]
    columns = ("POSTED (UTC)", "DAY", "ENTRY", "KIND", "AMOUNT")
    return table(columns, rows, right=("AMOUNT",)) if rows else None


def _lines(lines: list[InvoiceLine]) -> RenderableType | None:
    rows = [
        (
            text.plain(line.day),
            text.plain(line.kind).replace("_", " "),
            text.money(line.amount, 4),
            text.plain(line.revision),
            text.clock_time(line.seen_at),
        )
        for line in lines
    ]
    columns = ("DAY", "KIND", "AMOUNT", "REVISION", "SEEN (UTC)")
    return table(columns, rows, right=("AMOUNT", "REVISION")) if rows else None
