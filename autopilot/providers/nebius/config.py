"""Settings of the Nebius market, as they stand under ``[providers.nebius]``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr, field_validator

from autopilot.domain.errors import UserError
from autopilot.providers.config import KeyedSettings, parse_keyed

BASE_URL = "https://api.nebius.cloud"
KEYS_PAGE = "https://console.nebius.com (Administration → Service accounts)"
LOCAL = re.compile(r"grpc://(127\.0\.0\.1|localhost):\d{1,5}")
LONGEST_CREDENTIALS = 16_384
_ID = r"^[A-Za-z0-9_-]{0,64}$"
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_PROJECT = re.compile(r"[A-Za-z0-9_-]{1,64}")
MOST_REGIONS = 32


class NebiusSettings(KeyedSettings):
    """Durations are market seconds except ``timeout_s``."""

    base_url: str = BASE_URL
    """``grpc://127.0.0.1:PORT``, without encryption, for an emulator on this machine; else ``https://DOMAIN``."""
    api_key: SecretStr = SecretStr("")
    """What the console calls the credentials of a service account (JSON), or an access token as it is."""
    projects: dict[str, str] = Field(default={}, max_length=MOST_REGIONS)
    """Region → the project there. A project lies in one region, so that machines are rented in these alone."""
    tenant: str = Field(default="", pattern=_ID)
    """With it, offers are those of which the market says that hardware is free; the account must see the tenant."""
    image_family: str = Field(default="ubuntu24.04-cuda13.0", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    timeout_s: float = Field(default=30, gt=0, le=300)
    """Real seconds that one request may take."""
    offers_max_age_s: float = Field(default=60, gt=0)
    """Prices younger than this are not asked for again."""
    placement_wait_s: float = Field(default=60, ge=0, le=600)
    """How long a create or a start waits for hardware before it counts as under way."""

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        url = url.rstrip("/")
        if LOCAL.fullmatch(url) is None and re.fullmatch(r"https://[a-z0-9.-]{1,200}", url) is None:
            raise ValueError("must be https://DOMAIN, or grpc://127.0.0.1:PORT for an emulator on this machine")
        return url

    @field_validator("api_key")
    @classmethod
    def _printable(cls, key: SecretStr) -> SecretStr:
        text = key.get_secret_value().strip()
        if not text.startswith("{"):
            if not (text.isascii() and text.isprintable()) or " " in text:
                raise ValueError("holds characters that no key has")
            return SecretStr(text)
        if len(text) > LONGEST_CREDENTIALS or _read_credentials(text) is None:
            raise ValueError("is no file of credentials: make a new one in the console")
        return SecretStr(text)

    @field_validator("projects", mode="before")
    @classmethod
    def _read_projects(cls, projects: object) -> object:
        """As JSON where it comes from the environment."""
        try:
            return json.loads(projects) if isinstance(projects, str) else projects
        except (ValueError, RecursionError):
            raise ValueError("must name projects by region") from None

    @field_validator("projects")
    @classmethod
    def _plain_projects(cls, projects: dict[str, str]) -> dict[str, str]:
        for region, project in projects.items():
            if _REGION.fullmatch(region) is None or _PROJECT.fullmatch(project) is None:
                raise ValueError('must name projects by region, like {"eu-north1" = "project-e00…"}')
        if len(set(projects.values())) != len(projects):
            raise ValueError("must not name one project for two regions")
        return projects

    @property
    def credentials(self) -> dict[str, str] | None:
        """Credentials of a service account: ``private-key``, ``kid`` and ``sub``. None: the key is an access token."""
        return _read_credentials(self.api_key.get_secret_value())


def _read_credentials(text: str) -> dict[str, str] | None:
    try:
        subject = json.loads(text)["subject-credentials"]
        found = {name: subject[name] for name in ("private-key", "kid", "sub", "alg")}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_text = all(isinstance(value, str) for value in found.values())
    return found if is_text and found["alg"] == "RS256" else None


def parse_settings(settings: Mapping[str, Any]) -> NebiusSettings:
    """Raises ``UserError`` that names the keys at fault, never their values."""
    parsed = parse_keyed(NebiusSettings, settings, name="nebius", market="Nebius", keys_page=KEYS_PAGE)
    if not parsed.projects:
        raise UserError(
            "no Nebius project is configured: machines are rented in a project, which belongs to one region",
            hint='set projects = {"eu-north1" = "project-e00…"} in [providers.nebius]',
        )
    return parsed
