"""Settings of a Slurm cluster, as they stand under ``[providers.slurm]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.money import usd
from autopilot.providers.config import parse

MOST_PARTITIONS, MOST_JOBS, MOST_GPUS, MOST_EXTRA = 32, 32, 16, 16
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,199}", re.ASCII)
_EXTRA = re.compile(r"--[a-z][a-z-]{1,40}(=[^\x00-\x1f]{0,200})?", re.ASCII)
TAKEN = re.compile(
    r"account|array|begin|chdir|clusters|comment|cpus-per-task|dependency|error|export(-file)?|get-user-env|gid|gpus.*|gres"
    r"|help|hold|input|job-name|mem|no-requeue|nodes|ntasks|open-mode|output|parsable|partition|qos|quiet|requeue|signal"
    r"|test-only|time|uid|usage|version|wait|wrap"
)
"""Options of ``sbatch`` that are set here or by other keys, or that would make something else of the job."""


class PartitionSettings(BaseModel):
    """One partition. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu: str
    """The model of its GPUs."""
    vram_gb: Decimal = Field(gt=0, le=1000)
    """Of each."""
    gres: str = Field(default="gpu", pattern=r"^[A-Za-z0-9_]{1,32}(:[A-Za-z0-9_.-]{1,64})?$")
    """What is asked for of Slurm, without the count."""
    price: Decimal = Decimal(0)
    """$/h of one job there."""
    jobs: int = Field(default=4, ge=1, le=MOST_JOBS)
    """At once, waiting or running."""
    time: str = Field(default="", pattern=r"^(\d{1,3}-)?\d{1,3}:[0-5]\d:[0-5]\d$|^$")
    """The longest run of one job, as ``--time`` takes it; empty: the partition's limit."""
    cpus: int | None = Field(default=None, ge=1, le=1024)
    """Of one job; None: what the partition gives."""
    memory_gb: int | None = Field(default=None, ge=1, le=100_000)
    account: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    qos: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    extra: tuple[str, ...] = Field(default=(), max_length=MOST_EXTRA)
    """More options of ``sbatch``."""
    before: str = Field(default="", max_length=4000)
    """Shell text that runs on the node before the agent starts, for modules."""

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

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, name: str) -> str:
        if not gpu_names.models(name):
            raise ValueError('must be a GPU, like "RTX 4090"')
        return gpu_names.standard(name)

    @field_validator("extra")
    @classmethod
    def _free_options(cls, extra: tuple[str, ...]) -> tuple[str, ...]:
        for each in extra:
            if _EXTRA.fullmatch(each) is None:
                raise ValueError(f"{each!r} is no long option, like --constraint=a100")
            if TAKEN.fullmatch(each[2:].partition("=")[0]):
                raise ValueError(f"{each} is set by autopilot, or by a key of its own")
        return extra


class SlurmSettings(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = ""
    """The login node, as in the user's own SSH configuration; empty: the commands run on the daemon's computer."""
    ssh_config_file: Path | None = None
    """ssh's configuration; None: that of the daemon's user, with the system's."""
    slurm_conf: str = Field(default="", pattern=r"^(/[A-Za-z0-9._/-]{1,200})?$")
    """Where Slurm's configuration lies there; empty: where its commands look for it."""
    directory: str = Field(default="~/.autopilot-slurm", pattern=r"^(~?/[A-Za-z0-9._/-]{1,200})$")
    """On a file system that login node and compute nodes share. The only one that is written to."""
    partitions: dict[str, PartitionSettings] = Field(default={}, max_length=MOST_PARTITIONS)
    longest_wait_s: int = Field(default=14400, ge=0, le=30 * 86400)
    """Market seconds for which a job may wait in the queue."""
    timeout_s: float = Field(default=60, gt=0, le=300)
    """Real seconds that one request may take."""
    looks_max_age_s: float = Field(default=60, gt=0, le=3600)
    """For so long offers are made of what was seen of the partitions."""

    @field_validator("host")
    @classmethod
    def _plain_host(cls, host: str) -> str:
        if host and _HOST.fullmatch(host) is None:
            raise ValueError("must be a host as ssh takes it")
        return host

    @field_validator("directory")
    @classmethod
    def _below(cls, directory: str) -> str:
        if ".." in directory.split("/") or not directory.strip("~/"):
            raise ValueError("must be a directory by its whole path")
        return directory.rstrip("/")

    @field_validator("partitions")
    @classmethod
    def _plain_names(cls, partitions: dict[str, PartitionSettings]) -> dict[str, PartitionSettings]:
        for name in partitions:
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is no partition's name")
        return partitions


def parse_settings(settings: Mapping[str, Any]) -> SlurmSettings:
    """Raises ``UserError``."""
    parsed = parse(SlurmSettings, settings, name="slurm")
    if not parsed.partitions:
        hint = "write a table [providers.slurm.partitions.NAME] with gpu and vram_gb; `sinfo` lists the partitions"
        raise UserError("no partition of the cluster is named", hint=hint)
    return parsed
