"""The cheapest of thousands of offers, found without pricing all of them exactly.

A lower bound of what each would cost is worked out for all at once, in floating point. Offers are then priced exactly
in the order of their bounds, and one is given out as soon as no bound of the rest is below it. What comes out, and in
what order, is therefore what pricing everything would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.market import Market
from autopilot.domain.money import HOURS_PER_STORAGE_MONTH
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.outlook import AGE_EDGES_H
from autopilot.domain.params import Params
from autopilot.pricing.arrays import Flags, Floats
from autopilot.pricing.hazard import age_shape
from autopilot.pricing.rule.candidates import Candidates
from autopilot.pricing.rule.columns import Columns, columns_of
from autopilot.pricing.rule.cost import Candidate, Place, Pricing, price_candidates
from autopilot.pricing.traffic import MEGABITS_PER_GB, home_s, restart_s

FEW = 64
"""So many offers are priced sooner than put into arrays; and so many bounds are sorted at first."""
_TOLERANCE = 1e-9
"""Share of a cost: floating point is off by much less."""
_STEP = 1e-6
"""Share of a step of bids."""
_ROUNDED = 1e-6
"""Dollars that the exact sums may have been rounded by."""


def rank(job: Job, market: Market, is_eligible: Callable[[Offer], bool], params: Params) -> Candidates:
    """The candidates that those of the market's offers make which are eligible."""
    if len(market.offers) <= FEW:
        return Candidates.of(price_candidates(job, market, filter(is_eligible, market.offers), params))
    price = Pricing(job, market, params)
    bounds = _Bounds(job, market, params, price, columns_of(market.offers))

    def stream(kind: CapacityType) -> Iterator[tuple[Place, Candidate]]:
        # Only where its first is looked at.
        bounds_of_kind = bounds.of_type(kind)
        yield from _in_order(market.offers, bounds_of_kind, is_eligible, lambda offer: price.of(offer, kind), kind)

    return Candidates({kind: stream(kind) for kind in CapacityType})


def _in_order(
    offers: tuple[Offer, ...],
    bounds: Floats,
    is_eligible: Callable[[Offer], bool],
    price: Callable[[Offer], Candidate | None],
    kind: CapacityType,
) -> Iterator[tuple[Place, Candidate]]:
    """``bounds``: no cost is below its offer's; infinite for an offer that cannot be had."""
    waiting: list[tuple[Place, Candidate]] = []
    for at, bound in _ascending(bounds):
        while waiting and waiting[0][1].cost < bound:
            yield heappop(waiting)
        candidate = price(offers[at]) if is_eligible(offers[at]) else None
        if candidate is not None:
            # The number tells all apart, as they lie among the offers: a bid before on-demand of the same.
            number = 2 * at + (kind is CapacityType.ON_DEMAND)
            heappush(waiting, ((candidate.sort_key, number), candidate))
    while waiting:
        yield heappop(waiting)


