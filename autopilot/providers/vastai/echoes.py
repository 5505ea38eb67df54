"""Which rows of a search show our own bid, and not the market.

The floor of GPUs that somebody rents by a bid is that bid, and it comes up to a quarter of an hour late: chasing it
would raise our own price (docs/providers/vastai.md). Other GPUs of the same host are on offer like any.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import NamedTuple

from autopilot.ports.clock import Clock
from autopilot.providers.vastai.wire import InstanceRow, OfferRow

ECHO_LASTS_S = 20 * 60.0
"""Market seconds after we were last seen to hold a machine. Lists were seen to lag by 15 minutes and more."""
FLOOR_LASTS_S = 24 * 3600.0
"""A floor that was seen before ours replaces an echo no longer than this."""
ROUNDING = Decimal("0.0006")
"""$/h: the market shows three decimals of a bid that it stores with four."""


class _Seen(NamedTuple):
    value: Decimal
    at_s: float


class Echoes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bids: dict[str, dict[Decimal, float]] = {}
        """By machine: what was bid for each of its GPUs, $/h, and when it was last seen, in monotonic seconds."""
        self._held: Counter[str] = Counter()
        """By machine: how many of its GPUs the account holds, other programs' instances included."""
        self._gpus: dict[str, tuple[str, frozenset[str]]] = {}
        """By instance rented here: its machine, and which of its GPUs."""
        self._floors: dict[tuple[str, int], _Seen] = {}
        """By machine and number of GPUs: the last floor that was not ours."""
        self._shown: dict[str, _Seen] = {}
        """By machine: what the newest search shows as the floor of GPUs that we hold, $/h for each."""

    def observe(self, instances: Iterable[InstanceRow]) -> None:
        """Take note of a complete list of the account's instances."""
        now_s = self._clock.monotonic()
        rows = tuple(instances)
        alive = {row.instance_id for row in rows}
        self._gpus = {instance_id: gpus for instance_id, gpus in self._gpus.items() if instance_id in alive}
        machines = {row.machine_id for row in rows}
        self._shown = {machine: floor for machine, floor in self._shown.items() if machine in machines}
        self._held = Counter()
        for row in rows:
            self._held[row.machine_id] += max(row.num_gpus, 1)
            if row.is_bid:
                self._note_bid(row.machine_id, row.bid / max(row.num_gpus, 1), now_s)
        self._bids = {
            machine: recent
            for machine, bids in self._bids.items()
            if (recent := {bid: at_s for bid, at_s in bids.items() if now_s - at_s < ECHO_LASTS_S})
        }

    def note_rented(self, instance_id: str, offer: OfferRow, bid: Decimal | None) -> None:
        """What the next list will show, before it does. ``bid``: $/h for the offer's GPUs; None on demand."""
        self._held[offer.machine_id] += offer.num_gpus
        self._gpus[instance_id] = offer.machine_id, offer.gpu_ids
        if bid is not None:
            self._note_bid(offer.machine_id, bid / offer.num_gpus, self._clock.monotonic())

    def floor_shown(self, machine_id: str) -> Decimal | None:
        """$/h for each GPU that we hold there, as the newest search shows it; ``certify`` checks what it echoes."""
        shown = self._shown.get(machine_id)
        return None if shown is None else shown.value

    def floor_since(self, machine_id: str, since_s: float) -> Decimal | None:
        """The same, where that search was made after ``since_s`` and what it shows is no bid of ours."""
        shown = self._shown.get(machine_id)
        if shown is None or shown.at_s <= since_s:
            return None
        return None if self._is_echo(machine_id, shown.value, self._clock.monotonic()) else shown.value

    def remove(self, rows: Iterable[OfferRow], searched_s: float = -inf) -> tuple[OfferRow, ...]:
        """The rows without those of GPUs that we hold; a floor that echoes a bid of ours is what it was before it.

        ``searched_s``: when the market showed them, in monotonic seconds; by default unknown.
        """
        now_s = self._clock.monotonic()
        ours: dict[str, list[frozenset[str]]] = defaultdict(list)
        for machine, gpus in self._gpus.values():
            ours[machine].append(gpus)
        touched = self._held.keys() | self._bids.keys() | ours.keys()
        left: list[OfferRow] = []
        for row in rows:
            machine = row.machine_id
            if machine in touched:
                without = self._without_echo(row, ours.get(machine, ()), now_s, searched_s)
                if without is not None:
                    left.append(without)
                continue
            # Nothing of ours was ever near it, as with most rows: what it shows is the market's.
            left.append(row)
            if row.min_bid is not None:
                self._floors[machine, row.num_gpus] = _Seen(row.min_bid, now_s)
        return tuple(left)

    def _without_echo(
        self, row: OfferRow, ours: Iterable[frozenset[str]], now_s: float, searched_s: float
    ) -> OfferRow | None:
        if self._is_held(row, ours):
            if row.min_bid is not None:
                self._shown[row.machine_id] = _Seen(row.min_bid / row.num_gpus, searched_s)
            return None
        key = row.machine_id, row.num_gpus
        if row.min_bid is None:
            return row
        if not self._is_echo(row.machine_id, row.min_bid / row.num_gpus, now_s):
            self._floors[key] = _Seen(row.min_bid, now_s)
            return row
        if self._held[row.machine_id]:
            return None  # It is those GPUs that we hold.
        before = self._floors.get(key)
        is_known = before is not None and now_s - before.at_s < FLOOR_LASTS_S
        return replace(row, min_bid=before.value if before and is_known else None)

    def _is_held(self, row: OfferRow, ours: Iterable[frozenset[str]]) -> bool:
        """By the ids of its GPUs, where we know ``ours`` on that machine; else because no so many are left on it."""
        if any(not row.gpu_ids.isdisjoint(gpus) for gpus in ours):
            return True
        held = self._held[row.machine_id]
        return held > 0 and (row.machine_gpus is None or held + row.num_gpus > row.machine_gpus)

    def _is_echo(self, machine_id: str, floor: Decimal, now_s: float) -> bool:
        """``floor``: $/h for one GPU."""
        bids = self._bids.get(machine_id, {})
        return any(abs(floor - bid) <= ROUNDING and now_s - at_s < ECHO_LASTS_S for bid, at_s in bids.items())

    def _note_bid(self, machine_id: str, bid: Decimal, now_s: float) -> None:
        self._bids.setdefault(machine_id, {})[bid] = now_s
