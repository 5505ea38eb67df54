"""The names of GPUs: as people write them, as markets list them, and which of them mean the same. Pure.

Each model has one standard name. A name that several models share ("H100") means all of them, and one with a size
("A100 80GB") those of that size. A name that is not listed here is taken as it is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

NEAR_SIZE = Decimal("0.1")
"""Markets measure VRAM, vendors advertise it: a GPU of "48 GB" shows 46. Sizes differ by less than this share."""


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    """The standard name: what we show, and record prices under."""
    vram_gb: tuple[int, ...]
    """The sizes in which it was built, as advertised."""
    also: tuple[str, ...] = ()
    """Other names that some market or people have for it, shared ones too."""


MODELS = (
    Model("A10", (24,)),
    Model("A16", (16,)),
    Model("A30", (24,)),
    Model("A40", (48,)),
    Model("A100 PCIE", (40, 80), ("A100",)),
    Model("A100 SXM4", (40, 80), ("A100", "A100 SXM")),
    Model("A800 PCIE", (80,)),
    Model("B200", (180,), ("B200 SXM",)),
    Model("B300", (288,), ("B300 SXM6 AC", "B300 SXM")),
    Model("GB10", (128,)),
    Model("GTX 1070", (8,)),
    Model("GTX 1080", (8,)),
    Model("GTX 1080 Ti", (11,)),
    Model("GTX 1660 S", (6,), ("GTX 1660 Super",)),
    Model("GTX 1660 Ti", (6,)),
    Model("H100 NVL", (94,), ("H100",)),
    Model("H100 PCIE", (80,), ("H100",)),
    Model("H100 SXM", (80,), ("H100", "H100 HBM3", "H100 SXM5")),
    Model("H200", (141,), ("H200 SXM",)),
    Model("H200 NVL", (141,)),
    Model("L4", (24,)),
    Model("L40", (48,)),
    Model("L40S", (48,)),
    Model("MI300X", (192,), ("AMD Instinct MI300X OAM",)),
    Model("Q RTX 6000", (24,), ("Quadro RTX 6000",)),
    Model("Q RTX 8000", (48,), ("Quadro RTX 8000",)),
    Model("RTX 2000Ada", (16,), ("RTX 2000 Ada Generation",)),
    Model("RTX 2060", (6, 12)),
    Model("RTX 2070", (8,)),
    Model("RTX 2080", (8,)),
    Model("RTX 2080 Ti", (11, 22)),
    Model("RTX 3060", (12,)),
    Model("RTX 3060 Ti", (8,)),
    Model("RTX 3070", (8,)),
    Model("RTX 3070 Ti", (8,)),
    Model("RTX 3080", (10, 12)),
    Model("RTX 3080 Ti", (12,)),
    Model("RTX 3090", (24,)),
    Model("RTX 3090 Ti", (24,)),
    Model("RTX 4000Ada", (20,), ("RTX 4000 Ada Generation", "RTX 4000 SFF Ada", "RTX 4000 Ada SFF")),
    Model("RTX 4060", (8,)),
    Model("RTX 4060 Ti", (8, 16)),
    Model("RTX 4070", (12,)),
    Model("RTX 4070 Ti", (12,)),
    Model("RTX 4070S", (12,), ("RTX 4070 Super",)),
    Model("RTX 4070S Ti", (16,), ("RTX 4070 Ti Super",)),
    Model("RTX 4080", (16,)),
    Model("RTX 4080S", (16, 32), ("RTX 4080 Super",)),
    Model("RTX 4090", (24, 48)),
    Model("RTX 4090D", (24, 48)),
    Model("RTX 4500Ada", (24,), ("RTX 4500 Ada Generation",)),
    Model("RTX 5000Ada", (32,), ("RTX 5000 Ada Generation",)),
    Model("RTX 5060", (8,)),
    Model("RTX 5060 Ti", (8, 16)),
    Model("RTX 5070", (12,)),
    Model("RTX 5070 Ti", (16,)),
    Model("RTX 5080", (16,)),
    Model("RTX 5090", (32,)),
    Model("RTX 5880Ada", (48,), ("RTX 5880 Ada Generation",)),
    Model("RTX 6000Ada", (48,), ("RTX 6000 Ada Generation",)),
    Model("RTX A2000", (6, 12)),
    Model("RTX A4000", (16,)),
    Model("RTX A4500", (20,)),
    Model("RTX A5000", (24,)),
    Model("RTX A6000", (48,)),
    Model("RTX PRO 6000 Max-Q", (96,), ("RTX PRO 6000", "RTX PRO 6000 Max-Q Workstation")),
    Model("RTX PRO 6000 S", (96,), ("RTX PRO 6000", "RTX PRO 6000 Server")),
    Model("RTX PRO 6000 WS", (96,), ("RTX PRO 6000", "RTX PRO 6000 Workstation", "RTX PRO 6000 WK")),
    Model("Tesla P40", (24,)),
    Model("Tesla P100", (16,)),
    Model("Tesla T4", (16,)),
    Model("Tesla V100", (16, 32), ("V100 PCIE", "V100 SXM2", "V100 FHHL")),
    Model("Titan RTX", (24,)),
    Model("Titan V", (12,)),
)
"""Standard names are those of vast.ai, which lists most kinds. Sources: the lists named in docs/providers/."""

NAMES = tuple(model.name for model in MODELS)
"""The shipped list, for when no market can be asked for its own."""

_SIZE = re.compile(r"(?<![a-z0-9])(\d{1,3})\s*g(?:i?b)?(?![a-z0-9])")
_MAKERS = re.compile(r"\b(nvidia|amd|instinct|geforce|tesla|quadro|generation|blackwell|edition)\b")
_SERIES = re.compile(r"^(rtx|gtx)(?=[a-z]*\d)")


def _key_of(name: str) -> tuple[str, int | None]:
    """What tells it from other names, and the size in GB that it states."""
    text = name.casefold().replace("_", " ")
    size = _SIZE.search(text)
    text = _SIZE.sub(" ", text).replace("quadro rtx", "q rtx")
    key = re.sub(r"[^a-z0-9]", "", _MAKERS.sub(" ", text))
    return _SERIES.sub("", key), int(size[1]) if size else None


def _by_key() -> dict[str, tuple[Model, ...]]:
    found: dict[str, tuple[Model, ...]] = {}
    for model in MODELS:
        for key in dict.fromkeys(_key_of(name)[0] for name in (model.name, *model.also)):
            found[key] = (*found.get(key, ()), model)
    return found


_MODELS = _by_key()


@lru_cache(maxsize=4096)
def models(name: str) -> tuple[Model, ...]:
    """All that fit the name; none for one that the table does not have."""
    key, size = _key_of(name)
    found = _MODELS.get(key, ())
    return found if size is None else tuple(each for each in found if any(_is_near(size, gb) for gb in each.vram_gb))


def expand(name: str) -> tuple[str, ...]:
    """The standard names of all models that fit it; the name itself where the table has none."""
    return tuple(model.name for model in models(name)) or (" ".join(name.split()),)


def standard(name: str) -> str:
    """The one standard name for what a market calls so; the name itself where that is none or several."""
    found = expand(name)
    return found[0] if len(found) == 1 else name


def size_gb(name: str) -> int | None:
    """The VRAM that the name states: 80 for "A100 80GB"."""
    return _key_of(name)[1]


def least_gb(name: str) -> Decimal:
    """The least VRAM that a GPU shows which was asked for by a name with a size; 0 without one."""
    return Decimal(size_gb(name) or 0) * (1 - NEAR_SIZE)


def recorded_as(name: str) -> tuple[str, ...]:
    """Every name under which the prices of such a GPU may have been recorded, its standard names first."""
    others = (also for model in models(name) for also in model.also if len(models(also)) == 1)
    return tuple(dict.fromkeys((*expand(name), *others, name)))


@lru_cache(maxsize=4096)
def fits(asked: str, gpu: str, vram_gb: Decimal) -> bool:
    """Whether a market's GPU with so much VRAM is what was asked for."""
    size = size_gb(asked)
    return is_called(gpu, asked) and (size is None or _is_near(size, vram_gb))


def is_called(gpu: str, asked: str) -> bool:
    """Whether a market's name is one for what was asked for, of any size."""
    wanted, found = _key_of(asked)[0], _key_of(gpu)[0]
    return wanted == found or bool({*_MODELS.get(wanted, ())} & {*_MODELS.get(found, ())})


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name among ``known`` that looks most like this one."""
    known = tuple(known)
    if called := next((each for each in known if is_called(each, name)), None):
        return called
    keys = {_key_of(each)[0]: each for each in known}
    close = difflib.get_close_matches(_key_of(name)[0], keys, n=1, cutoff=0.3)
    return keys[close[0]] if close else None


def meaning(name: str) -> str:
    """What a name means, for people; empty if that is one model, as it was written."""
    found = models(name)
    if len(found) < 2:
        return ""
    size = size_gb(name)
    *others, last = (model.name for model in found)
    return f"{', '.join(others)} and {last}" + (f" with {size} GB" if size is not None else "")


def _is_near(size: int, vram_gb: Decimal | int) -> bool:
    return abs(Decimal(vram_gb) - size) < NEAR_SIZE * size
