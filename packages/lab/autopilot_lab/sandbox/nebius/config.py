"""What shapes the Nebius part. Imports nothing of the vendor's SDK."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot_lab.sandbox.nebius.pools import PoolSpec
from autopilot_lab.sandbox.private_images import PrivateImage


@dataclass(frozen=True)
class NebiusConfig:
    """Durations are market seconds. ``port`` 0: any free one."""

    port: int = 0
    keys: tuple[str, ...] = ("nebius-sandbox-key",)
    seed: int = 1
    private_images: tuple[PrivateImage, ...] = ()
    pools: tuple[PoolSpec, ...] | None = None
    churn: bool = False
    start_s: float = 40.0
    page_rows: int = 1000
    strangers: bool = True
