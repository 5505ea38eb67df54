"""Settings of the RunPod market, as they stand under ``[providers.runpod]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from autopilot.domain.errors import UserError

BASE_URL = "https://api.runpod.io"
KEY_HINT = (
    "create a key at https://console.runpod.io/user/settings and store it with `autopilot init`, "
    "or name its file in [providers.runpod] api_key_file"
)


class RunpodSettings(BaseModel):
    """Unknown keys are refused; durations are market seconds except ``timeout_s``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = BASE_URL
    """Both APIs stand under it: ``/graphql`` and ``/v2``."""
    api_key: SecretStr = SecretStr("")
    team_id: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Of a team account; without it a team's key may see no pods at all."""
    timeout_s: float = Field(default=40, gt=0, le=300)
    """Real seconds that one request may take."""
    offers_max_age_s: float = Field(default=60, gt=0)
    """Prices younger than this are not asked for again."""
    container_disk_gb: int = Field(default=20, ge=5, le=1000)
    """The most that is set aside of a job's disk for the container itself, which a stop wipes; the rest is kept."""
    largest_disk_gb: int = Field(default=1000, ge=10)
    """The market does not say how much disk its machines have; offers are taken to have this much."""

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


def parse_settings(settings: Mapping[str, Any]) -> RunpodSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    try:
        parsed = RunpodSettings.model_validate(dict(settings))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        )
        known = ", ".join(RunpodSettings.model_fields)
        # The cause would carry the key itself into a traceback.
        raise UserError(f"[providers.runpod] is wrong: {faults}", hint=f"known keys: {known}") from None
    if not parsed.api_key.get_secret_value():
        raise UserError("there is no API key for RunPod", hint=KEY_HINT)
    return parsed
