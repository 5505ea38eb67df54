"""A program: rent a machine and give it back, with nothing importable but what requirements.lock installs.

Arguments: market, address, key. Prints the calls that the market answered.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from importlib.metadata import packages_distributions
from typing import Any

from packaging.utils import canonicalize_name

from tests.locks import RUN, read_pins

LOCKED = set(read_pins(RUN))
OWN = {"__main__", "autopilot", "autopilot_lab", "tests", *sys.stdlib_module_names}
KNOWN = {
    module
    for module, packages in packages_distributions().items()
    if LOCKED & {canonicalize_name(package) for package in packages}
}


def is_allowed(module: str) -> bool:
    top = module.partition(".")[0]
    return top in OWN | KNOWN or top.startswith("_sysconfigdata")


class OnlyLocked:
    """An import hook: other modules are missing, installed or not."""

    def find_spec(self, name: str, *_: object) -> None:
        if not is_allowed(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


async def rent(market: str, url: str, key: str) -> list[str]:
    # Imported behind the hook.
    from autopilot.domain.labels import label_for
    from autopilot.domain.offer import CapacityType, OfferQuery
    from autopilot.ports.provider import CreateRequest, Done
    from autopilot.providers import registry
    from tests.contract.harness import QuickClock

    clock = QuickClock(datetime.now(UTC))
    provider = registry.connect(market, {"base_url": url, "api_key": key}, clock)
    answered = []

    def take(call: str, outcome: Any) -> Any:
        assert isinstance(outcome, Done), outcome
        answered.append(call)
        return outcome.value

    query = OfferQuery(
        gpus=(("RTX 4090", 1),), min_vram_gb=Decimal(20), disk_gb=Decimal(40), verified_only=True, datacenter_only=False
    )
    offer = (await provider.offers(query))[0]
    assert offer.on_demand_price is not None
    wish = CreateRequest(
        label=label_for("lean", "01LEASE"),
        offer_id=offer.offer_id,
        machine_id=offer.machine_id,
        capacity_type=CapacityType.ON_DEMAND,
        bid=offer.on_demand_price,
        image="some/image:1",
        disk_gb=Decimal(40),
        env={},
        onstart="true",
    )
    instance = take("create", await provider.create(wish)).instance_id
    assert [held.instance_id for held in await provider.instances()] == [instance]
    take("stop", await provider.stop(instance))
    take("destroy", await provider.destroy(instance))
    assert await provider.instances() == ()
    today = clock.now().date()
    await provider.charges(today - timedelta(days=1), today + timedelta(days=1))
    assert (await provider.account()).credit is not None
    await provider.close()
    return answered


def main() -> None:
    for name in [loaded for loaded in sys.modules if not is_allowed(loaded)]:
        del sys.modules[name]
    sys.meta_path.insert(0, OnlyLocked())
    for name in ("borb", "pytest"):
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
        sys.exit(f"{name} can be imported")
    market, url, key = sys.argv[1:]
    print(*asyncio.run(rent(market, url, key)))


if __name__ == "__main__":
    main()