def _ascending(bounds: Floats) -> Iterator[tuple[int, float]]:
    """The finite ones with their places: mostly a few are enough, so only these are sorted at first."""
    import numpy as np

    finite = np.flatnonzero(np.isfinite(bounds))
    head, tail = finite, finite[:0]
    if len(finite) > FEW:
        parted = finite[np.argpartition(bounds[finite], FEW)]
        head, tail = parted[:FEW], parted[FEW:]
    for part in (head, tail):
        ordered = part[np.argsort(bounds[part])]
        yield from zip(ordered.tolist(), bounds[ordered].tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What no candidate costs less than to the end, one number for each offer."""

    job: Job
    market: Market
    params: Params
    price: Pricing
    columns: Columns

    def of_type(self, kind: CapacityType) -> Floats:
        """In dollars; infinite where the offer cannot be rented so."""
        import numpy as np

        with np.errstate(invalid="ignore"):
            cost = self._spot() if kind is CapacityType.SPOT else self._on_demand()
        return np.where(np.isnan(cost), np.inf, cost * (1 - _TOLERANCE) - _ROUNDED)

    def _on_demand(self) -> Floats:
        import numpy as np

        columns, spec = self.columns, self.job.spec
        is_had = self._flags(lambda able: able.on_demand)
        if spec.spot_policy is SpotPolicy.SPOT:
            is_had &= False
        cost = (columns.on_demand + self._disk()) * self._hours() + self._traffic()
        return np.where(is_had, cost, np.nan)

    def _spot(self) -> Floats:
        """Bids are in steps. Where floating point cannot tell which step it is, the lower one counts here."""
        import numpy as np

        columns, params, spec = self.columns, self.params, self.job.spec
        is_had = self._flags(lambda able: able.spot)
        if spec.spot_policy is SpotPolicy.ON_DEMAND:
            is_had &= False
        unit, least = float(params.bids.unit), float(params.bids.least)
        limit = columns.on_demand * float(params.bids.ceiling_of_on_demand)
        for most in (spec.max_bid, spec.max_hourly):
            limit = limit if most is None else np.fmin(limit, float(most))
        wanted = np.ceil(columns.floor * (float(params.bids.markup) / unit) - _STEP) * unit
        bid = np.fmax(np.fmin(wanted, np.floor(limit / unit - _STEP) * unit), least)
        is_had &= (columns.floor <= limit + unit) & (columns.floor <= bid + 2 * unit)
        pays_bid = self._flags(lambda able: able.bills_at_bid)
        price = np.where(pays_bid, bid, np.where(columns.floor > 0, columns.floor, bid))
        hours = self._hours()
        losses = self._losses(hours)
        again_h = (restart_s(self.job, params) + self.job.spec.checkpoint_interval.total_seconds() / 2) / 3600
        cost = (np.fmax(price, 0.0) + self._disk()) * (hours + losses * again_h) + self._traffic()
        resumes = self._flags(lambda able: able.resumes_where_it_was)
        cost += np.where(resumes, 0.0, columns.download * float(self.price.received_gb) * losses)
        return np.where(is_had, cost, np.nan)

    def _hours(self) -> Floats:
        """Set-up and work."""
        import numpy as np

        columns, params = self.columns, self.params
        work = [self.price.work(gpu, count) for _, gpu, count in columns.kinds]
        by_kind = np.array([params.deadline.horizon_s if left is None else left.total_seconds() for left in work])
        setup_s = params.timing.boot_s + float(self.price.received_gb) * MEGABITS_PER_GB / columns.mbps
        setup_s += home_s(self.job, params)
        hours: Floats = (setup_s + by_kind[columns.kind]) / 3600
        return hours

    def _losses(self, hours: Floats) -> Floats:
        import numpy as np

        columns, outlook, params = self.columns, self.market.outlook, self.params
        expected = hours.copy()
        edges = np.array((0.0, *AGE_EDGES_H))
        for at, (provider, gpu, _) in enumerate(columns.kinds):
            shape = age_shape(outlook, provider, gpu, params)
            if shape is not None:
                mine = columns.kind == at
                so_far = np.concatenate(([0.0], np.cumsum(np.array(shape[:-1]) * np.diff(edges))))
                beyond = np.fmax(hours[mine] - edges[-1], 0.0) * shape[-1]
                expected[mine] = np.interp(hours[mine], edges, so_far) + beyond
        losses: Floats = columns.hazard(outlook, params) * expected
        return losses

    def _disk(self) -> Floats:
        """$/h."""
        rate: Floats = self.columns.storage * float(self.job.spec.disk_gb / HOURS_PER_STORAGE_MONTH)
        return rate

    def _traffic(self) -> Floats:
        columns, price = self.columns, self.price
        dollars: Floats = columns.download * float(price.received_gb) + columns.upload * float(price.sent_gb)
        return dollars

    def _flags(self, holds: Callable[[Capabilities], bool]) -> Flags:
        """For each offer, whether its market is known and ``holds`` is true for it."""
        import numpy as np

        views = self.market.providers
        by_kind = np.array([name in views and holds(views[name].capabilities) for name, _, _ in self.columns.kinds])
        flags: Flags = by_kind[self.columns.kind]
        return flags
