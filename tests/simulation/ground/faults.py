"""The catalogue of faults, and which of them one seed injects how often.

Each row has rng of its own: switching one off leaves the others' draws as they were, which is what lets a failing
seed be shrunk. Rows are named as in docs/research/simulator-catalogue.md.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    CHANCE = "at each opportunity"
    BURST = "in bursts, for a while"
    EVENT = "as an event, some times a day"


@dataclass(frozen=True, slots=True)
class Row:
    """``most``: greatest probability per opportunity, or greatest number of bursts or events a day."""

    id: str
    kind: Kind
    most: float
    what: str
    shortest_s: float = 0.0
    longest_s: float = 0.0
    """Of a burst, or of what an event does."""


def _chance(id_: str, most: float, what: str) -> Row:
    return Row(id_, Kind.CHANCE, most, what)


def _burst(id_: str, most: float, shortest_s: float, longest_s: float, what: str) -> Row:
    return Row(id_, Kind.BURST, most, what, shortest_s, longest_s)


def _event(id_: str, most: float, shortest_s: float, longest_s: float, what: str) -> Row:
    return Row(id_, Kind.EVENT, most, what, shortest_s, longest_s)


CATALOGUE = (
    _chance("A1", 0.10, "create: takes effect, then a 5xx"),
    _chance("A2", 0.10, "create: takes effect, the answer is lost"),
    _chance("A3", 0.15, "create: refused with an id, a stopped instance is left behind"),
    _chance("A4", 0.05, "create: lands up to 15 minutes after the client gave up"),
    _chance("A5", 0.05, "create: makes two instances"),
    _chance("A6", 0.05, "create: rents at another price or of another kind"),
    _chance("A7", 0.30, "create: the offer is gone"),
    _chance("B1", 0.10, "list: 200 with an error, nothing, null or HTML"),
    _chance("B2", 0.20, "list: a new instance stays invisible for up to a minute"),
    _chance("B3", 0.20, "list: as it was up to five minutes ago"),
    _chance("B4", 0.10, "list: a page is cut short, or the pages run in a circle"),
    _chance("B5", 0.10, "list and single read disagree"),
    _chance("B6", 0.10, "a field is missing, renamed, null, text for number, NaN or 1e400"),
    _burst("C1", 4.0, 1, 1800, "429 for a while, plain text, no Retry-After"),
    _burst("C2", 1.5, 60, 43_200, "5xx for a while"),
    _burst("C3", 0.5, 60, 3600, "401, 402 or 403 for a while"),
    _chance("C4", 0.01, "half a body, a huge one, one that drips, or a redirect"),
    _chance("C5", 0.01, "no connection: names, TLS"),
    _event("C6", 3.0, 300, 7200, "machines cannot be listed, and meanwhile one ends, or is paused and comes back"),
    _chance("D1", 0.10, "destroy: success, and nothing happens"),
    _chance("D2", 0.10, "destroy: a 500, and nothing happens"),
    _chance("D3", 0.10, "destroy: takes effect, the answer is lost"),
    _chance("D4", 0.05, "destroy: another instance of the account gets the id"),
    _chance("D5", 0.05, "destroy: undone within ten minutes"),
    _chance("D6", 0.30, "destroy: a virtual machine goes, and its disk stays"),
    _event("E1", 3.0, 30, 1200, "an instance's state is shown wrongly"),
    _chance("E2", 0.10, "an instance never gets past loading"),
    _event("E3", 3.0, 60, 43_200, "a host vanishes and comes back with the old run going on"),
    _chance("E4", 0.05, "a paused instance stays paused at any bid"),
    _event("E5", 3.0, 30, 1800, "everybody is outbid at once, or again and again"),
    _event("E6", 2.0, 300, 7200, "prices tenfold, a floor that is none"),
    _chance("E7", 0.10, "the job's machine is broken: it fails, hangs, crawls or never gets ready"),
    _event("E8", 6.0, 0, 0, "the user destroys or relabels an instance; others' instances come and go"),
    _event("E9", 0.25, 1800, 7200, "the ledger is restored from an old backup"),
    _chance("E10", 0.70, "a host has two to eight GPUs, each on offer by itself"),
    _event("E11", 4.0, 600, 21_600, "a rival bids unseen: a host takes more than its floor says"),
    _chance("E12", 0.50, "the list shows our own bid as the floor, up to 15 minutes after we have left"),
    _event("E13", 1.0, 300, 21_600, "the account runs dry, and credit is paid in later"),
    _burst("E14", 2.0, 600, 100_800, "RunPod has no spot, for a while or for good"),
    _chance("E15", 0.50, "a job's command fails wherever it runs, so that its last machine may be held"),
    _event("E16", 24.0, 0, 0, "the user gives a held machine back, or cancels the job that has failed there"),
    _event("E17", 60.0, 0, 0, "a virtual machine is moved to another host"),
    _event("E18", 60.0, 130, 260, "a virtual machine's notice is withdrawn: its bid wins again in time"),
    _event("E19", 24.0, 600, 14_400, "hardware is taken back: the virtual machine with the lowest cap loses it"),
    _event("F1", 16.0, 5, 7200, "the daemon is killed"),
    _event("F2", 2.0, 1, 7200, "the daemon is stopped for a while, or started again every five seconds"),
    _chance("F3", 1.0, "the daemon shares a ledger on a server: its markets stand behind a fence"),
    _burst("G1", 1.0, 10, 1800, "the ledger cannot be written"),
    _chance("G2", 0.002, "a commit's outcome is not known"),
    _chance("H1", 0.20, "the host's wall clock is wrong when the daemon starts"),
    _event("H2", 4.0, 60, 7200, "a rented machine is suspended for a while"),
    _burst("I1", 2.0, 600, 86_400, "bills are late, or the market does not show any"),
    _burst("J1", 3.0, 10, 3600, "the object store fails, half writes, or is slow"),
    _chance("J2", 0.02, "a checkpoint is not what its manifest says, or claims are lies"),
    _chance("J3", 0.01, "a checkpoint has the right hashes and an index that is none"),
    _chance("J4", 0.10, "a host claims that it has sent petabytes"),
    _chance("J5", 0.10, "a host's heartbeats, exits and logs are huge, or junk"),
    _chance("J6", 0.10, "a host sends parts without end, until its share of the store is used up"),
    _chance("J7", 0.10, "a host goes on writing once its lease is over"),
    _chance("J8", 0.02, "a checkpoint names a part of the one before, with another hash"),
    _chance("J9", 0.10, "a part of a checkpoint has rotted in the store when it is to be restored, its size unchanged"),
    _burst("K1", 2.0, 60, 7200, "a machine cannot reach the object store"),
    _chance("K2", 0.20, "a machine's link is slow: what it sends or fetches takes up to an hour"),
)
ALWAYS_OF_LISTS = ("B1", "B3")
OF_LISTED = ("B4", "B6")
"""Lists that show nothing are spared."""
FEWEST = 1300
BY_ID = {row.id: row for row in CATALOGUE}


@dataclass(frozen=True, slots=True)
class Burst:
    row: str
    target: str
    """The provider, machine or store that it strikes; empty: all."""
    begins_s: float
    ends_s: float


class Faults:
    """What this seed injects. ``quiet`` ends all of it for good."""

    def __init__(
        self,
        seed: int,
        *,
        until_s: float,
        tick_s: float,
        off: Collection[str] = (),
        targets: Collection[str] = (),
        script: Mapping[str, Collection[int]] | None = None,
        bursts: Collection[Burst] = (),
    ) -> None:
        """``tick_s``: how often each of the two markets is read.

        ``off``: rows that stay silent. ``targets``: of bursts, drawn for each one.

        ``script``: instead of all rng, the opportunities of each row that are taken, counted from 0; ``bursts`` with
        it.
        """
        self._script = script
        self._seen: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.is_quiet = False
        self._seed = seed
        self._rng = {row.id: random.Random(f"{seed}/{row.id}") for row in CATALOGUE}
        self.strength: dict[str, float] = {}
        for row in CATALOGUE:
            rng = self._rng[row.id]
            strength = rng.random() * row.most if rng.random() < 0.5 else 0.0
            self.strength[row.id] = 0.0 if row.id in off or script is not None else strength
        if script is None:
            self._enough(2 * until_s / tick_s, off)
        self._bursts = {
            row.id: (
                *(burst for burst in bursts if burst.row == row.id),
                *self._scheduled(row, until_s, tuple(targets)),
            )
            for row in CATALOGUE
            if row.kind is Kind.BURST
        }

    def _enough(self, lists: float, off: Collection[str]) -> None:
        """At least so many that a run is a trial: lists are what a daemon does most."""
        for row_id in (*self._rng["B1"].sample(ALWAYS_OF_LISTS, 2), *OF_LISTED):
            if sum(self.strength[other] for other in ALWAYS_OF_LISTS) * lists >= FEWEST:
                return
            if row_id not in off:
                self.strength[row_id] = BY_ID[row_id].most

    def rng(self, row_id: str) -> random.Random:
        return self._rng[row_id]

    def hits(self, row_id: str) -> bool:
        """Whether this opportunity is taken."""
        if self._script is not None:
            self._seen[row_id] += 1
            is_hit = self._seen[row_id] - 1 in self._script.get(row_id, ())
            self.counts[row_id] += is_hit
            return is_hit
        strength = self.strength[row_id]
        if self.is_quiet or not strength or self._rng[row_id].random() >= strength:
            return False
        self.counts[row_id] += 1
        return True

    def bursts(self, row_id: str, target: str, now_s: float) -> bool:
        """Whether such a burst is under way for that target; each thing that it spoils counts."""
        if self.is_quiet:
            return False
        struck = any(
            burst.begins_s <= now_s < burst.ends_s and burst.target in ("", target) for burst in self._bursts[row_id]
        )
        self.counts[row_id] += struck
        return struck

    def has_struck(self, row_id: str, target: str, since_s: float, now_s: float) -> bool:
        """Whether such a burst has struck that target at any time between the two; counts nothing."""
        return any(
            burst.begins_s <= now_s and burst.ends_s > since_s and burst.target in ("", target)
            for burst in self._bursts[row_id]
        )

    def ends_at(self, row_id: str, target: str, now_s: float) -> float:
        """When the burst that is under way for that target ends."""
        under_way = [
            burst.ends_s
            for burst in self._bursts[row_id]
            if burst.begins_s <= now_s < burst.ends_s and burst.target in ("", target)
        ]
        return now_s if self.is_quiet else max(under_way, default=now_s)

    def schedule(self, row_id: str, until_s: float) -> Iterator[Burst]:
        """When the events of a row happen."""
        return self._scheduled(BY_ID[row_id], until_s, ("",))

    def _scheduled(self, row: Row, until_s: float, targets: tuple[str, ...]) -> Iterator[Burst]:
        strength, rng, now_s = self.strength[row.id], self._rng[row.id], 0.0
        if not strength:
            return
        while True:
            now_s += rng.expovariate(strength / 86_400)
            if now_s >= until_s:
                return
            lasts_s = between(rng, row.shortest_s, row.longest_s)
            target = rng.choice(("", *targets)) if rng.random() < 0.5 else rng.choice(targets or ("",))
            yield Burst(row.id, target, now_s, min(now_s + lasts_s, until_s))


def between(rng: random.Random, shortest: float, longest: float) -> float:
    """Rng between the two: small ones as often as large ones."""
    if longest <= 0:
        return 0.0
    return math.exp(rng.uniform(math.log(max(shortest, 1.0)), math.log(longest)))
