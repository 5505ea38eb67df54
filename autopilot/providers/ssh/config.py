"""Settings of one's own machines, as they stand under ``[providers.ssh]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.money import usd
from autopilot.providers.config import parse
from autopilot.providers.ssh.hours import OpenHours, parse_window

MOST_MACHINES, MOST_JOBS, MOST_GPUS = 32, 16, 16
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,199}", re.ASCII)
_GPUS = re.compile(r"([^:]{1,60}):([1-9]\d?)", re.ASCII)


class MachineSettings(BaseModel):
    """One machine. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    """As in the user's own SSH configuration: an alias, or USER@HOST."""
    price: Decimal = Decimal(0)
    """$/h of one job there."""
    jobs: int = Field(default=1, ge=1, le=MOST_JOBS)
    """At once. Each has an equal share of the GPUs."""
    gpus: str = ""
    """What it has, like ``RTX 4090:2``; empty: nvidia-smi is asked."""
    vram_gb: Decimal | None = Field(default=None, gt=0, le=1000)
    """Of each of the GPUs that ``gpus`` states."""
    hours: tuple[str, ...] = Field(default=(), max_length=28)
    """When it may be used; empty: always."""
    time_zone: str = "UTC"
    """Of ``hours``."""
    owner_may_take_back: bool = False
    """Whether its owner ends what runs there, by a file."""
    directory: str = Field(default="~/.autopilot", pattern=r"^[^\x00-\x1f]{1,200}$")
    """The only one that is written to."""

    @field_validator("host")
    @classmethod
    def _plain_host(cls, host: str) -> str:
        if _HOST.fullmatch(host) is None:
            raise ValueError("must be a host as ssh takes it")
        return host

    @field_validator("price", mode="before")
    @classmethod
    def _money(cls, price: object) -> Decimal:
        if not isinstance(price, str | int | Decimal) or isinstance(price, bool):
            raise ValueError('must be money, like "$0.40"')
        try:
            found = usd(price)
        except UserError as error:
            raise ValueError(error.message) from None
        if not 0 <= found <= 1000:
            raise ValueError("must be from $0 to $1000 an hour")
        return found

    @field_validator("gpus")
    @classmethod
    def _known_gpus(cls, text: str) -> str:
        found = _GPUS.fullmatch(text)
        if text and (found is None or int(found[2]) > MOST_GPUS or not gpu_names.models(found[1])):
            raise ValueError('must be a GPU with its count, like "RTX 4090:2"')
        return text

    @field_validator("hours")
    @classmethod
    def _read_hours(cls, hours: tuple[str, ...]) -> tuple[str, ...]:
        for each in hours:
            parse_window(each)
        return hours

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise ValueError('must be a time zone, like "Europe/Berlin"') from None
        return name

    @model_validator(mode="after")
    def _whole(self) -> MachineSettings:
        if bool(self.gpus) != (self.vram_gb is not None):
            raise ValueError("gpus and vram_gb belong together")
        return self

    @property
    def windows(self) -> tuple[OpenHours, ...]:
        return tuple(map(parse_window, self.hours))

    @property
    def stated(self) -> tuple[str, int] | None:
        """The model of its GPUs and their number, where the settings state them."""
        found = _GPUS.fullmatch(self.gpus)
        return None if found is None else (gpu_names.standard(found[1]), int(found[2]))


class SshSettings(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config_file: Path | None = None
    """ssh's configuration; None: that of the daemon's user, with the system's."""
    machines: dict[str, MachineSettings] = Field(default={}, max_length=MOST_MACHINES)
    timeout_s: float = Field(default=60, gt=0, le=300)
    """Real seconds that one request may take."""
    looks_max_age_s: float = Field(default=60, gt=0, le=3600)
    """For so long offers are made of what was seen of a machine."""

    @field_validator("machines")
    @classmethod
    def _plain_names(cls, machines: dict[str, MachineSettings]) -> dict[str, MachineSettings]:
        for name in machines:
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is no name: letters a to z, digits and dashes, 32 at most")
        return machines


def parse_settings(settings: Mapping[str, Any]) -> SshSettings:
    """Raises ``UserError``."""
    parsed = parse(SshSettings, settings, name="ssh")
    if not parsed.machines:
        hint = 'write a table [providers.ssh.machines.NAME] with host = "…", as your SSH configuration has it'
        raise UserError("no machine of your own is named", hint=hint)
    return parsed
