"""What a host is like: what its market says of it, and what is true. One value for the emulators of all markets.

Words of a container runtime are those that hosts really print; nothing here says how a market passes them on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

from autopilot_lab.sandbox.image_traits import traits_of


class Boot(StrEnum):
    """How a start goes on a host. All but the first fail there for every image."""

    WELL = "well"
    FOR_EVER = "for_ever"
    """It loads, and never gets further; nothing is said."""
    NO_RUNTIME = "no_runtime"
    """The container runtime cannot make a container."""
    FULL_DISK = "full_disk"
    """The image does not fit on what is left of the disk."""
    NO_NETWORK = "no_network"
    """The container runs, and reaches nothing outside."""


DUD_BOOTS = {Boot.FOR_EVER: 35, Boot.NO_RUNTIME: 25, Boot.FULL_DISK: 15, Boot.NO_NETWORK: 25}
"""How a host fails that never boots, and how often of a hundred."""


_NOT_CREATED = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed"
)


NO_NETWORK_WORDS = "autopilot: <urlopen error [Errno -3] Temporary failure in name resolution>"
"""What the agent's start text prints there at each try."""
NO_NETWORK_TRIES_S = (0, 2, 6, 14, 30, 62, 122)
"""When it tries, in seconds from the container's start."""


class StartStage(StrEnum):
    """How far a start gets that fails."""

    LOADING = "loading"
    PULL = "pull"
    CREATE = "create"


@dataclass(frozen=True)
class StartFailure:
    """``words``: the container runtime's; none while a machine loads for ever."""

    stage: StartStage
    words: str = ""


@dataclass(frozen=True)
class Truth:
    """What no market says of a host."""

    boots: Boot = Boot.WELL
    download_mbps: float | None = None
    """None: as stated."""
    upload_mbps: float | None = None


SOUND = Truth()


@dataclass(frozen=True)
class HostTraits:
    """As stated, but for ``truth``. ``cpus`` and ``ram_gb``: of the whole host."""

    driver: str = "580.95.05"
    cuda: str = "13.0"
    """The highest that the driver knows."""
    compute_cap: int = 890
    """8.9 is 890."""
    arch: str = "amd64"
    cpus: int = 32
    ram_gb: int = 128
    disk_mb_s: float = 3000.0
    download_mbps: float = 900.0
    upload_mbps: float = 500.0
    country: str = "SE"
    region: str = "Sweden"
    reliability: float = 0.99
    truth: Truth = SOUND

    @property
    def has_network(self) -> bool:
        return self.truth.boots is not Boot.NO_NETWORK

    @property
    def is_dud(self) -> bool:
        return self.truth.boots is not Boot.WELL

    @property
    def slowness(self) -> float:
        """How much less it sends than is stated."""
        sent = self.truth.upload_mbps
        return 1.0 if sent is None else max(self.upload_mbps / sent, 1.0)


def is_excluded(host: HostTraits, image: str) -> bool:
    """Whether what is stated of the host already says that the image does not start there."""
    needs = traits_of(image)
    return host.arch not in needs.architectures or _lacks_cuda(host, needs.needs_cuda)


def find_failure(host: HostTraits, image: str) -> StartFailure | None:
    """What a start of the image on the host comes to; None: a container that runs."""
    needs, boots = traits_of(image), host.truth.boots
    if boots is Boot.FOR_EVER:
        return StartFailure(StartStage.LOADING)
    if host.arch not in needs.architectures:
        return StartFailure(StartStage.PULL, no_manifest(host.arch))
    if boots is Boot.FULL_DISK:
        return StartFailure(StartStage.PULL, "write /var/lib/docker/tmp/GetImageBlob2417: no space left on device")
    if _lacks_cuda(host, needs.needs_cuda):
        return StartFailure(StartStage.CREATE, _cannot_create(unmet_cuda(needs.needs_cuda or "")))
    if boots is Boot.NO_RUNTIME:
        return StartFailure(StartStage.CREATE, _NOT_CREATED)
    return None


def no_manifest(arch: str) -> str:
    variant = "/v8" if arch == "arm64" else ""
    return f"no matching manifest for linux/{arch}{variant} in the manifest list entries"


def unmet_cuda(needs: str) -> str:
    """As the hook of NVIDIA's container toolkit says it."""
    return (
        "error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
        f"nvidia-container-cli: requirement error: unsatisfied condition: cuda>={needs}, "
        "please update your driver to a newer version, or use an earlier cuda container: unknown"
    )


def _cannot_create(why: str) -> str:
    return f"{_NOT_CREATED}: unable to start container process: error during container init: {why}"


def _lacks_cuda(host: HostTraits, needs: str | None) -> bool:
    return needs is not None and not is_as_new(host.cuda, needs)


def is_as_new(version: str, needed: str) -> bool:
    """Of two numbers with a dot: 12.10 is newer than 12.8."""
    return _release(version) >= _release(needed)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


class HostPool:
    """Hosts of one kind, of which a market that names none chooses one at each launch."""

    def __init__(self, hosts: tuple[HostTraits, ...], seed: str) -> None:
        self._hosts = hosts
        self._rng = random.Random(seed)  # noqa: S311 - reproducible, no secret

    def replace_all(self, hosts: tuple[HostTraits, ...]) -> None:
        """From the next launch on."""
        self._hosts = hosts

    def draw(self) -> HostTraits:
        """Where none are known, all are alike and sound."""
        return self._rng.choice(self._hosts) if self._hosts else HostTraits()


