"""The market's JSON as frozen records. Offers that make no sense are left out; instances and charges must be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from autopilot.domain.host import Arch, HostFacts, driver_order
from autopilot.domain.money import ZERO
from autopilot.providers import values
from autopilot.providers.strangers import is_strangers, says_whose

ITEM_TYPES = frozenset({"gpu", "disk", "bwd", "bwu"})
"""What the items of a charge are for."""


SSH_PORT_INSIDE = "22/tcp"
MEGABYTES_PER_GB = 1000
"""The market's own search multiplies gigabytes of memory by this."""
_ARCHES = {"amd64": Arch.AMD64, "x86_64": Arch.AMD64, "arm64": Arch.ARM64, "aarch64": Arch.ARM64}
_COUNTRY = re.compile(r"(?:^|,)\s*([A-Z]{2})\s*$", re.ASCII)
_HOST = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}", re.ASCII)

UNTOLD = "untold"
"""A state that cannot be read."""


class UnreadableRow(ValueError):
    """A row lacks what must be known of it; it cannot be skipped without a false picture."""


@dataclass(frozen=True, slots=True)
class OfferRow:
    """Prices are $/h for the chunk; ``price`` is the on-demand price in an on-demand search a floor in a bid's."""

    offer_id: str
    machine_id: str
    host_id: str
    gpu: str
    num_gpus: int
    gpu_ids: frozenset[str]
    """Which of the machine's GPUs; empty if the market does not say."""
    machine_gpus: int | None
    """How many the whole machine has; None if the market does not say."""
    gpu_ram_mb: Decimal
    min_bid: Decimal | None
    price: Decimal | None
    storage_price: Decimal
    upload_price: Decimal
    download_price: Decimal
    download_mbps: Decimal
    reliability: Decimal
    verified: bool
    datacenter: bool
    disk_gb: Decimal
    location: str
    ends_at: datetime | None
    host: HostFacts


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """The four state words are lower case, empty when the market says nothing."""

    instance_id: str
    label: str
    machine_id: str
    host_id: str
    is_bid: bool
    bid: Decimal
    storage_rate: Decimal
    gpu: str
    num_gpus: int
    actual: str
    intended: str
    current: str
    ends_at: datetime | None
    message: str
    ssh: tuple[tuple[str, int], ...] = ()
    """Host and port of its SSH server: its own ones first, then those of the market's proxy."""


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One instance on one UTC day. ``items``: (type, dollars); ``label``: empty when the bill does not name it.

    ``end``: of the time that it is about, where the bill says so.
    """

    instance_id: str
    start: datetime
    items: tuple[tuple[str, Decimal], ...]
    label: str = ""
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class OutbidNotice:
    instance_id: str
    winning_bid: Decimal
    at: datetime


def is_outbid(raw: object) -> bool:
    return values.mapping(raw).get("notif_type") == "outbid"


def outbid_notice(raw: object) -> OutbidNotice | None:
    """None for a notice of anything else, and for one that cannot be read."""
    if not is_outbid(raw):
        return None
    row = values.mapping(raw)
    about = values.mapping(row.get("associated_id"))
    instance_id, winning_bid = values.identifier(about.get("instance_id")), values.price(about.get("new_min_bid"))
    at = values.instant(row.get("created_at"))
    if instance_id is None or not winning_bid or at is None:
        return None
    return OutbidNotice(instance_id, winning_bid, at)


def _positive(value: Decimal | None) -> Decimal | None:
    return value if value else None


def offer_row(raw: object) -> OfferRow | None:
    """None when the row is no GPU offer or when something that costs money cannot be read."""
    row = values.mapping(raw)
    offer_id, machine_id = values.identifier(row.get("id")), values.identifier(row.get("machine_id"))
    gpu, num_gpus = values.text(row.get("gpu_name")), values.integer(row.get("num_gpus"))
    storage = values.price(row.get("storage_cost"))
    upload, download = values.price(row.get("inet_up_cost")), values.price(row.get("inet_down_cost"))
    gpu_ram_mb, disk_gb = values.number(row.get("gpu_ram")), values.number(row.get("disk_space"))
    if offer_id is None or machine_id is None or not gpu or num_gpus is None or num_gpus < 1:
        return None
    if storage is None or upload is None or download is None or gpu_ram_mb is None or disk_gb is None:
        return None
    reliability = values.number(row.get("reliability"))
    if reliability is None:
        reliability = values.number(row.get("reliability2"))
    return OfferRow(
        offer_id=offer_id,
        machine_id=machine_id,
        host_id=values.identifier(row.get("host_id")) or "",
        gpu=gpu,
        num_gpus=num_gpus,
        gpu_ids=_gpu_ids(row.get("gpu_ids")),
        machine_gpus=_machine_gpus(num_gpus, values.number(row.get("gpu_frac"))),
        gpu_ram_mb=gpu_ram_mb,
        min_bid=_positive(values.price(row.get("min_bid"))),
        price=_positive(values.price(row.get("dph_base"))),
        storage_price=storage,
        upload_price=upload,
        download_price=download,
        download_mbps=values.number(row.get("inet_down")) or ZERO,
        reliability=min(max(reliability or ZERO, ZERO), Decimal(1)),
        verified=row.get("verification") == "verified",
        datacenter=values.integer(row.get("hosting_type")) == 1,
        disk_gb=disk_gb,
        location=values.text(row.get("geolocation")).strip(", "),
        ends_at=values.instant(row.get("end_date")),
        host=_host_facts(row),
    )


def _host_facts(row: dict[str, Any]) -> HostFacts:
    cpus = _positive(values.number(row.get("cpu_cores_effective")))
    capability = _positive(values.number(row.get("compute_cap")))
    place = _COUNTRY.search(values.text(row.get("geolocation")))
    return HostFacts(
        cuda=_positive(values.number(row.get("cuda_max_good"))),
        driver=_driver(values.text(row.get("driver_version"))),
        compute_cap=None if capability is None else capability / 100,
        arch=_ARCHES.get(values.text(row.get("cpu_arch")).lower()),
        cpus=cpus,
        ram_gb=_ram_share_gb(row, cpus),
        disk_mb_per_s=_positive(values.number(row.get("disk_bw"))),
        upload_mbps=_positive(values.number(row.get("inet_up"))),
        country="" if place is None else place[1],
    )


def _driver(text: str) -> str:
    try:
        driver_order(text)
    except ValueError:
        return ""
    return text


def _ram_share_gb(row: dict[str, Any], cpus: Decimal | None) -> Decimal | None:
    """Memory is stated of the whole machine: a chunk has the share of it that it has of the processors.

    None: the market states one of the three as null or nothing, as it does of some machines.
    """
    whole_mb, cores = (_positive(values.number(row.get(name))) for name in ("cpu_ram", "cpu_cores"))
    if whole_mb is None or cores is None or cpus is None:
        return None
    return (whole_mb * min(cpus / cores, Decimal(1)) / MEGABYTES_PER_GB).quantize(Decimal("0.001"))


def _gpu_ids(raw: object) -> frozenset[str]:
    ids = [values.identifier(each) for each in raw] if isinstance(raw, list) else []
    return frozenset(each for each in ids if each is not None)


def _machine_gpus(num_gpus: int, share: Decimal | None) -> int | None:
    """``share``: the part of the machine's GPUs that the offer includes."""
    return None if share is None or not 0 < share <= 1 else max(round(num_gpus / share), num_gpus)


