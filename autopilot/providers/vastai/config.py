"""Settings of the vast.ai market, as they stand under ``[providers.vastai]``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from autopilot.domain.errors import UserError

BASE_URL = "https://console.vast.ai"
KEY_HINT = (
    "create a key at https://cloud.vast.ai/manage-keys/ and store it with `autopilot init`, "
    "or name its file in [providers.vastai] api_key_file"
)


class VastaiSettings(BaseModel):
    """Unknown keys are refused; durations are market seconds except ``timeout_s``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = BASE_URL
    api_key: SecretStr = SecretStr("")
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

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            raise ValueError("must start with https:// or http://")
        return url.rstrip("/")

    @field_validator("api_key")
    @classmethod
    def _printable(cls, key: SecretStr) -> SecretStr:
        stripped = key.get_secret_value().strip()
        if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
            raise ValueError("holds characters that no key has")
        return SecretStr(stripped)


def parse_settings(settings: Mapping[str, Any]) -> VastaiSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    try:
        parsed = VastaiSettings.model_validate(dict(settings))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        )
        known = ", ".join(VastaiSettings.model_fields)
        # The cause would carry the key itself into a traceback.
        raise UserError(f"[providers.vastai] is wrong: {faults}", hint=f"known keys: {known}") from None
    if not parsed.api_key.get_secret_value():
        raise UserError("there is no API key for vast.ai", hint=KEY_HINT)
    return parsed
