"""Catalogues of the four markets with hosts as unlike as real ones, of which a share never boots.

Prices and kinds of machine are those of the default markets, several of each. The same seed gives the same hosts for
every share; at a larger one more of them fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from autopilot_lab.sandbox import catalogue
from autopilot_lab.sandbox.host_traits import HostTraits, draw_hosts, draw_pool, give_duds, make_rng
from autopilot_lab.sandbox.market.machines import MachineSpec
from autopilot_lab.sandbox.mithril import catalogue as mithril_catalogue
from autopilot_lab.sandbox.mithril.pools import AuctionPoolSpec
from autopilot_lab.sandbox.nebius import catalogue as nebius_catalogue
from autopilot_lab.sandbox.nebius.pools import PoolSpec
from autopilot_lab.sandbox.runpod import catalogue as runpod_catalogue
from autopilot_lab.sandbox.runpod.machines import MachineSpec as PodMachineSpec

PRESETS = {"plain": None, "zoo": 0.3, "zoo-stress": 0.58}
"""Share of the hosts that never boot; None: the default market, where all are alike and sound."""
OF_EACH = 5
"""Machines of each kind that the default market has one of."""


@dataclass(frozen=True)
class Zoo:
    vastai: tuple[MachineSpec, ...]
    runpod: tuple[PodMachineSpec, ...]
    mithril: tuple[AuctionPoolSpec, ...]
    nebius: tuple[PoolSpec, ...]


def make_zoo(seed: int, share_of_duds: float, start: datetime) -> Zoo:
    """Raises ``ValueError`` for a share that is none."""
    machines = [
        replace(spec, machine_id=spec.machine_id + 10_000 * number, host_id=spec.host_id + 1_000 * number)
        for number in range(OF_EACH)
        for spec in catalogue.default_catalogue(seed + number, start)
    ]
    pods = [
        replace(spec, machine_id=f"{spec.machine_id[:-1]}{number}")
        for number in range(OF_EACH)
        for spec in runpod_catalogue.default_catalogue(seed + number)
    ]
    vastai, runpod = (make_rng(seed, market) for market in ("vastai", "runpod"))
    return Zoo(
        give_duds(map(_like_vastai, machines, draw_hosts(vastai, len(machines))), share_of_duds, seed),
        give_duds(map(_like_runpod, pods, draw_hosts(runpod, len(pods))), share_of_duds, seed),
        tuple(
            replace(pool, hosts=draw_pool(f"{seed} {pool.region} {pool.type.id}", share_of_duds))
            for pool in mithril_catalogue.default_catalogue(seed)
        ),
        tuple(
            replace(pool, hosts=draw_pool(f"{seed} {pool.region} {pool.platform.name}", share_of_duds))
            for pool in nebius_catalogue.default_catalogue(seed)
        ),
    )


def _like_vastai(spec: MachineSpec, host: HostTraits) -> MachineSpec:
    return replace(
        spec,
        cuda_max_good=float(host.cuda),
        driver_version=host.driver,
        cpu_arch=host.arch,
        cpu_cores=host.cpus * spec.gpu_count,
        cpu_ram_mb=host.ram_gb * 1000 * spec.gpu_count,
        disk_bw=host.disk_mb_s,
        inet_up_mbps=host.upload_mbps,
        inet_down_mbps=host.download_mbps,
        geolocation=f"{host.region}, {host.country}",
        reliability=host.reliability,
        truth=host.truth,
    )


def _like_runpod(spec: PodMachineSpec, host: HostTraits) -> PodMachineSpec:
    return replace(
        spec,
        cuda_version=host.cuda,
        arch=host.arch,
        download_mbps=round(host.download_mbps),
        upload_mbps=round(host.upload_mbps),
        truth=host.truth,
    )
