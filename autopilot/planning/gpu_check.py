"""Whether what a job asks for exists: its GPUs by the markets' own lists, its sizes and prices by what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.image import ImageFacts
from autopilot.domain.job import GpuChoice, JobSpec, SpotPolicy
from autopilot.domain.money import CENT, show
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.prices import PriceObservation
from autopilot.engine.engine import Engine
from autopilot.policy.eligibility import misfit
from autopilot.policy.image_fit import find_image_lack
from autopilot.ports.store import Store
from autopilot.pricing.rule.bidding import bounds

RECORD_COUNTS = timedelta(days=7)
_USUAL_COUNTS = (1, 2, 4, 8, 16)
_ABOVE_FLOOR = Decimal("1.1")
_HOUR = timedelta(hours=1)


async def check_gpus(spec: JobSpec, engine: Engine) -> JobSpec:
    """The same, with names that only a market knows as that market spells them. Raises ``UserError``."""
    listed = await engine.gpu_names()
    return replace(spec, gpus=tuple(_check(gpu, listed) for gpu in spec.gpus))


def _check(gpu: GpuChoice, listed: Sequence[str]) -> GpuChoice:
    models = gpu_names.models(gpu.name)
    found = [name for name in listed if gpu_names.is_called(name, gpu.name)]
    if not found:
        raise unknown_gpu(gpu.name, listed)
    if gpu_names.size_gb(gpu.name) is not None and not models and gpu_names.models(found[0]):
        raise unknown_gpu(gpu.name, listed)
    return gpu if models else replace(gpu, name=found[0])


def unknown_gpu(name: str, listed: Iterable[str]) -> UserError:
    near = gpu_names.nearest(name, listed)
    hint = f"the nearest is {describe(near)}" if near else ""
    return UserError(f"no market lists a GPU called {name!r}", hint=hint)


def describe(name: str) -> str:
    """``A100 PCIE (40 or 80 GB)``."""
    known = gpu_names.standard(name)
    sizes = sorted({gb for model in gpu_names.models(known) for gb in model.vram_gb})
    return f"{known} ({' or '.join(map(str, sizes))} GB)" if sizes else known


def meanings(spec: JobSpec) -> list[str]:
    """The models of names that cover several."""
    means = dict.fromkeys((gpu.name, gpu_names.meaning(gpu.name)) for gpu in spec.gpus)
    return [f"{name} means {meaning}" for name, meaning in means if meaning]


async def unfillable(spec: JobSpec, engine: Engine, store: Store, now: datetime) -> str | None:
    """For a job that no offer fits: what it asks for that nothing ever seen has, and the nearest that exists."""
    asked = spec.query
    anything = replace(asked.on_any_host, disk_gb=Decimal(1))
    seen = await engine.offers(anything)
    async with store.snapshot() as uow:
        record = [
            each
            for name in dict.fromkeys(name for gpu in spec.gpus for name in gpu_names.recorded_as(gpu.name))
            for each in await uow.prices.list_by_gpu(name, now - RECORD_COUNTS, now)
        ]
    return (
        await _too_many_gpus(spec, engine, record)
        or _too_much_vram(spec, seen)
        or _too_large_a_disk(spec, seen)
        or _too_low_a_price(spec, seen, record)
        or _too_low_a_bid(spec, seen, record)
        or _too_low_a_budget(spec, seen, record)
        or _no_processor(spec, seen, engine.images.facts_of(spec))
        or _no_bound(spec, seen, engine.config.params)
    )


async def _too_many_gpus(spec: JobSpec, engine: Engine, record: Sequence[PriceObservation]) -> str | None:
    """Asks for machines with other counts only if the record has none that is large enough."""
    asked = min(gpu.count for gpu in spec.gpus)
    sizes = [(each.num_gpus, each.provider) for each in record]
    if max(sizes, default=(0, ""))[0] < asked:
        names = dict.fromkeys(name for name, _ in spec.query.gpus)
        any_size = replace(
            spec.query.on_any_host,
            gpus=tuple((name, count) for name in names for count in _USUAL_COUNTS),
            disk_gb=Decimal(1),
        )
        sizes += [(offer.num_gpus, offer.provider) for offer in await engine.offers(any_size)]
    most, market = max(sizes, default=(0, ""))
    if not sizes or most >= asked:
        return None
    names_asked = " or ".join(dict.fromkeys(gpu.name for gpu in spec.gpus))
    return f"resources.gpu: no machine has {asked} × {names_asked}: the most seen in one is {most}, on {market}"


def _too_much_vram(spec: JobSpec, seen: Sequence[Offer]) -> str | None:
    models = [model for gpu in spec.gpus for model in gpu_names.models(gpu.name)]
    built = [Decimal(gb) for model in models for gb in model.vram_gb]
    most = max((*built, *(offer.vram_gb for offer in seen)), default=None)
    if most is None or spec.min_vram_gb <= most:
        return None
    largest = max(gpu_names.MODELS, key=lambda model: model.vram_gb[-1])
    names = " or ".join(dict.fromkeys(gpu.name for gpu in spec.gpus))
    return (
        f"resources.vram: no {names} has {spec.min_vram_gb:f} GB: the most is {most:f} GB;"
        f" of all GPUs {largest.name} has the most, {largest.vram_gb[-1]} GB"
    )


def raise_disk(spec: JobSpec, engine: Engine) -> tuple[JobSpec, str]:
    """The same with a disk that each market rents, and what to say of it; empty: it was large enough."""
    least = [(watch.provider.capabilities.least_disk_gb, name) for name, watch in engine.watches.items()]
    least_gb, market = max(least, default=(0, ""))
    if spec.disk_gb >= least_gb:
        return spec, ""
    too_small = f"resources.disk: {market} rents no disk of {spec.disk_gb:f} GB"
    return replace(spec, disk_gb=Decimal(least_gb)), f"{too_small}: it is raised to {least_gb} GB, the least there"


def _too_large_a_disk(spec: JobSpec, seen: Sequence[Offer]) -> str | None:
    largest = max(seen, key=lambda offer: offer.disk_gb, default=None)
    if largest is None or spec.disk_gb <= largest.disk_gb:
        return None
    where = f"{largest.num_gpus} × {largest.gpu} on {largest.provider}"
    return f"resources.disk: no machine has {spec.disk_gb:f} GB: the largest seen is {largest.disk_gb:f} GB ({where})"


def _too_low_a_price(spec: JobSpec, seen: Sequence[Offer], record: Sequence[PriceObservation]) -> str | None:
    counts = {gpu.count for gpu in spec.gpus}
    shown: list[Offer | PriceObservation] = [*seen, *record]
    asked = [
        (price, each.provider, each.gpu) for each in shown if each.num_gpus in counts for price in _prices(spec, each)
    ]
    lowest = min(asked, default=None)
    if spec.max_hourly is None or lowest is None or spec.max_hourly >= lowest[0]:
        return None
    price, market, gpu = lowest
    return (
        f"resources.max_hourly: {show(spec.max_hourly, 3)} is below every price of the last 7 days:"
        f" the lowest was {show(price, 3)} ({gpu} on {market})"
    )


def _too_low_a_bid(spec: JobSpec, seen: Sequence[Offer], record: Sequence[PriceObservation]) -> str | None:
    """Where bids alone may be made, by the file's word or for want of a deadline that asks for more."""
    if spec.max_bid is None or not waits_for_spot(spec):
        return None
    counts = {gpu.count for gpu in spec.gpus}
    shown: list[Offer | PriceObservation] = [*seen, *record]
    floors = [
        (low, each.provider, each.gpu)
        for each in shown
        if each.num_gpus in counts and (low := _lowest_floor(each)) is not None
    ]
    lowest = min(floors, default=None)
    if lowest is None or spec.max_bid >= lowest[0]:
        return None
    floor, market, gpu = lowest
    now = min((offer.floor for offer in seen if offer.num_gpus in counts and offer.floor is not None), default=floor)
    wins = (now * _ABOVE_FLOOR).quantize(CENT, ROUND_CEILING)
    return (
        f"spot.max_price: {show(spec.max_bid, 3)} is below every floor of the last 7 days, so no bid would win:"
        f' the lowest was {show(floor, 3)} ({gpu} on {market}). "${wins}" would win now'
    )


