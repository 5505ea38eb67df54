"""Invariants of bids: none that lost is repeated, none rests on an echo of our own, none is raised needlessly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal

from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from tests.simulation.checks.conduct import POOLED
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Host
from tests.simulation.markets.market import SimulatedMarket

KNOWN_LOST_S = 3300.0
"""A bid that lost is not made there again for an hour, by a clock that may be two minutes off."""
SAME_TICK_S = 5.0
"""Jobs of a tick decide on what was known when it began: what one of them loses there the others learn in the next."""
LAG_S = 420.0
"""What a list shows may be so old, and the machine that it shows running may have been outbid since."""
TOLD_S = 1800.0
"""A floor that was shown so lately may still be what a decision goes by."""
REMEMBERED_S = 7 * 3600.0
"""A loss keeps bids above it for so long,"""
CHAINED_S = 25 * 3600.0
"""and longer where another bid has lost there within so long: the rival is taken to be the same one."""
MOST_MARKUP = Decimal("1.15")
"""No first bid is more above the floor that is known, whether by the rule or learnt."""
CENT = Decimal("0.01")
"""The coarsest step of bids."""
LOST = frozenset({Reason.OUTBID, Reason.DISPLACED})
STOPPED_BY_CREDIT = frozenset({Reason.OUT_OF_CREDIT, Reason.PAID_IN})


class Bids:
    """Reads leases as they are committed."""

    def __init__(
        self, ground: Ground, markets: Mapping[str, SimulatedMarket], add_violation: Callable[[str, str], None]
    ) -> None:
        self._ground = ground
        self._markets = markets
        self._add_violation = add_violation
        self._params = Params()
        self._lost: dict[tuple[str, str], tuple[float, Decimal]] = {}
        """By machine: when a bid lost there last, as the ledger knows, and the highest, $/h, of those since one won."""
        self._beaten: dict[tuple[str, str], list[tuple[float, Decimal]]] = {}
        """By machine: all that lost there. A machine that was rented before does not prove that such a bid wins."""

    def change(self, before: Lease | None, after: Lease) -> None:
        if not after.is_spot:
            return
        if before is None:
            self._check_first(after)
        else:
            self._check_raise(before, after)
            has_ended = before.is_wanted and not after.is_wanted
            # A raise that brought no machine back has lost, too, however the lease then ends.
            is_beaten = before.state is LeaseState.PAUSED and (has_ended or after.bid > before.bid)
            if is_beaten or (has_ended and after.reason in LOST):
                beaten = self._beaten.setdefault((after.provider, after.machine_id), [])
                beaten.append((self._ground.now_s, before.bid))
            if before.reason in LOST and after.reason not in LOST:
                # Its user has taken the machine: a daemon that starts again reads no loss of it in the ledger.
                self._lost.pop((after.provider, after.machine_id), None)
            if has_ended and after.reason in LOST:
                key, now_s = (after.provider, after.machine_id), self._ground.now_s
                lost_s, highest = self._lost.get(key, (now_s, after.bid))
                is_recent = now_s - lost_s < KNOWN_LOST_S and not self._has_won(after, lost_s, highest)
                self._lost[key] = now_s, max(highest, after.bid) if is_recent else after.bid

    def look(self) -> None:
        """We never bid against ourselves: without other bidders, the price paid is the market's least and a markup."""
        if not self._ground.scenario.is_alone:
            return
        for market in self._markets.values():
            for box in market.boxes.values():
                if box.is_spot and box.job_id and box.computes:
                    most = (market.least(box.host) * self._params.bids.markup).quantize(CENT, ROUND_CEILING)
                    if market.pays(box) > most:
                        least = market.least(box.host)
                        self._add_violation("S37", f"{box.key} pays {market.pays(box)} where {least} is enough")

    def _is_pool(self, provider: str) -> bool:
        return provider in POOLED

    def _check_first(self, lease: Lease) -> None:
        if lease.state is not LeaseState.INTENT or self._is_pool(lease.provider):
            return
        lost_s, lost = self._lost.get((lease.provider, lease.machine_id), (0.0, None))
        ago_s = self._ground.now_s - lost_s
        is_known = SAME_TICK_S <= ago_s < KNOWN_LOST_S
        if lost is not None and lease.bid <= lost and is_known and not self._has_won(lease, lost_s, lost):
            self._add_violation("S16", f"lease {lease.id} bids {lease.bid}, where {lost} has lost {ago_s:.0f} s ago")
        host = self._markets[lease.provider].hosts.get(lease.machine_id)
        if host is not None:
            self._check_echo(lease, host)

    def _has_won(self, lease: Lease, since_s: float, bid: Decimal) -> bool:
        """A machine there that has begun to run since then, at no more than that bid, proves that it wins."""
        market = self._markets[lease.provider]
        there = [box for box in (*market.boxes.values(), *market.past.values()) if box.is_spot and box.rate <= bid]
        ran = [box for box in there if box.host.machine_id == lease.machine_id and box.up_at_s is not None]
        return any(box.up_at_s >= since_s - LAG_S for box in ran if box.up_at_s is not None)

    def _check_echo(self, lease: Lease, host: Host) -> None:
        echo, life, now_s = host.echo, self._ground.life, self._ground.now_s
        if echo is None or life is None or now_s > echo.ends_s + TOLD_S:
            return
        if life.began_s + LAG_S > echo.began_s:
            return  # a daemon that was not there cannot know it for its own
        highest = self._highest_known(lease.provider, host, now_s)
        unit = self._params.bids.unit
        if highest is not None and lease.bid > (highest * MOST_MARKUP + unit).quantize(unit, ROUND_CEILING):
            self._add_violation("S17", f"lease {lease.id} bids {lease.bid}: {highest} is no echo of ours")

    def _highest_known(self, provider: str, host: Host, now_s: float) -> Decimal | None:
        """$/h: of the floors that the list has shown, and of bids that lost."""
        told = list(host.told_floors)
        floors = [floor for at_s, floor in told if now_s - at_s < TOLD_S] + [floor for _, floor in told[-3:]]
        # A raise that brought no machine back has lost, regardless of the cause.
        lost = self._beaten.get((provider, host.machine_id), ())
        beaten, since_s = [], now_s - REMEMBERED_S
        for at_s, bid in sorted((*host.beaten_bids, *lost), reverse=True):
            if at_s < since_s:
                break
            beaten.append(bid)
            since_s = at_s - CHAINED_S
        return max((*floors, *(bid + self._params.bids.unit for bid in beaten)), default=None)

    def _check_raise(self, before: Lease, after: Lease) -> None:
        """The stop may be seen, and answered, in one and the same tick."""
        # A raise that was asked for before the credit ran out may take effect after that.
        is_raised = after.bid > before.bid and after.bidding.raises > before.bidding.raises
        if after.state is not LeaseState.PAUSED or not is_raised:
            return
        cause, host = before.observed.pause_cause, self._markets[after.provider].hosts.get(after.machine_id)
        is_beaten = host is not None and before.bid < host.to_win
        if before.state is LeaseState.PAUSED and cause in STOPPED_BY_CREDIT and not is_beaten:
            self._add_violation("S18", f"lease {after.id}, paused as {cause}, bids {after.bid} after {before.bid}")
        self._check_rival(before, after)

    def _check_rival(self, before: Lease, after: Lease) -> None:
        host = self._markets[after.provider].hosts.get(after.machine_id)
        if host is None or self._is_pool(after.provider):
            return
        lately = any(self._ground.now_s - at_s < LAG_S for at_s, _ in host.beaten_bids)
        if before.bid >= host.to_win and not lately:
            self._add_violation(
                "S38", f"lease {after.id} bids {after.bid}: {host.to_win} wins, and it had {before.bid}"
            )
