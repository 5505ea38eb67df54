"""What a job asks of the machine, as this market is asked for it: in the search, and again in the rental. Pure.

The market sells pools and shows nothing of their machines: it holds to what it was asked for. In the secure cloud a
place is a data centre, in the community cloud a country.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from autopilot.domain.host import HostFacts, HostNeeds
from autopilot.domain.places import PARTS
from autopilot.providers.runpod.wire import Cloud

MOST_PLACES = 4
"""Places of one search: each takes a request. A part of the world with more countries is not asked for."""


@dataclass(frozen=True, slots=True)
class Place:
    """A country, a data centre, or anywhere: then both are empty."""

    country: str = ""
    data_center_id: str = ""

    @property
    def name(self) -> str:
        return self.country or self.data_center_id

    def has(self, cloud: Cloud) -> bool:
        """Whether that cloud can be asked for the place."""
        return not self.name or (cloud == "SECURE") == bool(self.data_center_id)


ANYWHERE = Place()


def place_of(name: str) -> Place:
    """By its name in an offer's id."""
    if not name:
        return ANYWHERE
    return Place(country=name) if len(name) == 2 else Place(data_center_id=name)


def places(needs: HostNeeds) -> tuple[Place, ...]:
    """Where to ask; none: the market cannot be asked for the places that the job names."""
    if not needs.countries and not needs.regions:
        return (ANYWHERE,)
    within = sorted({code for part in needs.regions for code in PARTS.get(part, ())})
    countries = [code for code in needs.countries if not needs.regions or code in within] or within
    if needs.countries and not set(countries) <= set(needs.countries):
        countries = []
    data_centers = [] if needs.countries else [name.upper() for name in needs.regions if name not in PARTS]
    found = [Place(data_center_id=name) for name in data_centers]
    if len(countries) <= MOST_PLACES:
        found += [Place(country=code) for code in countries]
    return tuple(found[:MOST_PLACES])


def filters(needs: HostNeeds, place: Place) -> dict[str, Any]:
    """Keys of the search's input and of a rental's alike. Without a wish there is none: one more field that the market
    does not know fails the whole request, and asking for more than the least hides capacity.
    """
    least = {
        "minVcpuCount": needs.cpus,
        "minMemoryInGb": needs.ram_gb,
        "minDownload": needs.download_mbps,
        "minUpload": needs.upload_mbps,
    }
    wish: dict[str, Any] = {name: _whole(value) for name, value in least.items() if value is not None}
    if needs.cuda is not None:
        wish["minCudaVersion"] = cuda_version(needs.cuda)
    if place.country:
        wish["countryCode"] = place.country
    if place.data_center_id:
        wish["dataCenterId"] = place.data_center_id
    return wish


def cuda_version(cuda: Decimal) -> str:
    return f"{cuda:.1f}" if cuda == cuda.quantize(Decimal("0.1")) else f"{cuda:f}"


def facts_of(needs: HostNeeds, place: Place) -> HostFacts:
    """What is known of a machine that was asked for so."""
    return HostFacts(
        cuda=needs.cuda,
        cpus=needs.cpus,
        ram_gb=needs.ram_gb,
        least_download_mbps=needs.download_mbps,
        upload_mbps=needs.upload_mbps,
        country=place.country,
        region=place.data_center_id,
    )


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_CEILING))
