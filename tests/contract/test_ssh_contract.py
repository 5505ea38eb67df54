"""Machines of one's own, over a real OpenSSH on loopback, held to the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.provider_contract import ProviderContract
from tests.contract.ssh_harness import SshHarness
from tests.ssh_machines import needs_openssh, own_machines

pytestmark = [pytest.mark.slow, needs_openssh]


class TestSsh(ProviderContract):
    @pytest.fixture
    async def harness(self, clock: QuickClock, tmp_path: Path) -> AsyncIterator[Harness]:
        with own_machines(tmp_path, "attic", "cellar") as machines:
            made = SshHarness(machines, clock)
            yield fenced(made)
            await made.provider.close()
