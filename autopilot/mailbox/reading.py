"""Reading what a stranger's machine has written: exactly the known shapes, or None.

An object is at most 1 MB and has ``v`` = 1. Numbers are whole or finite, and in range. Texts are cut and stripped of
control characters.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from autopilot.domain.agent_state import AgentState
from autopilot.domain.arrival import ALL_REDUCES, Arrival, ArrivalGpu
from autopilot.domain.named_hosts import MOST as MOST_HOSTS
from autopilot.domain.readings import Gpu, Readings, Recognised
from autopilot.mailbox.report_shapes import (
    HOST_FAULTS,
    HOST_STATES,
    TAKE_AWAYS,
    ExitRecord,
    Heartbeat,
    HostReport,
    Manifest,
    MemoryUse,
    Part,
    SshLogin,
    TakeAway,
)
from autopilot.mailbox.wire import ABILITIES, MAX_GPUS, MAX_OBJECT_BYTES, MAX_PART_NUMBER, MAX_PARTS, MAX_TEXT, VERSION

_MAX_SECONDS = 10 * 366 * 86_400

_MAX_INT = 2**53

_MAX_LOAD = 1_000_000

_MAX_SPEED = 10_000_000

_MAX_OFF_S = 100 * 366 * 86_400

_MAX_FAULT = 200

_PART_KEY = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/(?:ckpt|out)/\d{1,9}/)?part-\d{1,6}", re.ASCII)

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

T = TypeVar("T")


def parse_heartbeat(data: bytes) -> Heartbeat | None:
    return _parse(data, _heartbeat)


def parse_exit(data: bytes) -> ExitRecord | None:
    return _parse(data, _exit_record)


def parse_manifest(data: bytes) -> Manifest | None:
    return _parse(data, _manifest)


def parse_host_report(data: bytes) -> HostReport | None:
    return _parse(data, _host_report)


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
    state = AgentState(str(body.get("state")))
    saved, progress, failed = body.get("saved", False), body.get("progress"), body.get("restore_failed", False)
    if state is AgentState.UNHEARD or not isinstance(saved, bool) or not isinstance(failed, bool):
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
        last_checkpoint=_whole_or_none(body.get("last_ckpt_n")),
        next_checkpoint=_whole(body.get("next_ckpt_n", 0)),
        save_s=_seconds_or_none(body.get("save_s")),
        upload_s=_seconds_or_none(body.get("upload_s")),
        next_part=_whole(body.get("next_part", 0), maximum=MAX_PART_NUMBER),
        parts_wanted=_whole(body.get("parts_wanted", 0), maximum=MAX_PARTS),
        whole_parts=_whole(body.get("whole_parts", 0), maximum=MAX_PARTS),
        restore_part=_whole(body.get("restore_part", 0), maximum=MAX_PARTS),
        restore_failed=failed,
        left=_whole(body.get("left", 0), maximum=MAX_PARTS),
        left_part=_whole(body.get("left_part", 0), maximum=MAX_PARTS),
        restored=_age_restored(body.get("restored")),
        next_log=_whole(body.get("next_log_n", 0)),
        bytes_sent=_whole(body.get("bytes_sent", 0)),
        can=_abilities(body.get("can")),
        error=_text(body.get("error", "")),
        readings=_readings(body.get("readings")),
        ssh=_login(body.get("ssh")),
        notice=_take_away(body.get("notice")),
        exit=_exit_or_none(body.get("exit")),
    )


def _exit_or_none(body: object) -> ExitRecord | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        raise ValueError("no exit record")
    return _exit_record(body)


def _take_away(body: object) -> TakeAway | None:
    """One that cannot be read is none: the machine works all the same."""
    if not isinstance(body, dict):
        return None
    kind, ends_at = body.get("kind"), body.get("ends_at")
    return TakeAway(kind, _text(ends_at)[:40]) if kind in TAKE_AWAYS and isinstance(ends_at, str) else None


def _readings(body: object) -> Readings | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        raise ValueError("no readings")
    gpus, load = body.get("gpus"), body.get("load")
    if gpus is not None and not (isinstance(gpus, list) and len(gpus) <= MAX_GPUS):
        raise ValueError("no GPUs")
    return Readings(
        gpus=None if gpus is None else tuple(map(_gpu, gpus)),
        disk_free=_whole_or_none(body.get("disk_free")),
        load=None if load is None else _within(load, _MAX_LOAD),
        still_s=_seconds_or_none(body.get("still_s")),
        arrival=_arrival_or_none(body.get("arrival")),
        recognised=_read_recognised(body.get("recognised")),
    )


def _arrival_or_none(body: object) -> Arrival | None:
    """One that cannot be read is an empty one: it was made, and says nothing."""
    if body is None:
        return None
    try:
        return _arrival(body)
    except ValueError:
        return Arrival()


def _arrival(body: object) -> Arrival:
    if not isinstance(body, dict):
        raise ValueError("no arrival")
    gpus, hosts = body.get("gpus"), body.get("unreachable", [])
    if gpus is not None and not (isinstance(gpus, list) and len(gpus) <= MAX_GPUS):
        raise ValueError("no GPUs")
    if not isinstance(hosts, list) or len(hosts) > MOST_HOSTS:
        raise ValueError("no hosts")
    reduced, off_s = body.get("all_reduce", ""), body.get("clock_off_s")
    if reduced not in ("", *ALL_REDUCES):
        raise ValueError("unknown outcome")
    is_behind = isinstance(off_s, int | float) and off_s < 0
    return Arrival(
        took_s=_within(body.get("took_s"), _MAX_SECONDS),
        gpus=None if gpus is None else tuple(map(_arrival_gpu, gpus)),
        gpu_fault=_text(body.get("gpu_fault", ""))[:_MAX_FAULT],
        driver=_text(body.get("driver", ""))[:_MAX_FAULT],
        all_reduce=reduced,
        ram=_whole_or_none(body.get("ram")),
        shm=_whole_or_none(body.get("shm")),
        disk_free=_whole_or_none(body.get("disk_free")),
        disk_fault=_text(body.get("disk_fault", ""))[:_MAX_FAULT],
        disk_mb_per_s=_speed_or_none(body.get("disk_mb_per_s")),
        upload_mbps=_speed_or_none(body.get("upload_mbps")),
        download_mbps=_speed_or_none(body.get("download_mbps")),
        clock_off_s=None if off_s is None else (-1 if is_behind else 1) * _within(abs(_number(off_s)), _MAX_OFF_S),
        unreachable=tuple(_text(host)[:_MAX_FAULT] for host in hosts),
    )


def _arrival_gpu(body: object) -> ArrivalGpu:
    if not isinstance(body, dict):
        raise ValueError("not a GPU")
    return ArrivalGpu(
        used=_whole_or_none(body.get("used")),
        total=_whole_or_none(body.get("total")),
        slowed=bool(_flag_or_none(body.get("slowed"))),
        errors=_whole(body.get("errors", 0)),
    )


def _speed_or_none(value: object) -> float | None:
    return None if value is None else _within(value, _MAX_SPEED)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("not a number")
    return value


FORMS = frozenset(("bar", "step", "epochs", "trainer", "saved"))
"""How progress that is recognised may be told."""


def _read_recognised(body: object) -> Recognised | None:
    if not isinstance(body, dict) or str(form := body.get("form")) not in FORMS:
        return None
    step, fraction, confidence = _whole_or_none(body.get("step")), body.get("fraction"), body.get("confidence")
    left_s, seen = _seconds_or_none(body.get("left_s")), _fraction(body.get("seen", 0))
    return Recognised(str(form), step, _fraction(fraction), _fraction(confidence), left_s, seen)


def _age_restored(body: object) -> tuple[int, int] | None:
    if body is None:
        return None
    if not isinstance(body, list) or len(body) != 2:
        raise ValueError("no run epoch and number")
    return _whole(body[0]), _whole(body[1])


def _login(body: object) -> SshLogin | None:
    """Its parts become words of a command line: an address, a number, and a name that is no option.

    One that is not of this shape admits no login; the rest of the heartbeat counts: the machine works all the same.
    """
    if body is None:
        return None
    try:
        return _usable_login(body)
    except ValueError:
        return SshLogin(fault="what the machine says of its address cannot be used")


def _usable_login(body: object) -> SshLogin:
    if not isinstance(body, dict):
        raise ValueError("no login")
    if body.get("fault"):
        return SshLogin(fault=_text(body["fault"]))
    user = body.get("user")
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise ValueError("no user's name")
    host = str(ipaddress.ip_address(str(body.get("host"))))
    return SshLogin(host, _whole(body.get("port"), minimum=1, maximum=65_535), user)


def _gpu(body: object) -> Gpu:
    if not isinstance(body, dict):
        raise ValueError("not a GPU")
    busy, used, total = body.get("busy"), body.get("memory_used"), body.get("memory_total")
    return Gpu(None if busy is None else _fraction(busy), _whole_or_none(used), _whole_or_none(total))


def _abilities(body: object) -> tuple[str, ...]:
    """Those that are known here: older agents say nothing, newer ones may say more."""
    return tuple(known for known in ABILITIES if known in body) if isinstance(body, list) else ()


def _host_report(body: Mapping[str, Any]) -> HostReport:
    state, fault, wants_login = body.get("state"), body.get("fault", ""), body.get("wants_login", False)
    if state not in HOST_STATES or fault not in ("", *HOST_FAULTS) or not isinstance(wants_login, bool):
        raise ValueError("unknown state")
    return HostReport(
        boot=_whole(body.get("boot"), minimum=1),
        seq=_whole(body.get("seq")),
        state=state,
        fault=fault,
        detail=_text(body.get("detail", "")),
        wants_login=wants_login,
    )


def _exit_record(body: Mapping[str, Any]) -> ExitRecord:
    signal = body.get("signal")
    return ExitRecord(
        run_epoch=_whole(body.get("run_epoch")),
        exit_code=_whole(body.get("exit_code"), minimum=-255, maximum=255),
        signal=None if signal is None else _whole(signal, minimum=1, maximum=64),
        reason=_text(body.get("reason", "")),
        finished_at=_text(body.get("finished_at", "")),
        has_saved=_flag_or_none(body.get("has_saved")),
        memory=_memory_or_none(body.get("memory")),
    )


def _memory_or_none(body: object) -> MemoryUse | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        raise ValueError("no peak and limit")
    return MemoryUse(_whole(body.get("peak")), _whole(body.get("limit"), minimum=1))


def _manifest(body: Mapping[str, Any]) -> Manifest:
    parts = body.get("parts")
    if not isinstance(parts, list) or not 1 <= len(parts) <= MAX_PARTS:
        raise ValueError("no parts")
    return Manifest(
        run_epoch=_whole(body.get("run_epoch")),
        number=_whole(body.get("n")),
        parts=tuple(_part(part) for part in parts),
        step=_whole_or_none(body.get("step")),
        suspect=bool(_flag_or_none(body.get("suspect"))),
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


def _flag_or_none(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _seconds_or_none(value: object) -> float | None:
    """Anything that a duration can be."""
    return None if value is None else _within(value, _MAX_SECONDS)


def _fraction(value: object) -> float:
    return _within(value, 1)


def _within(value: object, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"not a number from 0 to {most}")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return "".join(c if c.isprintable() else " " for c in value[:MAX_TEXT])
