"""Leases by the names of their columns: a test says ``agent_boot=1`` where the value is ``lease.agent.boot``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from autopilot.domain.agent_state import AgentState
from autopilot.domain.lease import Lease
from autopilot.store.schema import LEASE_PATHS


def new_lease(**values: Any) -> Lease:
    """A lease with these values, by column."""
    plain = {name: value for name, value in values.items() if name not in LEASE_PATHS}
    return change_lease(Lease(**plain), **{name: values[name] for name in values.keys() - plain.keys()})


def change_lease(lease: Lease, **changes: Any) -> Lease:
    """The lease with other values, by column."""
    plain = {}
    grouped: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in changes.items():
        if name in LEASE_PATHS:
            group, field = LEASE_PATHS[name]
            grouped[group][field] = AgentState(value) if name == "agent_state" else value
        else:
            plain[name] = value
    records = {group: replace(getattr(lease, group), **values) for group, values in grouped.items()}
    return replace(lease, **plain, **records)
