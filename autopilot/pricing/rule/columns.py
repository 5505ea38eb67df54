"""The numbers of many offers as arrays, for bounds of what each would cost. Exact prices are made of the offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from math import nan

from autopilot.domain.offer import Offer
from autopilot.domain.outlook import Lives, LivesKey, Outlook
from autopilot.domain.params import Params
from autopilot.domain.same import Same
from autopilot.pricing.arrays import Floats, Indices
from autopilot.pricing.hazard import hazard
from autopilot.pricing.speed import SLOWEST_MBPS, USUAL_MBPS

REMEMBERED = 16
"""Lists of offers whose columns are kept: one for each search of a tick, and some that a single job sees otherwise."""


class Columns:
    """One number for each offer, in the order of the offers. Where there is no price it is NaN."""

    def __init__(self, offers: tuple[Offer, ...]) -> None:
        import numpy as np

        self._offers = offers
        self.floor = _array(offer.floor for offer in offers)
        self.on_demand = _array(offer.on_demand_price for offer in offers)
        self.storage = _array(offer.storage_price for offer in offers)
        self.upload = _array(offer.upload_price for offer in offers)
        self.download = _array(offer.download_price for offer in offers)
        self.mbps = _array(
            max(offer.download_mbps, SLOWEST_MBPS) if offer.download_mbps else USUAL_MBPS for offer in offers
        )
        kinds = [(offer.provider, offer.gpu, offer.num_gpus) for offer in offers]
        self.kinds = tuple(dict.fromkeys(kinds))
        """Each market's GPUs by number."""
        places = {kind: at for at, kind in enumerate(self.kinds)}
        self.kind: Indices = np.fromiter((places[kind] for kind in kinds), np.intp, len(kinds))
        """For each offer, the place of its kind among ``kinds``."""
        self._hazard: tuple[Mapping[LivesKey, Lives], Params, Floats] | None = None

    def hazard(self, outlook: Outlook, params: Params) -> Floats:
        """Losses per hour. Those of the last outlook are kept."""
        known = self._hazard
        if known is not None and known[0] is outlook.lives and known[1] is params:
            return known[2]
        found = _array(
            hazard(outlook, offer.provider, offer.gpu, offer.host_id, offer.machine_id, params)
            for offer in self._offers
        )
        self._hazard = outlook.lives, params, found
        return found


def columns_of(offers: tuple[Offer, ...]) -> Columns:
    """The columns of this very tuple; another one with equal offers has its own."""
    return _columns(Same(offers))


@lru_cache(REMEMBERED)
def _columns(offers: Same[tuple[Offer, ...]]) -> Columns:
    return Columns(offers.value)


def _array(values: Iterable[Decimal | float | None]) -> Floats:
    import numpy as np

    return np.fromiter((nan if value is None else float(value) for value in values), np.float64)
