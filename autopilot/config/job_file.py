"""The job file: TOML text in, a ``JobSpec`` out, or one ``UserError`` with line, key and the way to mend it.

Nothing is ignored: a key that is unknown, misplaced or not yet supported is refused, because a limit that is not
read is money that is spent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from autopilot.config.array_section import read_array
from autopilot.config.host_section import read_host
from autopilot.config.inputs_section import read_after, read_inputs
from autopilot.config.job_keys import (
    AS_CLUSTER,
    ENV,
    INSTEAD,
    JOB_KEYS,
    NOT_YET_SUPPORTED,
    OWN_KEYS,
    SECRETS,
    SECTIONS,
    TOP,
    Fallback,
    Key,
    OnExhausted,
    OnStall,
    RunAs,
    Shell,
)
from autopilot.config.schedule_section import read_schedule
from autopilot.config.secret_files import check_name
from autopilot.config.toml_document import KeyPath, TomlDocument, nearest, read_toml
from autopilot.config.values import text as read_text
from autopilot.domain.after import waited_for
from autopilot.domain.code import CodeSpec
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec, SpotPolicy
from autopilot.domain.registry import Registry, server_of
from autopilot.domain.time import show_duration

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_PREFIX = "AUTOPILOT_"

ONE_MACHINE = "a job has one machine: hosts on these markets are behind NAT and cannot reach one another"
INSTEAD_OF_NODES = (
    'for more GPUs ask for them in one machine, gpu = "H100:8"; for parts that do not talk, submit a job for each; '
    "for a cluster use dstack, SkyPilot or Slurm (docs/explanation/clusters.md)"
)


def parse_job(text: str, *, source: str, now: datetime) -> JobSpec:
    """Read a job file. ``source`` is its name in messages, ``now`` the market's time (aware UTC).

    Raises ``UserError``.
    """
    document = read_toml(text, source)
    _refuse_unknown_keys(document)
    read = _read_values(document)
    _refuse_incomplete(document, read)
    fields = {key.field: read[path] for path, key in _known_keys().items() if key.field and path in read}
    policy = read.get(("spot", "policy"), SpotPolicy.AUTO)
    fields["env"] = _read_variables(document, ENV, read_text)
    fields["secrets"] = _read_variables(document, SECRETS, check_name)
    for name, _ in fields["secrets"]:
        if name in dict(fields["env"]):
            raise UserError(f"{document.place((SECRETS, name))}: {name} is in [env] as well", hint="keep one of them")
    fields["registry"] = _registry(document, read)
    fields["inputs"], fields["inputs_gb"] = read_inputs(document)
    fields["host"] = read_host(read)
    fields["after"] = read_after(document, read, fields["inputs"])
    fields["code"] = _read_code(document, read)
    fields["array"] = read_array(document, read, fields["env"], fields["secrets"])
    fields["stall_fails"] = read.get(("work", "on_stall")) is OnStall.FAIL
    fields["in_bash"] = read.get(("shell",), Shell.BASH) is Shell.BASH
    fields["as_root"] = read.get(("run_as",)) is RunAs.ROOT
    fields["interval_is_fixed"] = ("checkpoint", "interval") in read
    fields["schedule"] = read_schedule(document, read, now)
    counts_later = bool(waited_for(fields["after"])) or ("schedule", "cron") in read
    fields["deadline"], fields["due_within"] = _deadline(document, read, now, counts_later)
    fields["fall_back"] = (
        read.get(("deadline", "fallback"), Fallback.DEADLINE) is Fallback.DEADLINE and policy is not SpotPolicy.SPOT
    )
    fields["cancel_when_exhausted"] = read.get(("budget", "on_exhausted")) is OnExhausted.CANCEL
    _refuse_contradictions(document, read, policy)
    spec = JobSpec(**fields)
    _refuse_whole_workdir(document, spec)
    _refuse_small_disk(document, spec)
    return spec


def _known_keys() -> dict[KeyPath, Key]:
    return {_path(section, name): key for section, keys in JOB_KEYS.items() for name, key in keys.items()}


def _path(section: str, name: str) -> KeyPath:
    return (name,) if section == TOP else (section, name)


def _refuse_unknown_keys(document: TomlDocument) -> None:
    for name, value in document.values.items():
        if name in SECTIONS or name in NOT_YET_SUPPORTED:
            if NOT_YET_SUPPORTED.get(name) == ():
                raise UserError(f"{document.place((name,))}: [{name}] is not supported yet", hint="remove it")
            if not isinstance(value, dict):
                raise UserError(f"{document.place((name,))}: {name} must be a section", hint=f"write it as [{name}]")
            for key in value if name not in OWN_KEYS else ():
                _refuse_unknown_key(document, name, key)
        elif name in JOB_KEYS[TOP]:
            continue
        elif _is_section(value):
            hint = INSTEAD.get(name) or nearest(name, SECTIONS)
            raise UserError(f"{document.place((name,))}: unknown section [{name}]", hint=hint)
        elif name in INSTEAD:
            raise UserError(f'{document.place((name,))}: unknown key "{name}"', hint=INSTEAD[name])
        else:
            _refuse_unknown_key(document, TOP, name)


def _is_section(value: object) -> bool:
    """A table, or several of one name; a list of anything else is a value."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def _refuse_unknown_key(document: TomlDocument, section: str, name: str) -> None:
    known = JOB_KEYS[section]
    if name in known:
        return
    path = _path(section, name)
    if name in AS_CLUSTER:
        raise UserError(f"{document.place(path)}: {'.'.join(path)}: {ONE_MACHINE}", hint=INSTEAD_OF_NODES)
    if name in NOT_YET_SUPPORTED.get(section, ()):
        raise UserError(f"{document.place(path)}: {'.'.join(path)} is not supported yet", hint="remove it")
    where = f" in [{section}]" if section else ""
    owner = next((other for other, keys in JOB_KEYS.items() if name in keys), None)
    if owner is None:
        hint = nearest(name, known)
    elif owner == TOP:
        hint = f'"{name}" belongs at the top, before the first [section]'
    else:
        hint = f'"{name}" belongs to [{owner}]'
    raise UserError(f'{document.place(path)}: unknown key "{name}"{where}', hint=hint)


