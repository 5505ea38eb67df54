"""Answers that go wrong on purpose.

*Lost*: the call has no effect. *Unheard*: it takes effect, its answer is lost or unreadable. *Twisted*: it takes
effect, and the answer (or the effect) is not what it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import grpc

from autopilot_lab.sandbox.faults import InjectedFault
from autopilot_lab.sandbox.nebius import refusals
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused

FAMILIES = frozenset(
    {
        "create", "list", "show", "change", "end", "policy", "policies", "disks", "platforms", "price", "estimate",
        "advice", "subnets", "operations", "quotas", "token",
    }
)  # fmt: skip
_REFUSALS: dict[str, Callable[[], NebiusRefused]] = {
    "unavailable": lambda: NebiusRefused(grpc.StatusCode.UNAVAILABLE, "try again later"),
    "internal": lambda: NebiusRefused(grpc.StatusCode.INTERNAL, "internal error"),
    "aborted": lambda: NebiusRefused(grpc.StatusCode.ABORTED, "aborted"),
    "unauthenticated": lambda: NebiusRefused(grpc.StatusCode.UNAUTHENTICATED, "the token is expired or unknown"),
    "no_permission": lambda: refusals.no_rights("permission denied"),
    "rate_limited": refusals.too_many_requests,
    "over_quota": lambda: refusals.over_quota("compute.instance.preemptible.count", 2, 3),
    "bad_request": lambda: refusals.bad_request("spec.preemptible", "Preemptible is invalid"),
    "name_conflict": lambda: refusals.name_taken("computeinstance-e00another"),
    "conflict": lambda: refusals.bad_state("", "another operation is under way"),
}
LOST = frozenset({*_REFUSALS, "hang"})
UNHEARD = frozenset({"effect_then_unavailable", "effect_then_hang", "garbled", "empty"})
TWISTED = frozenset(
    {"repeated_token", "stale_list", "endless_list", "no_hardware", "left_disk", "made_twice", "another_preset"}
)
"""A list whose token comes again, one of before, one without an end; a machine that finds no hardware, or leaves its
disk behind; a create that makes two machines, or another one."""
KINDS = LOST | UNHEARD | TWISTED
_GARBLED = b"\xff\xff\xff\xff"


def refusal_of(fault: InjectedFault) -> NebiusRefused | None:
    """What a lost call is answered with; None if it is not answered at all."""
    made = _REFUSALS.get(fault.kind)
    return None if made is None else made()


async def hang(real_s: float, stopping: asyncio.Event) -> None:
    """Until the time is over or the server stops; a caller who gives up ends it as well."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), real_s)


async def leave_unheard(fault: InjectedFault, stopping: asyncio.Event) -> bytes:
    """The body of an answer to a call that has taken effect. Raises ``NebiusRefused``."""
    if fault.kind == "effect_then_hang":
        await hang(fault.hang_s, stopping)
    if fault.kind in ("effect_then_hang", "effect_then_unavailable"):
        raise NebiusRefused(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
    return _GARBLED if fault.kind == "garbled" else b""
