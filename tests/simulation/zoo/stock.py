"""Hosts of each market with a share of duds: on vast.ai each is on offer by itself, elsewhere a pool has many."""

from __future__ import annotations

import random
from decimal import Decimal as D

from autopilot_lab.sandbox.host_traits import draw_zoo
from tests.simulation.ground.machines import Host, Place
from tests.simulation.ground.scenario import GPU

MARKETS = ("vastai", "runpod", "mithril", "nebius")
MACHINES = 24
"""Of vast.ai; two belong to one host each."""
IN_A_POOL = 16


def stock(market: str, seed: int, share_of_duds: float) -> list[Host]:
    """The same prices and hosts for each share: at a larger one more of them fail."""
    prices, hosts = random.Random(f"{seed}/zoo prices of {market}"), random.Random(f"{seed}/zoo hosts of {market}")
    makers = {"vastai": _vastai, "runpod": _runpod, "mithril": _mithril, "nebius": _nebius}
    return makers[market](prices, hosts, share_of_duds)


def _vastai(prices: random.Random, hosts: random.Random, share: float) -> list[Host]:
    found = []
    for number, traits in enumerate(draw_zoo(hosts, MACHINES, share)):
        on_demand = D(prices.randint(280, 520)) / 1000
        floor = (on_demand * prices.randint(30, 60) / 100).quantize(D("0.001"))
        storage = D(prices.choice(("0.10", "0.15", "0.30")))
        host = Host(str(101 + number), str(201 + number // 2), GPU, floor, on_demand, storage, D(0))
        host.places = (Place(host.machine_id, traits),)
        found.append(host)
    return found


def _runpod(prices: random.Random, hosts: random.Random, share: float) -> list[Host]:
    found = []
    for cloud, on_demand in (("SECURE", D("0.59")), ("COMMUNITY", D("0.34"))):
        floor = (on_demand * prices.randint(40, 60) / 100).quantize(D("0.001"))
        host = Host(cloud, "", GPU, floor, on_demand, D("0.10"), D(0), room=IN_A_POOL)
        host.places = _places(f"{cloud.lower()}", hosts, share, has_own_drivers=True)
        found.append(host)
    return found


def _mithril(prices: random.Random, hosts: random.Random, share: float) -> list[Host]:
    found = []
    for number in range(3):
        floor = D(prices.randint(8, 30)) / 100
        host = Host(f"us-sim{number + 1}-a/it_{number + 1}", "", GPU, floor, floor * 3, D(0), D(0), room=IN_A_POOL)
        host.places = _places(f"rack{number + 1}", hosts, share, has_own_drivers=False)
        found.append(host)
    return found


def _nebius(prices: random.Random, hosts: random.Random, share: float) -> list[Host]:
    found = []
    for place in ("eu-sim1/gpu-rtx4090", "eu-sim1/gpu-rtx4090-a", "us-sim1/gpu-rtx4090"):
        floor = D(prices.randint(50, 220)) / 1000
        kind = f"{place}/1gpu-16vcpu-64gb"
        host = Host(kind, "", GPU, floor, floor * 3, D("0.072"), D(0), room=IN_A_POOL)
        host.places = _places(place.replace("/", "-"), hosts, share, has_own_drivers=False)
        found.append(host)
    return found


def _places(pool: str, rng: random.Random, share: float, *, has_own_drivers: bool) -> tuple[Place, ...]:
    drawn = draw_zoo(rng, IN_A_POOL, share, has_own_drivers=has_own_drivers)
    return tuple(Place(f"{pool}-{number:02d}", traits) for number, traits in enumerate(drawn))