def _read_values(document: TomlDocument) -> dict[KeyPath, Any]:
    read: dict[KeyPath, Any] = {}
    for path, key in _known_keys().items():
        raw = _raw(document.values, path)
        if raw is None:
            continue
        try:
            read[path] = key.read(raw)
        except ValueError as error:
            raise UserError(f"{document.place(path)}: {'.'.join(path)}: {error}") from None
    return read


def _raw(values: Mapping[str, Any], path: KeyPath) -> Any:
    table = values.get(path[0], {}) if len(path) > 1 else values
    return table.get(path[-1])


def _refuse_incomplete(document: TomlDocument, read: Mapping[KeyPath, Any]) -> None:
    for path, key in _known_keys().items():
        if key.required and path not in read:
            hint = f"add {path[-1]} to [{path[0]}]" if path[1:] else "top-level keys belong before the first [section]"
            raise UserError(f"{document.source}: {'.'.join(path)} is missing", hint=hint)
        if key.needs and path in read and (path[0], key.needs) not in read:
            raise UserError(f"{document.place(path)}: {'.'.join(path)} needs {path[0]}.{key.needs}")


def _read_variables(document: TomlDocument, section: str, read: Callable[[object], str]) -> tuple[tuple[str, str], ...]:
    variables = []
    for name, raw in document.values.get(section, {}).items():
        place = f"{document.place((section, name))}: {section}.{name}"
        if not _VARIABLE.fullmatch(name):
            raise UserError(f"{place}: not the name of an environment variable", hint="letters, digits and _ only")
        if name.upper().startswith(_RESERVED_PREFIX):
            raise UserError(f"{place}: names that start with {_RESERVED_PREFIX} are reserved")
        try:
            variables.append((name, raw if raw == "" and section == ENV else read(raw)))
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
    return tuple(variables)


def _registry(document: TomlDocument, read: Mapping[KeyPath, Any]) -> Registry | None:
    if ("registry", "server") not in read:
        if "registry" in document.values:
            raise UserError(
                f"{document.place(('registry',))}: [registry] needs server, user and password",
                hint="password is the name of a secret: autopilot secret set NAME --server SERVER",
            )
        return None
    server, of_image = read["registry", "server"], server_of(read[("image",)])
    if server != of_image:
        raise UserError(
            f"{document.place(('registry', 'server'))}: the image comes from {of_image}, not from {server}",
            hint="write the image with its registry, or correct the server: the password is sent to that server only",
        )
    return Registry(server, read["registry", "user"], read["registry", "password"])


