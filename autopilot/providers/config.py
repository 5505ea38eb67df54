"""What every market with an API key is configured with; each adds its own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_validator

from autopilot.domain.errors import UserError


class KeyedSettings(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str
    api_key: SecretStr = SecretStr("")

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


S = TypeVar("S", bound=KeyedSettings)
M = TypeVar("M", bound=BaseModel)


def parse(kind: type[M], settings: Mapping[str, Any], *, name: str) -> M:
    """``name``: of the market under ``[providers]``. Raises ``UserError`` that names the keys at fault, never their
    values."""
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        )
        known = ", ".join(kind.model_fields)
        # The cause would carry the key itself into a traceback.
        raise UserError(f"[providers.{name}] is wrong: {faults}", hint=f"known keys: {known}") from None


def parse_keyed(kind: type[S], settings: Mapping[str, Any], *, name: str, market: str, keys_page: str) -> S:
    """``name``: of the market under ``[providers]``; ``market``: for people; ``keys_page``: where keys are made.

    Raises ``UserError`` that names the keys at fault, never their values.
    """
    parsed = parse(kind, settings, name=name)
    if not parsed.api_key.get_secret_value():
        raise UserError(
            f"there is no API key for {market}",
            hint=f"create a key at {keys_page} and store it with `autopilot init`, "
            f"or name its file in [providers.{name}] api_key_file",
        )
    return parsed
