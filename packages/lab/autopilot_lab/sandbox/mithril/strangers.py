"""What else is in a project's lists: bids of colleagues and of other programs, and machines of reservations.

None of it takes part in an auction. Some of it is in forms that no reader of our own bids expects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_AT = "2026-01-05T09:00:00.000000Z"
_LAST = "bid_colleagued4"
"""Ended, and in no list any more; a machine of it still stops."""


def _bid(fid: str, name: str, status: str, **odd: Any) -> Json:
    row: Json = {
        "fid": fid,
        "name": name,
        "project": "proj_sandbox",
        "created_by": "user_colleague",
        "created_at": _AT,
        "deactivated_at": None,
        "limit_price": "$1.00",
        "instance_quantity": 1,
        "instance_type": "it_colleague",
        "region": "us-central5-a",
        "instances": [],
        "launch_specification": None,
        "status": status,
    }
    return row | odd


def _machine(fid: str, bid: str | None, status: str, **odd: Any) -> Json:
    row: Json = {
        "fid": fid,
        "name": "colleague-machine",
        "project": "proj_sandbox",
        "created_at": _AT,
        "created_by": "user_colleague",
        "instance_type": "it_colleague",
        "region": "us-central5-a",
        "bid": bid,
        "reservation": None,
        "ssh_destination": None,
        "private_ip": None,
        "status": status,
    }
    return row | odd


_BIDS = (
    _bid("bid_colleaguea1", "colleague-notebook", "Open", region=None),
    _bid("bid_colleagueb2", "colleague-cluster", "Suspended", limit_price=None, instance_quantity=0),
    _bid("bid_colleagueb2", "colleague-cluster", "Suspended", limit_price=None, instance_quantity=0),
    _bid("bid_colleaguec3", "colleague-moving", "Allocated", instances=None, limit_price="dear"),
    _bid("bid_colleaguee5", "colleague-ended", "Terminated", instances=["inst_colleaguee5"]),
)
_UNLISTED = (_bid(_LAST, "colleague-leaving", "Terminated", instances=["inst_colleagued4"]),)
_MACHINES = (
    _machine("inst_reserved", None, "STATUS_MAINTENANCE", reservation="res_colleague"),
    _machine("inst_colleaguec3", "bid_colleaguec3", "STATUS_DRAINING", created_at=None),
    _machine("inst_colleagued4", _LAST, "STATUS_STOPPING"),
    _machine("inst_colleaguee5", "bid_colleaguee5", "STATUS_TERMINATED"),
)


def bids(ended: int) -> Iterator[Json]:
    """``ended``: how many more have ended, oldest first: they stay listed."""
    for number in range(ended):
        yield _bid(f"bid_ended{number:07d}", f"colleague-job-{number}", "Terminated", instances=[_of(number)])
    yield from _BIDS


def machines(ended: int) -> Iterator[Json]:
    for number in range(ended):
        yield _machine(_of(number), f"bid_ended{number:07d}", "STATUS_TERMINATED")
    yield from _MACHINES


def find(bid_id: str) -> Json | None:
    return next((row for row in (*_BIDS, *_UNLISTED) if row["fid"] == bid_id), None)


def _of(number: int) -> str:
    return f"inst_ended{number:07d}"