def _too_low_a_budget(spec: JobSpec, seen: Sequence[Offer], record: Sequence[PriceObservation]) -> str | None:
    """What is left of an hour of the cheapest that was seen, or of the whole work if that is less, pays for nothing."""
    counts = {gpu.count for gpu in spec.gpus}
    shown: list[Offer | PriceObservation] = [*seen, *record]
    asked = [
        (price, each.provider, each.gpu) for each in shown if each.num_gpus in counts for price in _prices(spec, each)
    ]
    if spec.budget is None or not asked:
        return None
    price, market, gpu = min(asked)
    hours = min(Decimal(1), Decimal(str((spec.work_estimate or _HOUR) / _HOUR)))
    needed = (price * hours).quantize(CENT, ROUND_CEILING)
    if spec.budget >= needed:
        return None
    return (
        f"budget.total: {show(spec.budget)} does not pay for what was cheapest in the last 7 days:"
        f" {show(needed)} at {show(price, 3)} an hour ({gpu} on {market})"
    )


def _no_processor(spec: JobSpec, seen: Sequence[Offer], image: ImageFacts | None) -> str | None:
    """All that would do have another processor than the image is built for. Drivers are renewed, processors are not."""
    fitting = [offer for offer in seen if misfit(spec, offer) is None]
    lacks = [find_image_lack(image, spec, offer) for offer in fitting]
    if image is None or not fitting or not all(lack is not None and lack[0] == "image_arch" for lack in lacks):
        return None
    there = " or ".join(sorted({str(offer.host.arch) for offer in fitting}))
    return (
        f"image: {spec.image} is built for {' and '.join(image.architectures)} alone, and the machines have {there}:"
        f" build it for linux/{there.split()[0]} as well"
    )


