"""The mailbox between daemon and agent: where its objects lie and what is in them.

Everything lies under ``jobs/<job>/<lease>/``. Orders are the daemon's; heartbeat, exit record and manifests come
from a stranger's machine, so parsing them accepts exactly the shapes below and answers None to anything else:
at most 1 MB, ``v`` = 1, whole finite numbers in range, texts cut and stripped of control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

VERSION = 1
MAX_OBJECT_BYTES = 1_000_000
MAX_PARTS = 2_000
"""Of one manifest."""
MAX_PART_NUMBER = 999_999
"""The highest that a part's key may have. A checkpoint gives none twice, so tries that were cut off use them up."""
MAX_TEXT = 500

Role = Literal["wait", "run", "save_and_stop", "leave"]
AgentState = Literal["waiting", "restoring", "setting_up", "running", "saving", "finished", "expired", "left"]

_MAX_SECONDS = 10 * 366 * 86_400
_MAX_INT = 2**53
_PART_KEY = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/(?:ckpt|out)/\d{1,9}/)?part-\d{1,6}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

T = TypeVar("T")


def lease_prefix(job_id: str, lease_id: str) -> str:
    return f"jobs/{job_id}/{lease_id}"


def orders_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/orders.json"


def heartbeat_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/heartbeat.json"


def exit_key(job_id: str, lease_id: str) -> str:
    return f"{lease_prefix(job_id, lease_id)}/exit.json"


