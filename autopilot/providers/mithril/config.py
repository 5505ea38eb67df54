"""Settings of the Mithril market, as they stand under ``[providers.mithril]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from autopilot.providers.config import KeyedSettings, parse_keyed

BASE_URL = "https://api.mithril.ai"
KEYS_PAGE = "https://app.mithril.ai/account/api-keys"
_ID = r"^[A-Za-z0-9_-]{0,64}$"


class MithrilSettings(KeyedSettings):
    """Durations are market seconds except ``timeout_s``."""

    base_url: str = BASE_URL
    project: str = Field(default="", pattern=_ID)
    """The project that bids belong to; empty: the only one that the key can see."""
    ssh_key: str = Field(default="", pattern=_ID)
    """Key of the project. The market creates no machine without one; empty: the first that the project has."""
    timeout_s: float = Field(default=30, gt=0, le=300)
    """Real seconds that one request may take."""
    offers_max_age_s: float = Field(default=60, gt=0)
    """Prices younger than this are not asked for again."""
    open_patience_s: float = Field(default=300, ge=0)
    """A new bid that has won nothing for so long counts as outbid: it is raised, or withdrawn. An auction is held
    every two minutes."""


def parse_settings(settings: Mapping[str, Any]) -> MithrilSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    return parse_keyed(MithrilSettings, settings, name="mithril", market="Mithril", keys_page=KEYS_PAGE)
