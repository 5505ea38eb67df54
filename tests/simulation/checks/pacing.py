"""What must hold of requests: those of one kind to a market stand as far apart as its adapter says."""

from __future__ import annotations

from collections.abc import Callable

from autopilot.providers.mithril import pacing as mithril
from autopilot.providers.nebius import pacing as nebius
from autopilot.providers.runpod import pacing as runpod
from autopilot.providers.vastai import pacing as vastai
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.wire import Request

LEAST_S: dict[str, dict[str, float]] = {
    "vastai": {
        "list": vastai.INTERVAL_S[vastai.Family.LIST],
        "show": vastai.INTERVAL_S[vastai.Family.SHOW],
        "destroy": vastai.INTERVAL_S[vastai.Family.DESTROY],
        "create": vastai.INTERVAL_S[vastai.Family.CREATE],
        "bid": vastai.INTERVAL_S[vastai.Family.BID],
    },
    "runpod": {"create": runpod.INTERVAL_S[runpod.Family.CREATE]},
    "mithril": {
        "create": mithril.INTERVAL_S[mithril.Family.CREATE],
        "bid": mithril.INTERVAL_S[mithril.Family.CHANGE],
        "destroy": mithril.INTERVAL_S[mithril.Family.CHANGE],
        **dict.fromkeys(("list", "machine"), mithril.INTERVAL_S[mithril.Family.LIST]),
        "offers": mithril.INTERVAL_S[mithril.Family.PRICE],
    },
    "nebius": {
        "create": nebius.INTERVAL_S[nebius.Family.CREATE],
        **dict.fromkeys(
            ("make_cap", "drop_cap", "drop_disk", "bid", "start", "stop", "destroy"),
            nebius.INTERVAL_S[nebius.Family.CHANGE],
        ),
        **dict.fromkeys(("vms", "caps", "disks", "show", "named"), nebius.INTERVAL_S[nebius.Family.LIST]),
        **dict.fromkeys(("offers", "types", "estimate"), nebius.INTERVAL_S[nebius.Family.PRICE]),
    },
}
"""Seconds between two requests of a kind, by market."""


class Pacing:
    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation
        self._last: dict[tuple[str, str], tuple[object, float]] = {}

    def arrive(self, provider: str, asked: Request, client: object) -> None:
        """A request of the daemon's is there, from that connection of its."""
        now_s, key = self._ground.now_s, (provider, asked.kind)
        before = self._last.get(key)
        self._last[key] = client, now_s
        least_s = LEAST_S[provider].get(asked.kind, 0.0)
        if before is not None and before[0] is client and now_s - before[1] < least_s - 0.001:
            self._add_violation("S12", f"{asked.kind} at {provider} after {now_s - before[1]:.2f} s")