def log_key(job_id: str, lease_id: str, boot: int, n: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/log/{boot}-{n}"


def parse_log_key(job_id: str, key: str) -> tuple[str, int, int] | None:
    """(lease, boot, number) of one of the job's; None for anything else."""
    found = re.fullmatch(re.escape(f"jobs/{job_id}/") + r"([^/]+)/log/(\d{1,9})-(\d{1,9})", key, re.ASCII)
    return (found[1], int(found[2]), int(found[3])) if found else None


def part_key(job_id: str, lease_id: str, n: int, i: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/ckpt/{n}/part-{i}"


def verified_key(job_id: str, lease_id: str, n: int) -> str:
    """The daemon's own copy of a manifest that it has verified: no machine may write there."""
    return f"jobs/{job_id}/verified/{lease_id}.{n}.json"


def outputs_prefix(job_id: str, lease_id: str, run_epoch: int) -> str:
    """Where a run that has ended well leaves its outputs: parts and manifest, as a checkpoint does."""
    return f"{lease_prefix(job_id, lease_id)}/out/{run_epoch}"


def verified_outputs_key(job_id: str) -> str:
    """The daemon's own copy of their manifest."""
    return f"jobs/{job_id}/verified/outputs.json"


def manifest_key(job_id: str, lease_id: str, n: int) -> str:
    return f"{lease_prefix(job_id, lease_id)}/ckpt/{n}/manifest.json"


@dataclass(frozen=True)
class Work:
    """What the job runs; ``checkpoint_path`` (file, directory or pattern) is relative to ``workdir``. Empty means none.

    ``progress`` says how to read it from the output: a regular expression or ``json``; empty: not at all. Without any
    for ``stall_s`` the command has hung (0: it never has) and is ended as failed if ``stall_fails``; of a command that
    never says any, the GPUs must have worked.

    ``estimate_s`` is how long it takes without interruptions, None when the job does not say; only simulated work
    goes by it.
    """

    run: str
    setup: str = ""
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint_path: str = ""
    estimate_s: int | None = None
    progress: str = ""
    stall_s: int = 0
    stall_fails: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    """File beneath ``workdir`` → address that it is fetched from before anything runs."""
    outputs: tuple[str, ...] = ()
    """Paths or patterns beneath ``workdir`` that are kept when the command has ended well."""
    as_root: bool = False
    """``run`` must not be given a user of its own."""


@dataclass(frozen=True)
class RestoreUrls:
    """Where the newest verified checkpoint can be read: its manifest, and its parts from ``first_part`` on."""

    lease: str
    n: int
    manifest_url: str
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class LogUrl:
    boot: int
    n: int
    url: str


@dataclass(frozen=True)
class CheckpointUrls:
    """Where checkpoint number ``n`` may be written: its manifest, and its parts from ``first_part`` on."""

    n: int
    manifest_url: str
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class PutUrls:
    heartbeat: str
    exit: str
    log: tuple[LogUrl, ...]
    ckpt: tuple[CheckpointUrls, ...]
    out: CheckpointUrls
    """For the outputs of the current run; ``n`` is its epoch."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Go with every PUT."""


@dataclass(frozen=True)
class Orders:
    """What the agent shall do now. A higher ``seq`` than it has seen renews its permit for ``permit_ttl_s``."""

    lease: str
    instance: str
    """The market's id of the machine that is meant; empty: not known yet. Any other one is there by mistake."""
    run_epoch: int
    seq: int
    permit_ttl_s: int
    role: Role
    checkpoint_interval_s: int
    work: Work
    restore: RestoreUrls | None
    put_urls: PutUrls
    next_orders_url: str
    grant: Mapping[str, str | int] | None = None
    """Keys for parts beneath ``jobs/<job>``: those of ``blobs.Grant``, and ``place``, which is that prefix."""

    def to_json(self) -> bytes:
        return _dump(self)


@dataclass(frozen=True)
class Heartbeat:
    """What the agent says of itself: claims. ``boot`` counts from 1; (``boot``, ``seq``) only rises.

    ``last_ckpt_n`` is the newest checkpoint whose manifest this machine has written, ``next_ckpt_n`` and
    ``next_log_n`` the numbers for which it needs URLs next: ``parts_wanted`` parts of that checkpoint from
    ``next_part`` on, and to restore one its parts from ``restore_part`` on. ``saved``: its work is stopped and
    nothing is left to upload (believe it only with ``orders_seq_seen`` at or after the orders that said
    ``save_and_stop``). ``save_s`` and ``upload_s`` are the market seconds that its last checkpoint took to be copied
    and to be sent.
    """

    boot: int
    seq: int
    run_epoch: int
    orders_seq_seen: int
    state: AgentState
    saved: bool = False
    step: int | None = None
    progress: float | None = None
    last_ckpt_n: int | None = None
    next_ckpt_n: int = 0
    next_part: int = 0
    parts_wanted: int = 0
    save_s: float | None = None
    upload_s: float | None = None
    restore_part: int = 0
    restore_failed: bool = False
    """What it was to restore was not what its manifest says."""
    next_log_n: int = 0
    bytes_sent: int = 0
    error: str = ""

    def to_json(self) -> bytes:
        return _dump(self)


@dataclass(frozen=True)
class ExitRecord:
    """How the job's command ended. ``signal`` is the number that killed it; ``finished_at`` is the host's clock."""

    run_epoch: int
    exit_code: int
    signal: int | None = None
    reason: str = ""
    finished_at: str = ""

    def to_json(self) -> bytes:
        return _dump(self)


@dataclass(frozen=True)
class Part:
    """``key`` is ``part-<i>`` for one of the checkpoint's own, else ``<lease>/ckpt/<n>/part-<i>``.

    ``size`` and ``sha256`` are of the object as it is stored. Where ``content_sha256`` is set that is zstd, and these
    are of what comes out of it.
    """

    key: str
    size: int
    sha256: str
    content_size: int | None = None
    content_sha256: str | None = None


@dataclass(frozen=True)
class Manifest:
    """A complete checkpoint: an index and the parts that it speaks of, which may be those of older checkpoints.

    The newest is the one with the highest (``run_epoch``, ``n``).
    """

    run_epoch: int
    n: int
    parts: tuple[Part, ...]
    step: int | None = None

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def part_keys(self, job_id: str, lease_id: str) -> tuple[str, ...]:
        """The blobs of its parts, in order, when it lies beneath that lease."""
        own = f"{lease_prefix(job_id, lease_id)}/ckpt/{self.n}"
        return tuple(f"jobs/{job_id}/{part.key}" if "/" in part.key else f"{own}/{part.key}" for part in self.parts)

    def to_json(self) -> bytes:
        return _dump(self)


def parse_heartbeat(data: bytes) -> Heartbeat | None:
    return _parse(data, _heartbeat)


def parse_exit(data: bytes) -> ExitRecord | None:
    return _parse(data, _exit_record)


def parse_manifest(data: bytes) -> Manifest | None:
    return _parse(data, _manifest)


def _dump(shape: Orders | Heartbeat | ExitRecord | Manifest) -> bytes:
    def plain(value: Any) -> dict[str, Any]:
        return dict(value) if isinstance(value, Mapping) else vars(value)

    return json.dumps({"v": VERSION, **vars(shape)}, default=plain, allow_nan=False).encode()


def _parse(data: bytes, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    if len(data) > MAX_OBJECT_BYTES:
        return None
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or _whole(body.get("v")) != VERSION:
            return None
        return read(body)
    except (ValueError, RecursionError):
        return None


def _heartbeat(body: Mapping[str, Any]) -> Heartbeat:
    state: Any = body.get("state")
    saved, progress, failed = body.get("saved", False), body.get("progress"), body.get("restore_failed", False)
    if state not in get_args(AgentState) or not isinstance(saved, bool) or not isinstance(failed, bool):
        raise ValueError("unknown state")
    return Heartbeat(
        boot=_whole(body.get("boot"), minimum=1),
        seq=_whole(body.get("seq")),
        run_epoch=_whole(body.get("run_epoch")),
        orders_seq_seen=_whole(body.get("orders_seq_seen")),
        state=state,
        saved=saved,
        step=_whole_or_none(body.get("step")),
        progress=None if progress is None else _fraction(progress),
        last_ckpt_n=_whole_or_none(body.get("last_ckpt_n")),
        next_ckpt_n=_whole(body.get("next_ckpt_n", 0)),
        save_s=_seconds_or_none(body.get("save_s")),
        upload_s=_seconds_or_none(body.get("upload_s")),
        next_part=_whole(body.get("next_part", 0), maximum=MAX_PART_NUMBER),
        parts_wanted=_whole(body.get("parts_wanted", 0), maximum=MAX_PARTS),
        restore_part=_whole(body.get("restore_part", 0), maximum=MAX_PARTS),
        restore_failed=failed,
        next_log_n=_whole(body.get("next_log_n", 0)),
        bytes_sent=_whole(body.get("bytes_sent", 0)),
        error=_text(body.get("error", "")),
    )


def _exit_record(body: Mapping[str, Any]) -> ExitRecord:
    signal = body.get("signal")
    return ExitRecord(
        run_epoch=_whole(body.get("run_epoch")),
        exit_code=_whole(body.get("exit_code"), minimum=-255, maximum=255),
        signal=None if signal is None else _whole(signal, minimum=1, maximum=64),
        reason=_text(body.get("reason", "")),
        finished_at=_text(body.get("finished_at", "")),
    )


def _manifest(body: Mapping[str, Any]) -> Manifest:
    parts = body.get("parts")
    if not isinstance(parts, list) or not 1 <= len(parts) <= MAX_PARTS:
        raise ValueError("no parts")
    return Manifest(
        run_epoch=_whole(body.get("run_epoch")),
        n=_whole(body.get("n")),
        parts=tuple(_part(part) for part in parts),
        step=_whole_or_none(body.get("step")),
    )


def _part(body: object) -> Part:
    if not isinstance(body, dict):
        raise ValueError("not a part")
    key, sha256 = body.get("key"), body.get("sha256")
    if not isinstance(key, str) or not _PART_KEY.fullmatch(key):
        raise ValueError("not the key of a part")
    content_size, content_sha256 = body.get("content_size"), body.get("content_sha256")
    for digest in (sha256, sha256 if content_sha256 is None else content_sha256):
        if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise ValueError("not a SHA-256")
    if (content_size is None) is not (content_sha256 is None):
        raise ValueError("half a content")
    return Part(key, _whole(body.get("size")), str(sha256), _whole_or_none(content_size), content_sha256)


def _whole(value: object, *, minimum: int = 0, maximum: int = _MAX_INT) -> int:
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValueError("not a whole number in range")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _seconds_or_none(value: object) -> float | None:
    """Anything that a duration can be."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _MAX_SECONDS:
        raise ValueError("not a duration")
    return float(value)


def _fraction(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError("not a fraction")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return "".join(c if c.isprintable() else " " for c in value[:MAX_TEXT])
