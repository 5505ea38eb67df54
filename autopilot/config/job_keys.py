"""Every key of a job file: its section, how its value is read, and what it is when left out.

docs/reference/job-file.md describes each of them; a test holds that page to these tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autopilot.config import host_section, values
from autopilot.config.secret_files import check_name
from autopilot.domain.cadence import Overlap
from autopilot.domain.host import Arch
from autopilot.domain.job import SpotPolicy, Trust

TOP = ""
ENV, SECRETS, INPUTS = "env", "secrets", "inputs"
SENDS_FILES = '[code] sends files of yours along: path = "." is the directory of the job file'
OWN_KEYS = (ENV, SECRETS, INPUTS)
"""The sections whose keys are the user's own: variables, variables, paths."""


class OnStall(StrEnum):
    WARN = "warn"
    FAIL = "fail"


class RunAs(StrEnum):
    JOB = "job"
    ROOT = "root"


class Shell(StrEnum):
    BASH = "bash"
    SH = "sh"


class Fallback(StrEnum):
    DEADLINE = "deadline"
    NEVER = "never"


class OnExhausted(StrEnum):
    PARK = "park"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Key:
    kind: str
    """Name of the value's type in the reference."""
    read: Callable[[object], Any]
    field: str = ""
    """Field of ``JobSpec`` that takes the value as it is; empty: ``job_file`` puts it together."""
    required: bool = False
    needs: str = ""
    """Another key of the section without which this one means nothing."""


_image = values.matching(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", "must be an image's name like pytorch/pytorch:latest")
_directory = values.matching(
    r"(?!.*/\.\.(?:/|$))/.*",
    "must be an absolute path on the machine, without '..' ([code] brings your directory there)",
)
_path = values.matching(r"(?!~|(?:.*/)?\.\.(?:/|$)).+", "must be a path without '..', and not starting with ~")

JOB_KEYS: dict[str, dict[str, Key]] = {
    TOP: {
        "name": Key("text", values.job_name, "name", required=True),
        "image": Key("text", _image, "image", required=True),
        "run": Key("command", values.text, "run", required=True),
        "setup": Key("command", values.text, "setup"),
        "workdir": Key("path", _directory, "workdir"),
        "trust": Key("any, verified or secure", values.one_of(Trust), "trust"),
        "shell": Key("bash or sh", values.one_of(Shell)),
        "run_as": Key("job or root", values.one_of(RunAs)),
        "notify": Key("names", values.sinks, "notify"),
        "after": Key("jobs", values.after, "after"),
        "tags": Key("words by key", values.tags, "tags"),
    },
    "resources": {
        "gpu": Key("GPUs", values.gpus, "gpus", required=True),
        "vram": Key("size", values.size_gb, "min_vram_gb"),
        "disk": Key("size", values.size_gb, "disk_gb"),
        "max_hourly": Key("money", values.money, "max_hourly"),
        "cuda": Key("version", host_section.cuda),
        "driver": Key("version", host_section.driver),
        "cpus": Key("number", host_section.cpus),
        "ram": Key("size", values.size_gb),
        "shm": Key("size", values.size_gb),
        "disk_speed": Key("speed", host_section.speed),
        "download": Key("bandwidth", host_section.bandwidth),
        "upload": Key("bandwidth", host_section.bandwidth),
        "reliability": Key("share", values.share),
        "country": Key("places", host_section.countries),
        "region": Key("places", host_section.regions),
        "arch": Key("amd64 or arm64", values.one_of(Arch)),
        "datacenter": Key("true or false", values.flag),
    },
    "registry": {
        "server": Key("server", values.server, needs="user"),
        "user": Key("text", values.word, needs="password"),
        "password": Key("secret", check_name, needs="server"),
    },
    "work": {
        "estimate": Key("duration", values.duration, "work_estimate"),
        "at_most": Key("duration", values.duration, "work_at_most", needs="estimate"),
        "on": Key("text", values.text, "work_on", needs="estimate"),
        "progress": Key("pattern", values.pattern, "progress"),
        "stall_after": Key("duration", values.duration, "stall_after"),
        "on_stall": Key("warn or fail", values.one_of(OnStall), needs="stall_after"),
    },
    "spot": {
        "policy": Key("auto, spot or on-demand", values.one_of(SpotPolicy), "spot_policy"),
        "max_price": Key("money", values.money, "max_bid"),
    },
    "deadline": {
        "at": Key("date and time", values.instant),
        "within": Key("duration", values.duration),
        "fallback": Key("deadline or never", values.one_of(Fallback)),
    },
    "schedule": {
        "cron": Key("cron expression", values.cron),
        "zone": Key("time zone", values.zone, needs="cron"),
        "overlap": Key("skip or queue", values.one_of(Overlap), needs="cron"),
        "catch_up": Key("true or false", values.flag, needs="cron"),
        "until": Key("date, or date and time", values.day_or_instant, needs="cron"),
        "count": Key("number", values.firings, needs="cron"),
    },
    "budget": {
        "total": Key("money", values.money, "budget"),
        "all": Key("money, or money/month", values.amount_over_all),
        "max_rate": Key("money", values.money, "max_rate"),
        "on_exhausted": Key("park or cancel", values.one_of(OnExhausted), needs="total"),
    },
    "checkpoint": {
        "path": Key("path", _path, "checkpoint_path"),
        "interval": Key("duration", values.duration, "checkpoint_interval", needs="path"),
        "max_loss": Key("duration", values.duration, "max_loss", needs="path"),
        "keep": Key("number", values.count, "checkpoints_kept", needs="path"),
    },
    "code": {
        "path": Key("directory", values.text),
        "include": Key("patterns", values.patterns),
        "exclude": Key("patterns", values.patterns),
        "max": Key("size", values.code_bytes),
    },
    "outputs": {
        "paths": Key("paths", values.paths, "outputs"),
        "size": Key("size", values.size_gb, "outputs_gb", needs="paths"),
    },
    "retry": {
        "max_attempts": Key("number", values.count, "max_attempts"),
    },
    "array": {
        "count": Key("number", values.task_count),
        "matrix": Key("values by variable", values.matrix),
        "from": Key("file", values.text),
        "parallel": Key("number", values.task_count),
        "succeed_at": Key("share", values.share),
        "max_failures": Key("number", values.task_count),
    },
    "debug": {
        "hold": Key("duration", values.hold, "hold"),
        "exec": Key("true or false", values.flag, "may_exec"),
    },
    "ssh": {
        "key": Key("public key", values.public_key, "ssh_key"),
    },
}

NOT_YET_SUPPORTED: dict[str, tuple[str, ...]] = {
    "retry": ("on", "window"),
}
"""Section → keys that are part of the format but that this version does not act upon; () is the whole section."""

_AS_CODE = ("mounts", "file_mounts", "mount", "volumes", "sync", "files", "repo", "repos", "upload", "uploads")
_AS_RUN = ("command", "commands", "cmd", "args", "entrypoint", "script")

INSTEAD = {
    **dict.fromkeys(_AS_CODE, SENDS_FILES),
    **dict.fromkeys(_AS_RUN, 'run is the whole command, with its arguments: run = "python train.py --epochs 3"'),
    "ports": "autopilot ssh JOB --forward PORT brings a port of the machine to yours",
}
"""What other programs have at the top of a job's file, and what does the same here."""

AS_CLUSTER = ("nodes", "num_nodes", "node_count", "machines", "hosts", "workers")
"""What other programs call the number of machines that one job has."""

SECTIONS = (*(name for name in JOB_KEYS if name != TOP), *OWN_KEYS)