def waits_for_spot(spec: JobSpec) -> bool:
    """Whether it takes no machine on demand, however long it waits for spot."""
    falls_back = spec.fall_back and (spec.deadline is not None or spec.due_within is not None)
    return spec.spot_policy is SpotPolicy.SPOT or (spec.spot_policy is SpotPolicy.AUTO and not falls_back)


def _no_bound(spec: JobSpec, seen: Sequence[Offer], params: Params) -> str | None:
    """Where no price on demand is posted the job alone can bound a bid, and without a bound none is ever made."""
    fitting = [offer for offer in seen if misfit(spec, offer) is None]
    if not fitting or any(bounds(spec, offer.on_demand_price, params) for offer in fitting):
        return None
    markets = " and ".join(sorted({offer.provider for offer in fitting}))
    lowest = min((offer.floor for offer in fitting if offer.floor is not None), default=None)
    would_do = ""
    if lowest is not None:
        price = (2 * lowest).quantize(CENT, ROUND_CEILING)
        would_do = f', such as "${price}": a bid of {show(lowest, 3)} wins there now'
    return (
        "spot.max_price: bids have no upper bound, so none would be made:"
        f" {markets} has no price on demand to hold bids against. Set max_price under [spot]{would_do}"
    )


def _lowest_floor(seen: Offer | PriceObservation) -> Decimal | None:
    return seen.floor_low if isinstance(seen, PriceObservation) and seen.floor_low is not None else seen.floor


def _prices(spec: JobSpec, seen: Offer | PriceObservation) -> Iterable[Decimal]:
    low = _lowest_floor(seen)
    if low is not None and spec.spot_policy is not SpotPolicy.ON_DEMAND:
        yield low
    if seen.on_demand_price is not None and spec.spot_policy is not SpotPolicy.SPOT:
        yield seen.on_demand_price
