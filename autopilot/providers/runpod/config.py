"""Settings of the RunPod market, as they stand under ``[providers.runpod]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from autopilot.providers.config import KeyedSettings, parse_keyed

BASE_URL = "https://api.runpod.io"
KEYS_PAGE = "https://console.runpod.io/user/settings"


class RunpodSettings(KeyedSettings):
    """Durations are market seconds except ``timeout_s``."""

    base_url: str = BASE_URL
    """Both APIs stand under it: ``/graphql`` and ``/v2``."""
    team_id: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Id of a team account; without it a team's key may see no pods at all."""
    timeout_s: float = Field(default=40, gt=0, le=300)
    """Real seconds that one request may take."""
    offers_max_age_s: float = Field(default=60, gt=0)
    """Prices younger than this are not asked for again."""
    container_disk_gb: int = Field(default=20, ge=5, le=1000)
    """The most that is set aside of a job's disk for the container itself, which a stop wipes; the rest is kept."""
    largest_disk_gb: int = Field(default=1000, ge=10)
    """The market does not say how much disk its machines have; offers are taken to have this much."""


def parse_settings(settings: Mapping[str, Any]) -> RunpodSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    return parse_keyed(RunpodSettings, settings, name="runpod", market="RunPod", keys_page=KEYS_PAGE)
