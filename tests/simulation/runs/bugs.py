"""All planted bugs: each is switched on for one run, and a simulator that does not find it is no good.

A bug is a few attributes of the product replaced for as long as the run lasts; the product knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.runs import (
    planted,
    planted_arrays,
    planted_caps,
    planted_hosts,
    planted_order,
    planted_schedules,
    planted_vms,
)
from tests.simulation.runs.bug import Bug

BUGS: dict[str, Bug] = {
    found.name: found
    for module in (planted, planted_hosts, planted_order, planted_schedules, planted_arrays, planted_vms, planted_caps)
    for found in vars(module).values()
    if isinstance(found, Bug)
}


@contextmanager
def plant(name: str | None) -> Iterator[None]:
    """With that bug in the product; None: with none."""
    patches = BUGS[name].patches() if name else ()
    before = [(target, attribute, getattr(target, attribute)) for target, attribute, _ in patches]
    for target, attribute, replacement in patches:
        setattr(target, attribute, replacement)
    try:
        yield
    finally:
        for target, attribute, original in before:
            setattr(target, attribute, original)
