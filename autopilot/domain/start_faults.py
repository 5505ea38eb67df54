"""Why a machine did not start the job's container: one table from the words of markets and hosts to who must act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.money import ZERO

START_WORDS = "autopilot: "
"""With these begins every line that the start text writes into a container's log."""
LONGEST_WORDS = 300
"""Characters that are kept of what a machine's market or host said."""


class StartCause(StrEnum):
    IMAGE = "image"
    """The image starts nowhere: its owner must act."""
    LOGIN = "login"
    """The registry wants a login, or another one."""
    LIMIT = "limit"
    """The registry gives the image out later."""
    HOST = "host"
    """Another host may start it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StartFault:
    cause: StartCause
    remedy: str
    """What is wrong, and who does what next: one line."""
    is_final: bool = True
    """Waiting for this machine is of no use."""
    is_lasting: bool = False
    """Its host fails the same image again, today as well."""


FAULTS: Mapping[str, StartFault] = {
    "image_missing": StartFault(
        StartCause.IMAGE,
        "the registry has no such image or tag: correct `image` in the job file, and submit the job again",
    ),
    "image_arch": StartFault(
        StartCause.IMAGE,
        "the image has no build for the processors of these machines: build it for linux/amd64, and submit the job "
        "again",
    ),
    "no_python": StartFault(
        StartCause.IMAGE,
        "no Python 3.8 or newer in the image, and its package manager brought none: add one to the image, and submit "
        "the job again",
    ),
    "no_shell": StartFault(
        StartCause.IMAGE, "the image has no shell (sh): take one that has, and submit the job again"
    ),
    "registry_denied": StartFault(
        StartCause.LOGIN,
        "the registry does not give the image out: name a login in `[registry]`, or correct the password",
    ),
    "pull_limit": StartFault(
        StartCause.LIMIT,
        "the registry's pull limit is reached: the job waits and tries again; a login in `[registry]` raises the limit",
    ),
    "disk_full": StartFault(
        StartCause.HOST, "no space is left on the host's disk: another host is tried; a larger `disk` may be needed"
    ),
    "driver_too_old": StartFault(
        StartCause.HOST,
        "the host's driver or GPU does not fit what the image requires: another host is tried",
        is_lasting=True,
    ),
    "host_arch": StartFault(
        StartCause.HOST, "the image has no build for this host's processor: another host is tried", is_lasting=True
    ),
    "container_refused": StartFault(StartCause.HOST, "the host's container runtime failed: another host is tried"),
    "no_gpu": StartFault(
        StartCause.HOST, "the host does not show the GPUs that were rented: another host is tried", is_lasting=True
    ),
    "no_docker": StartFault(
        StartCause.HOST, "the host has no container runtime that works: another host is tried", is_lasting=True
    ),
    "no_network": StartFault(
        StartCause.HOST,
        "for a minute the container reaches nothing outside its host: another host is tried",
        is_lasting=True,
    ),
    "pull_failed": StartFault(
        StartCause.HOST, "the host's network did not bring what is needed: another host is tried", is_final=False
    ),
    "failed_before": StartFault(
        StartCause.HOST, "the market placed it on a host that has failed before: another host is tried at once"
    ),
    "host_silent": StartFault(
        StartCause.UNKNOWN, "the machine runs, and its own program has sent no word: another host is tried"
    ),
    "boot_too_slow": StartFault(StartCause.UNKNOWN, "the machine did not come up in time: another host is tried"),
    "container_exit": StartFault(
        StartCause.UNKNOWN, "the container ended before its agent spoke: another host is tried"
    ),
}
"""By name of the fault; the names of a virtual machine's own report are among them (``HOST_FAULTS``)."""
NO_FAULT = StartFault(StartCause.UNKNOWN, "the machine did not come up, and its market did not say why", is_final=False)
FAILED_BEFORE = "failed_before"
"""It was placed on a host that is known to fail, and was left at once."""
MOST_KEPT = 64
"""Failed starts in a row are kept of one job, the newest."""
INVALID = "invalid"
"""The market refused the create itself as one that it never takes."""

