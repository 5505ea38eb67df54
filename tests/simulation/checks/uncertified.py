"""What must hold on a market without a certificate: all jobs stay within its allowance, on one machine at a time until
a machine was found by its label and has destroyed itself, without a permit more meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autopilot.domain.certificate import LABEL, OWN_KEY, ClaimVerdict
from autopilot.domain.lease import Lease
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import Ground


class Uncertified:
    """Reads the leases that are committed, and what the machines of each market bill, excuses apart."""

    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation
        self._told: set[str] = set()
        self._last_permits: dict[str, int] = {}
        """By machine that is to destroy itself: the permit under which that began."""

    def look(self) -> None:
        committed, books = self._ground.committed, self._ground.books
        leases = committed.get("leases", {})
        live = [leases[id_] for id_ in committed.get("live_leases", {})]
        for market, allowance in self._ground.scenario.uncertified.items():
            spent = dollars(books.by_market[market])
            machines = [lease for lease in live if lease.provider == market and lease.job_id is not None]
            if spent > allowance:
                self._tell(market, f"{spent:.6f} of {allowance}")
            if len(machines) > 1 and not self._is_proved(market):
                self._tell(market, f"{len(machines)} machines at once")
            self._look_at_permits(market, [lease for lease in machines if lease.is_proving])

    def _look_at_permits(self, market: str, proving: Iterable[Lease]) -> None:
        for lease in proving:
            seq = self._last_permits.setdefault(lease.id, lease.permit.seq)
            if lease.permit.seq > seq:
                self._tell(market, f"{lease.id} is to destroy itself, and got another permit")

    def _is_proved(self, market: str) -> bool:
        found = self._ground.committed.get("use_findings", {})
        shown = [found.get((market, claim)) for claim in (LABEL, OWN_KEY)]
        return all(each is not None and each.verdict is ClaimVerdict.HELD for each in shown)

    def _tell(self, market: str, what: str) -> None:
        if market not in self._told:
            self._told.add(market)
            self._add_violation("S39", f"{market}: {what}")