# -- the zoo

IN_A_POOL = 16
"""Hosts of one kind of virtual machine."""
DRIVERS = (
    ("580.95.05", "13.0", 42),
    ("570.124.06", "12.8", 26),
    ("560.35.03", "12.6", 8),
    ("550.144.03", "12.4", 10),
    ("535.183.01", "12.2", 8),
    ("525.147.05", "12.0", 3),
    ("520.61.05", "11.8", 3),
)
"""Driver, the highest CUDA that it knows, and of how many hosts in a hundred."""


def driver_of(cuda: str) -> str:
    """The oldest of the zoo's that knows it; of a number between two the newer one's."""
    return next((driver for driver, known, _ in reversed(DRIVERS) if is_as_new(known, cuda)), DRIVERS[0][0])


_PLACES = (
    ("Sweden", "SE"),
    ("Texas", "US"),
    ("Washington", "US"),
    ("Poland", "PL"),
    ("Quebec", "CA"),
    ("Sichuan", "CN"),
)
_OF_OTHER_ARCH = 0.04
_OF_LIARS = 0.10
"""Share of the hosts whose link is a small part of what is stated."""


def draw_zoo(
    rng: random.Random, count: int, share_of_duds: float, *, has_own_drivers: bool = True
) -> tuple[HostTraits, ...]:
    """So many hosts, of which that share never boots, to the nearest.

    For any share, the same seed has the same hosts, and those that fail at a small one fail at a larger one.
    """
    hosts = draw_hosts(rng, count, has_own_drivers=has_own_drivers)
    boots = draw_duds(rng, count, share_of_duds)
    return tuple(replace(host, truth=replace(host.truth, boots=boot)) for host, boot in zip(hosts, boots, strict=True))


def draw_hosts(rng: random.Random, count: int, *, has_own_drivers: bool = True) -> tuple[HostTraits, ...]:
    """As unlike as those of a market of private hosts; all of them boot.

    ``has_own_drivers``: False where the driver comes with the market's own image of the machine, the newest one.
    """
    return tuple(_draw_host(rng, has_own_drivers=has_own_drivers) for _ in range(count))


def draw_duds(rng: random.Random, count: int, share: float) -> tuple[Boot, ...]:
    """How each of so many hosts boots. Raises ``ValueError`` for a share that is none."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {share:g}")
    boots = [Boot.WELL] * count
    for number in rng.sample(range(count), count)[: round(share * count)]:
        boots[number] = _draw_boot(rng)
    return tuple(boots)


def _draw_boot(rng: random.Random) -> Boot:
    return rng.choices(list(DUD_BOOTS), list(DUD_BOOTS.values()))[0]


def _draw_host(rng: random.Random, *, has_own_drivers: bool) -> HostTraits:
    driver, cuda, _ = rng.choices(DRIVERS, [weight for *_, weight in DRIVERS])[0]
    region, country = rng.choice(_PLACES)
    download, upload = _between(rng, 60, 6000), _between(rng, 40, 2500)
    lies, is_other = rng.random() < _OF_LIARS, rng.random() < _OF_OTHER_ARCH
    host = HostTraits(
        driver=driver,
        cuda=cuda,
        arch="arm64" if is_other else "amd64",
        cpus=rng.choice((8, 16, 24, 32, 64, 128)),
        ram_gb=rng.choice((16, 32, 64, 128, 256, 512)),
        disk_mb_s=_between(rng, 150, 6000),
        download_mbps=download,
        upload_mbps=upload,
        country=country,
        region=region,
        reliability=round(1 - _between(rng, 0.0005, 0.08), 4),
        truth=Truth(download_mbps=download / 20, upload_mbps=upload / 20) if lies else SOUND,
    )
    if has_own_drivers:
        return host
    return replace(host, driver=HostTraits.driver, cuda=HostTraits.cuda, arch=HostTraits.arch)


def _between(rng: random.Random, least: float, most: float) -> float:
    """Small ones as often as large ones."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))), 4 if most < 1 else 1)


def draw_pool(name: str, share_of_duds: float) -> tuple[HostTraits, ...]:
    """Hosts behind a kind of virtual machine. Their driver is that of the market's own image of the machine."""
    hosts = draw_hosts(make_rng(name, "pool"), IN_A_POOL, has_own_drivers=False)
    return give_duds(hosts, share_of_duds, name)


class WithTruth(Protocol):
    @property
    def truth(self) -> Truth: ...


T = TypeVar("T", bound=WithTruth)


def give_duds(hosts: Iterable[T], share: float, seed: object) -> tuple[T, ...]:
    """That share of them never boots, and the others do."""
    known = tuple(hosts)
    boots = draw_duds(make_rng(seed, "duds"), len(known), share)
    truths = [replace(host.truth, boots=boot) for host, boot in zip(known, boots, strict=True)]
    return tuple(replace(host, truth=truth) for host, truth in zip(known, truths, strict=True))  # type: ignore[type-var]


def make_rng(seed: object, name: str) -> random.Random:
    return random.Random(f"zoo:{seed}:{name}")  # noqa: S311 - a market drawn from a seed, no secret
