from collections.abc import Callable
from typing import Any

import pytest

from autopilot_lab.sandbox.runpod.catalogue import default_catalogue
from autopilot_lab.sandbox.runpod.machines import Machine
from autopilot_lab.sandbox.runpod.market import PodMarket
from tests.unit.lab.sandbox_runpod.runpod_tenant import START, Tenant


@pytest.fixture
def open_market() -> Callable[..., Tenant]:
    def build(**options: Any) -> Tenant:
        return Tenant(PodMarket(default_catalogue(7), START, **options))

    return build


@pytest.fixture
def tenant(open_market: Callable[..., Tenant]) -> Tenant:
    return open_market()


@pytest.fixture
def machine(tenant: Tenant) -> Machine:
    return tenant.machine
