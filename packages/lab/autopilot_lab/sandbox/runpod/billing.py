"""REST v2 billing: what pods cost, bucket by bucket, as far as the (late) books reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from autopilot_lab.sandbox.market.metering import DISK, GPU, Meter, to_decimal
from autopilot_lab.sandbox.runpod.exchange import Exchange
from autopilot_lab.sandbox.runpod.pods import Pod
from autopilot_lab.sandbox.runpod.refusals import invalid
from autopilot_lab.sandbox.runpod.rest_rows import seconds
from autopilot_lab.sandbox.runpod.rows import Json, number
from autopilot_lab.sandbox.units import NANO

BucketSize = Literal["hour", "day", "week", "month", "year"]
_SIZES: tuple[BucketSize, ...] = ("hour", "day", "week", "month", "year")
_DEFAULT_BUCKETS = 30
LATE = timedelta(hours=40)
"""How much later than configured the bill is, where it takes more than a day."""
_MAX_BUCKETS = 1000


def pod_billing(market: Exchange, query: Mapping[str, str], team: str | None, lag_s: float) -> Json:
    """Raises ``PodRefused`` for a query that makes no sense."""
    size, start, end = _period(query, market.now)
    pods = [pod for pod in market.pods.values() if pod.order.team == team]
    if "podId" in query:
        pods = [pod for pod in pods if pod.id == query["podId"]]
    late = LATE if "bill-in-a-day" in market.broken else timedelta(0)
    known_until = market.now - timedelta(seconds=lag_s) - late
    records = []
    for begin, finish in _buckets(size, start, end):
        for pod in pods:
            if record := _record(pod.meter, begin, min(finish, known_until)):
                records.append({"startTime": seconds(begin), "endTime": seconds(finish), "podId": pod.id, **record})
    return _answer(records, query, size, start, end, "uniquePodCount", len({record["podId"] for record in records}))


def network_volume_billing(market: Exchange, query: Mapping[str, str], lag_s: float) -> Json:
    """Raises ``PodRefused`` for a query that makes no sense."""
    size, start, end = _period(query, market.now)
    known_until = market.now - timedelta(seconds=lag_s)
    records = []
    for begin, finish in _buckets(size, start, end):
        for volume in market.network_volumes.values():
            if record := _record(volume.meter, begin, min(finish, known_until)):
                about = {"startTime": seconds(begin), "endTime": seconds(finish), "networkVolumeId": volume.id}
                records.append({**about, **record})
    count = len({record["networkVolumeId"] for record in records})
    return _answer(records, query, size, start, end, "uniqueNetworkVolumeCount", count)


def billed_total(market: Exchange, pod: Pod, lag_s: float) -> Decimal:
    """The sum of all day records of the pod that billing shows by now."""
    known_until = market.now - timedelta(seconds=lag_s)
    amounts = [
        _amounts(pod.meter, begin, min(finish, known_until))
        for begin, finish in _buckets("day", pod.created_at, market.now + timedelta(days=1))
    ]
    return sum((gpu + disk for gpu, disk in amounts), Decimal(0))


def _record(meter: Meter, start: datetime, end: datetime) -> Json | None:
    gpu, disk = _amounts(meter, start, end)
    if not gpu + disk:
        return None
    return {
        "totalAmount": number(gpu + disk),
        "gpuAmount": number(gpu),
        "cpuAmount": 0,
        "diskAmount": number(disk),
    }


def _amounts(meter: Meter, start: datetime, end: datetime) -> tuple[Decimal, Decimal]:
    cost = meter.cost_between(start, end)
    return to_decimal(cost[GPU], NANO), to_decimal(cost[DISK], NANO)


def _answer(
    records: list[Json], query: Mapping[str, str], size: str, start: datetime, end: datetime, counted: str, count: int
) -> Json:
    names = ("totalAmount", "gpuAmount", "cpuAmount", "diskAmount")
    totals = {name: number(sum((Decimal(str(record[name])) for record in records), Decimal(0))) for name in names}
    asked = {"startTime": seconds(start), "endTime": seconds(end), "bucketSize": size}
    asked |= {"podId": query["podId"]} if "podId" in query else {}
    return {
        "records": records,
        "metadata": {"query": asked, "recordCount": len(records), "totals": totals, counted: count},
    }


def _period(query: Mapping[str, str], now: datetime) -> tuple[BucketSize, datetime, datetime]:
    size = query.get("bucketSize", "day")
    if size not in _SIZES:
        raise invalid(f"bucketSize must be one of {', '.join(_SIZES)}")
    if "startTime" in query:
        start = _instant(query["startTime"], "startTime")
        return size, start, _instant(query["endTime"], "endTime") if "endTime" in query else now
    text = query.get("lastN", str(_DEFAULT_BUCKETS))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_BUCKETS):
        raise invalid(f"lastN must be a whole number up to {_MAX_BUCKETS}")
    start = _floor(size, now)
    for _ in range(int(text) - 1):
        start = _floor(size, start - timedelta(microseconds=1))
    return size, start, now


def _instant(text: str, name: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"{name} must be a time as in RFC 3339") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _buckets(size: BucketSize, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Whole buckets, the first of which contains ``start``."""
    begin = _floor(size, start)
    for _ in range(_MAX_BUCKETS):
        if begin >= end:
            return
        finish = _following(size, begin)
        yield begin, finish
        begin = finish


def _floor(size: BucketSize, instant: datetime) -> datetime:
    hour = instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    if size == "hour":
        return hour
    if size == "week":
        return day - timedelta(days=day.weekday())
    if size == "month":
        return day.replace(day=1)
    return day.replace(month=1, day=1) if size == "year" else day


def _following(size: BucketSize, begin: datetime) -> datetime:
    longest = {"hour": 1 / 24, "day": 1, "week": 7, "month": 31, "year": 366}[size]
    return _floor(size, begin + timedelta(days=longest))
