"""Settings of the vast.ai market, as they stand under ``[providers.vastai]``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import Field

from autopilot.providers.config import KeyedSettings, parse_keyed

BASE_URL = "https://console.vast.ai"
KEYS_PAGE = "https://cloud.vast.ai/manage-keys/"


class VastaiSettings(KeyedSettings):
    """Durations are market seconds except ``timeout_s``."""

    base_url: str = BASE_URL
    timeout_s: float = Field(default=30, gt=0, le=300)
    """Real seconds that one request may take."""
    offers_max_age_s: float = Field(default=60, gt=0)
    """A search younger than this is not repeated; the age is stretched when the day's row budget runs short."""
    search_limit: int = Field(default=32, ge=1, le=500)
    """Rows asked for in one search."""
    search_rows_per_day: int = Field(default=16_000, ge=100, le=20_000)
    """The market returns 20,000 rows a day and refuses every search after that; a fifth is left for other clients."""
    min_reliability: Decimal = Field(default=Decimal("0.9"), ge=0, le=1)
    """Machines that the market rates below this are not offered."""
    runtype: str = "ssh_direc ssh_proxy"
    """How the market starts the container; with the ssh types the start script runs on every start."""


def parse_settings(settings: Mapping[str, Any]) -> VastaiSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    return parse_keyed(VastaiSettings, settings, name="vastai", market="vast.ai", keys_page=KEYS_PAGE)
