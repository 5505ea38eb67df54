"""What the control API of every market offers: its faults, claims, events, counted calls, and hosts that never boot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from autopilot_lab.sandbox.claims import set_claim
from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.host_traits import WithTruth, give_duds
from autopilot_lab.sandbox.host_wishes import parse_share
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.operations import Json, Operation, amount

Spec = TypeVar("Spec", bound=WithTruth)


class _Market(Protocol):
    journal: Journal
    broken: set[str]


class _Machine(Protocol[Spec]):
    spec: Spec


def shared_operations(
    name: str,
    market: _Market,
    faults: Faults,
    parse: Callable[[Json], InjectedFault],
    requests: Mapping[str, int],
) -> dict[tuple[str, str], Operation]:
    """``name``: the market's, whose claims can be broken. ``parse``: the faults that it can have."""

    def add_fault(wish: Json) -> Json:
        faults.add(parse(wish))
        return {}

    def clear_faults(wish: Json) -> Json:
        faults.clear()
        return {}

    def events(wish: Json) -> Json:
        since = int(amount({"since": 0, **wish}, "since"))
        return {"events": [entry.as_json() for entry in market.journal.entries[since:]]}

    return {
        ("POST", "claim"): lambda wish: {"broken": set_claim(market.broken, name, wish)},
        ("POST", "fault"): add_fault,
        ("DELETE", "faults"): clear_faults,
        ("GET", "events"): events,
        ("GET", "requests"): lambda wish: dict(requests),
    }


def set_duds(machines: Collection[_Machine[Spec]], wish: Json) -> Json:
    specs = give_duds((machine.spec for machine in machines), parse_share(wish), "control")
    for machine, spec in zip(machines, specs, strict=True):
        machine.spec = spec
    return {}