def offer_rows(raw: Iterable[object]) -> tuple[tuple[OfferRow, ...], int]:
    """The rows that can be read, and how many could not."""
    read = [offer_row(row) for row in raw]
    good = tuple(row for row in read if row is not None)
    return good, len(read) - len(good)


def listed_instance(raw: object) -> InstanceRow:
    """Ours in full; of anybody's the id and the label at least, and it counts as running. Raises ``UnreadableRow``."""
    row = values.mapping(raw)
    instance_id = values.identifier(row.get("id"))
    if not says_whose(row, "label", may_be_null=True):
        raise UnreadableRow(f"instance {instance_id or '?'} has no label, so it may be ours")
    try:
        return instance_row(raw)
    except UnreadableRow:
        if instance_id is None or not is_strangers(row, "label", may_be_null=True):
            raise
        return InstanceRow(
            instance_id=instance_id,
            label=values.label(row["label"]),
            machine_id=values.identifier(row.get("machine_id")) or "",
            host_id="",
            is_bid=False,
            bid=ZERO,
            storage_rate=ZERO,
            gpu="",
            num_gpus=max(values.integer(row.get("num_gpus")) or 0, 0),
            actual=UNTOLD,
            intended=UNTOLD,
            current=UNTOLD,
            ends_at=None,
            message="",
        )