def _read_code(document: TomlDocument, read: Mapping[KeyPath, Any]) -> CodeSpec | None:
    if "code" not in document.values:
        return None
    fields = {"path": "path", "include": "include", "exclude": "exclude", "max": "most_bytes"}
    return CodeSpec(**{field: read["code", key] for key, field in fields.items() if ("code", key) in read})


FURTHEST_DEADLINE = timedelta(days=366)


def _deadline(
    document: TomlDocument, read: Mapping[KeyPath, Any], now: datetime, counts_later: bool
) -> tuple[datetime | None, timedelta | None]:
    """The instant, or for a job that waits for others, or is fired later, the time from then."""
    at: datetime | None = read.get(("deadline", "at"))
    within: timedelta | None = read.get(("deadline", "within"))
    if at is not None and within is not None:
        raise UserError(f"{document.place(('deadline', 'at'))}: both at and within are set", hint="keep one of them")
    if at is None and within is None:
        if "deadline" in document.values:
            raise UserError(
                f"{document.place(('deadline',))}: [deadline] needs a time", hint='set at, or within = "36h"'
            )
        return None, None
    if ("work", "estimate") not in read:
        raise UserError(
            f"{document.place(('deadline',))}: a deadline needs an estimate of the work",
            hint='add estimate = "12h" to [work]: the time that the job takes without interruptions',
        )
    if at is not None and at <= now:
        raise UserError(
            f"{document.place(('deadline', 'at'))}: the deadline was {show_duration(now - at)} ago",
            hint="set a later one, or within",
        )
    left = at - now if at is not None else within
    assert left is not None, "one of them is set"
    if left > FURTHEST_DEADLINE:
        key = "at" if at is not None else "within"
        raise UserError(
            f"{document.place(('deadline', key))}: the deadline is too far away",
            hint=f"set one within {FURTHEST_DEADLINE.days} days, or omit [deadline]",
        )
    return (None, left) if at is None and counts_later else (now + left, None)


def _refuse_contradictions(document: TomlDocument, read: Mapping[KeyPath, Any], policy: SpotPolicy) -> None:
    if policy is SpotPolicy.ON_DEMAND and ("spot", "max_price") in read:
        raise UserError(
            f"{document.place(('spot', 'max_price'))}: spot.max_price limits bids, but the policy is on-demand",
            hint="resources.max_hourly limits every price",
        )
    estimate, at_most = read.get(("work", "estimate")), read.get(("work", "at_most"))
    if estimate is not None and at_most is not None and at_most < estimate:
        raise UserError(
            f"{document.place(('work', 'at_most'))}: work.at_most is less than work.estimate",
            hint="it is the maximum run time, like 11h for an estimate of 10h",
        )
    if policy is SpotPolicy.SPOT and read.get(("deadline", "fallback")) is Fallback.DEADLINE:
        raise UserError(
            f'{document.place(("deadline", "fallback"))}: falling back to on-demand contradicts spot.policy = "spot"',
            hint='set policy = "auto", or fallback = "never"',
        )


def _refuse_whole_workdir(document: TomlDocument, spec: JobSpec) -> None:
    """A restore replaces what is at the checkpoint's path: that must not be the whole work directory."""
    if spec.checkpoint_path is None:
        return
    if _beneath_root(spec.workdir).is_relative_to(_beneath_root(spec.workdir, spec.checkpoint_path)):
        raise UserError(
            f"{document.place(('checkpoint', 'path'))}: checkpoint.path: {spec.checkpoint_path!r} contains the whole "
            f"work directory {spec.workdir}",
            hint='name a file or directory inside it, like "ckpt"',
        )


def _refuse_small_disk(document: TomlDocument, spec: JobSpec) -> None:
    needed = spec.inputs_gb + spec.outputs_gb
    if spec.disk_gb < needed:
        place = document.place(("resources", "disk") if "disk" in document.values["resources"] else ("resources",))
        raise UserError(
            f"{place}: resources.disk: {spec.disk_gb:f} GB are too small for inputs and outputs of {needed:f} GB",
            hint="rent a larger disk; the image and checkpoints need space too",
        )


def _beneath_root(*path: str) -> PurePosixPath:
    """As the agent resolves it on the machine; also "//" is the root."""
    return PurePosixPath(*PurePosixPath("/", *path).parts[1:])
