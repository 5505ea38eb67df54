"""How long a machine may work on unheard, within what the limits can hold back for it.

A permit of a quarter of an hour is not held back. It is shorter near a limit (``budget.permit_ttl_s``), where it leaves
room for what the permits of other machines may still cost. One that is longer lets a machine work while its daemon
sleeps, so all that it may cost is set aside when it is given. Half of what a limit has left is never used for permits:
machines are still replaced, and bids raised, while the daemon is awake.

No permit ends before the one that it replaces: its machine may not have read the newer orders. So at each moment what
is committed and what the permits may bill (``budget.permits_outstanding``) fit the limits together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil

from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.policy import budget
from autopilot.policy.budget import HELD_IN_STEPS_S, SHORT_PERMIT_S

SHARE_OF_LEFT = Decimal("0.5")
"""Of what is left beyond all else, for all permits together."""


@dataclass(frozen=True, slots=True)
class PermitBound:
    """One limit, and the machines whose cost counts towards it."""

    left: Decimal | None
    """Dollars beyond all that is spent or committed, permits included; None: nothing bounds it."""
    leases: tuple[Lease, ...]

    def short(self, lease: Lease, now: datetime, params: Params) -> tuple[tuple[Decimal | None, Decimal], ...]:
        """What a short permit may use, dollars, and the $/h that draw on it: a fair part of all, and what is not
        outstanding to other machines."""
        if self.left is None:
            return ()
        others = (each for each in self.leases if each.id != lease.id)
        free = self.left - budget.permits_outstanding(others, now, params)
        return (self.left * SHARE_OF_LEFT, budget.burn(self.leases)), (free, lease.burn_upper)

    def lasts_s(self, lease: Lease, params: Params) -> float | None:
        """Seconds for which the machine of ``lease`` may work on within this limit; None: nothing bounds it."""
        if self.left is None or lease.burn_upper <= ZERO:
            return None
        live = [each for each in self.leases if not each.is_over]
        room = self.left + sum((_held_for(each, params) for each in live), ZERO)
        beside = sum((budget.beside_permit(each, params) for each in live), ZERO)
        fair = (room * SHARE_OF_LEFT - beside) / max(budget.burn(live), lease.burn_upper)
        own = (self.left + _held_for(lease, params) - budget.beside_permit(lease, params)) / lease.burn_upper
        return float(min(fair, own)) * 3600


def give_permit_s(
    lease: Lease, bounds: Iterable[PermitBound], longest_s: int, now: datetime, params: Params, *, may_be_long: bool
) -> int:
    """Seconds from now. ``may_be_long``: whether more than a quarter of an hour may be given to it now."""
    limits = tuple(bounds)
    shortest = [each for bound in limits for each in bound.short(lease, now, params)]
    ttl_s = budget.permit_ttl_s(shortest, min(longest_s, SHORT_PERMIT_S), params)
    if may_be_long and longest_s > SHORT_PERMIT_S:
        ttl_s = max(ttl_s, _long_s(lease, limits, longest_s, params))
    return max(ttl_s, _held_s(lease, now))


def _long_s(lease: Lease, bounds: Iterable[PermitBound], longest_s: int, params: Params) -> int:
    """0 where the limits do not bear a long one."""
    most_s = [lasts_s for bound in bounds if (lasts_s := bound.lasts_s(lease, params)) is not None]
    ttl_s = int(min([float(longest_s), *most_s]))
    if ttl_s < longest_s:
        ttl_s -= ttl_s % HELD_IN_STEPS_S
    return ttl_s if ttl_s > SHORT_PERMIT_S else 0


def _held_for(lease: Lease, params: Params) -> Decimal:
    return budget.permit_reserve(lease, params) if budget.has_long_permit(lease) and not lease.is_over else ZERO


def _held_s(lease: Lease, now: datetime) -> int:
    """Until the end of the permit that it has. One that was renewed in the future is no bound: the clock was wrong
    then."""
    renewed_at, ttl_s = lease.permit.renewed_at, lease.permit.ttl_s
    if renewed_at is None or ttl_s is None or renewed_at > now:
        return 0
    return max(ceil((renewed_at + timedelta(seconds=ttl_s) - now).total_seconds()), 0)