def instance_row(raw: object) -> InstanceRow:
    """Raises ``UnreadableRow`` when the id, the kind of contract or its price is missing."""
    row = values.mapping(raw)
    instance_id, is_bid = values.identifier(row.get("id")), values.boolean(row.get("is_bid"))
    bid = values.price(row.get("dph_base"))
    if instance_id is None or is_bid is None or bid is None:
        raise UnreadableRow(f"instance {instance_id or '?'} lacks its id, is_bid or dph_base")
    return InstanceRow(
        instance_id=instance_id,
        label=values.label(row.get("label")),
        machine_id=values.identifier(row.get("machine_id")) or "",
        host_id=values.identifier(row.get("host_id")) or "",
        is_bid=is_bid,
        bid=bid,
        storage_rate=_storage_rate(row),
        gpu=values.text(row.get("gpu_name")),
        num_gpus=max(values.integer(row.get("num_gpus")) or 0, 0),
        actual=values.text(row.get("actual_status")).lower(),
        intended=values.text(row.get("intended_status")).lower(),
        current=values.text(row.get("cur_state")).lower(),
        ends_at=values.instant(row.get("end_date")),
        message=values.text(row.get("status_msg"))[:200],
        ssh=tuple(_ssh_addresses(row)),
    )


def _ssh_addresses(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Those that can be read. They become words of a command: nothing that could be taken for an option passes."""
    mapped = values.mapping(row.get("ports")).get(SSH_PORT_INSIDE)
    first = values.mapping(mapped[0]) if isinstance(mapped, list) and mapped else {}
    own = values.text(row.get("public_ipaddr")).strip(), values.integer(first.get("HostPort"))
    for host, port in (own, (values.text(row.get("ssh_host")).strip(), values.integer(row.get("ssh_port")))):
        if port is not None and 0 < port < 65_536 and _HOST.fullmatch(host):
            yield host, port


def _storage_rate(row: dict[str, Any]) -> Decimal:
    stated = values.price(row.get("storage_total_cost"))
    if stated is None:
        stated = values.price(values.mapping(row.get("instance")).get("diskHour"))
    return stated or ZERO


def charge_row(raw: object) -> ChargeRow | None:
    """None for what was billed to something other than an instance. Raises ``UnreadableRow``.

    One that says neither that it is of an instance nor that it is of anything else is not left out: the bill would come
    to less than it is.
    """
    row = values.mapping(raw)
    source = values.text(row.get("source"))
    if not source:
        raise UnreadableRow("a charge names no source")
    if not source.startswith("instance-"):
        if values.text(row.get("type")) in ("", "instance"):
            raise UnreadableRow("the charge of an instance does not say of which")
        return None
    instance_id, start = values.identifier(source.removeprefix("instance-")), values.instant(row.get("start"))
    if instance_id is None or start is None or not isinstance(row.get("items"), list):
        raise UnreadableRow(f"the charge of {source} cannot be read")
    label = values.label(values.mapping(row.get("metadata")).get("label"))
    items = tuple(_charge_item(source, item) for item in row["items"])
    _check_types(source, items)
    return ChargeRow(instance_id, start, items, label, values.instant(row.get("end")))


def _check_types(source: str, items: Iterable[tuple[str, Decimal]]) -> None:
    """A new type beside all that are known is a fee. In the place of one it may be that one under another name, which
    is posted already, from an earlier look or by our own clock: it would count twice. Raises ``UnreadableRow``.
    """
    types = {item_type for item_type, _ in items}
    is_any_new = any(amount > ZERO and item_type not in ITEM_TYPES for item_type, amount in items)
    if is_any_new and not types >= ITEM_TYPES:
        raise UnreadableRow(f"the charge of {source} has an item of a new type and lacks a known one")


def _charge_item(source: str, raw: object) -> tuple[str, Decimal]:
    item = values.mapping(raw)
    amount = values.dollars(item.get("amount"))
    if amount is None:
        raise UnreadableRow(f"an item in the charge of {source} has no amount")
    return values.text(item.get("type")).lower(), amount
