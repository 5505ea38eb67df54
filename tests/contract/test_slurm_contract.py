"""A Slurm cluster, the real one on loopback behind a real OpenSSH, held to the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.provider_contract import ProviderContract
from tests.contract.slurm_harness import LOGIN, SlurmHarness
from tests.slurm_cluster import needs_slurm, slurm_cluster
from tests.ssh_machines import needs_openssh, own_machines

pytestmark = [pytest.mark.slow, needs_openssh, needs_slurm]


class TestSlurm(ProviderContract):
    @pytest.fixture
    async def harness(self, clock: QuickClock, tmp_path: Path) -> AsyncIterator[Harness]:
        (tmp_path / "cluster").mkdir()
        (tmp_path / "login").mkdir()
        with slurm_cluster(tmp_path / "cluster") as cluster, own_machines(tmp_path / "login", LOGIN) as login:
            made = SlurmHarness(cluster, login, clock)
            yield fenced(made)
            await made.provider.close()