_WORDS: tuple[tuple[str, str], ...] = (
    ("pull_limit", r"\btoomanyrequests\b|pull rate limit|429 too many requests"),
    ("no_python", r"autopilot: no Python 3\.8"),
    ("disk_full", r"no space left on device|disk quota exceeded"),
    (
        "driver_too_old",
        r"unsatisfied condition: |nvidia-container-cli: (?:requirement|initialization) error"
        r"|driver/library version mismatch|cuda driver version is insufficient",
    ),
    ("image_arch", r"no matching manifest for (?:linux|windows)/(?:amd64|x86_64)|exec format error"),
    ("host_arch", r"no matching manifest for "),
    ("image_missing", r"manifest unknown|manifest for \S+ not found|name unknown: |invalid reference format"),
    ("no_shell", r'exec: "?(?:/bin/)?sh"?: (?:executable file not found|stat /bin/sh: no such file)'),
    ("container_refused", r"oci runtime (?:create |start )?(?:failed|error)|failed to create (?:shim )?task"),
    ("no_gpu", r"could not select device driver|failed to initialize nvml|no devices were found"),
    (
        "pull_failed",
        r"failed to pull image|unexpected eof|i/o timeout|tls handshake timeout|no such host|connection reset by peer"
        r"|temporary failure in name resolution|context deadline exceeded|network is unreachable"
        r"|net/http: request canceled",
    ),
)
_NO_ROUTE = re.compile(START_WORDS + r".*\[Errno (?:-3|101|113)\]")
"""No names (``EAI_AGAIN``) or no route (``ENETUNREACH``, ``EHOSTUNREACH``): a store that is down, or that has no such
name, fails in other ways."""
LINES_WITHOUT_NETWORK = 6
"""So many of the start text's lines in a row: it tries again after 2, 4, 8, 16 and 32 s, so a minute has gone by."""
_TABLE = tuple((name, re.compile(words, re.IGNORECASE)) for name, words in _WORDS)
"""The first that fits: what is more exact comes first."""
_DENIED = re.compile(
    r"(?:^|[:\s])(?:unauthorized|denied)(?::|\s|$)|authentication required|no basic auth credentials"
    r"|incorrect username or password"
    r"|\b40[13] (?:unauthorized|forbidden)\b",
    re.IGNORECASE,
)
"""Docker's and containerd's words for a missing login, a wrong one, and one without the right to this image."""
_NOT_THE_REGISTRY = re.compile(r"permission denied|access denied by|denied by policy", re.IGNORECASE)


def find_fault(words: str) -> str:
    """The name of the fault that these words of a market or a host tell of; empty: of none that is known."""
    for name, pattern in _TABLE[:2]:
        if pattern.search(words):
            return name
    if _DENIED.search(words) and not _NOT_THE_REGISTRY.search(words):
        return "registry_denied"
    return next((name for name, pattern in _TABLE[2:] if pattern.search(words)), "")


def find_telling_line(words: str) -> tuple[str, str]:
    """(the fault, the line that tells of it): of several lines the newest counts. Both are empty without a fault."""
    lines = words.splitlines()
    ours = [line for line in lines if line.startswith(START_WORDS)][-LINES_WITHOUT_NETWORK:]
    if len(ours) == LINES_WITHOUT_NETWORK and all(map(_NO_ROUTE.match, ours)):
        return "no_network", ours[-1]
    told = ((find_fault(line), line) for line in reversed(lines))
    return next(((fault, line) for fault, line in told if fault), ("", ""))


def fault_of(name: str) -> StartFault:
    return FAULTS.get(name, NO_FAULT)


def trim_words(words: str) -> str:
    """On one line, the newest last, of bounded length."""
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_WORDS else "…" + line[1 - LONGEST_WORDS :]


@dataclass(frozen=True, slots=True)
class FailedStart:
    """A machine on which the command never ran, or one that says that it will not."""

    lease_id: str
    host: str
    """What tells its host from others; where a market names none, the machine itself."""
    fault: str
    """Of ``FAULTS``, or ``INVALID``; empty: none was said that is known."""
    words: str
    """The market's or the host's own, as far as they were kept."""
    at: datetime
    is_over: bool = False
    """It was given up."""
    cost: Decimal = ZERO
    """Dollars that it had cost then, by our own clock."""

    @property
    def cause(self) -> StartCause:
        return fault_of(self.fault).cause


def with_start(starts: tuple[FailedStart, ...], start: FailedStart) -> tuple[FailedStart, ...]:
    """At the end, in the place of what was known of that machine."""
    return (*(each for each in starts if each.lease_id != start.lease_id), start)[-MOST_KEPT:]


def count_last(starts: tuple[FailedStart, ...], fault: str) -> int:
    """How many of them in a row, up to the newest, had that fault."""
    return next((number for number, each in enumerate(reversed(starts)) if each.fault != fault), len(starts))
