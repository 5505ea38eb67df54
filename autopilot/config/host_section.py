"""The keys of ``[resources]`` that are about the machine around the GPUs: how their values are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from autopilot.config.toml_document import KeyPath
from autopilot.config.values import count, text
from autopilot.domain.host import KEYS, HostNeeds, driver_order
from autopilot.domain.places import COUNTRIES, PARTS

SECTION = "resources"

_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*(MB|GB)/s", re.IGNORECASE)
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*(Mbps|Gbps)", re.IGNORECASE)
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,39}", re.ASCII)
_CUDA = re.compile(r"\d{1,2}(?:\.\d{1,2})?", re.ASCII)
_THOUSAND = Decimal(1000)
MOST_PLACES = 20
MOST_CPUS = 4096


def read_host(read: Mapping[KeyPath, Any]) -> HostNeeds:
    return HostNeeds(**{field: read[SECTION, key] for key, field in KEYS.items() if (SECTION, key) in read})


def cuda(raw: object) -> Decimal:
    """``"12.8"``; ``"12"`` is 12.0, which every driver that runs programs of 12.x supports."""
    shown = str(raw) if isinstance(raw, (int, Decimal)) and not isinstance(raw, bool) else raw
    if not isinstance(shown, str) or not _CUDA.fullmatch(shown.strip()):
        raise ValueError(f'must be a CUDA version like "12.8", or "12" for any driver of programs of 12.x, not {raw!r}')
    return Decimal(shown.strip())


def driver(raw: object) -> str:
    value = text(raw).strip()
    try:
        driver_order(value)
    except ValueError:
        raise ValueError(f'must be a version of NVIDIA\'s driver like "535" or "550.54.14", not {value!r}') from None
    return value


def cpus(raw: object) -> Decimal:
    number = count(raw)
    if number > MOST_CPUS:
        raise ValueError(f"must be {MOST_CPUS:,} at most, not {number:,}")
    return Decimal(number)


def speed(raw: object) -> Decimal:
    """Megabytes per second from ``"500MB/s"``."""
    found = _SPEED.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if found is None:
        raise ValueError(f'must be a speed like "500MB/s" or "1.5GB/s", not {raw!r}')
    return _positive(found, "GB")


def bandwidth(raw: object) -> Decimal:
    """Megabits per second from ``"200Mbps"``."""
    found = _BANDWIDTH.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if found is None:
        raise ValueError(f'must be bits per second like "200Mbps" or "1Gbps", not {raw!r}')
    return _positive(found, "GBPS")


def _positive(match: re.Match[str], thousands: str) -> Decimal:
    try:
        value = Decimal(match[1]) * (_THOUSAND if match[2].upper() == thousands else 1)
    except InvalidOperation:
        raise ValueError(f"not a number: {match[1]!r}") from None
    if not 0 < value < _THOUSAND**3:
        raise ValueError(f"must be positive, not {match[0]!r}")
    return value


def countries(raw: object) -> tuple[str, ...]:
    """``"DE | FR"``: any of them."""
    found = tuple(each.upper() for each in _alternatives(raw))
    for code in found:
        if code not in COUNTRIES:
            known = ' (the United Kingdom is "GB")' if code == "UK" else ""
            raise ValueError(f'must be countries by their two letters like "DE | FR", not {code!r}{known}')
    return found


def regions(raw: object) -> tuple[str, ...]:
    """``"europe | us-central1"``: any of them."""
    found = tuple(each.lower() for each in _alternatives(raw))
    for name in found:
        if not _REGION.fullmatch(name):
            raise ValueError(
                f"must be parts of the world ({', '.join(PARTS)}) or regions of a market like us-central1, not {name!r}"
            )
    return found


def _alternatives(raw: object) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in text(raw).split("|")))
    if len(found) > MOST_PLACES:
        raise ValueError(f"names {len(found)} places, of which {MOST_PLACES} may be named")
    return found
