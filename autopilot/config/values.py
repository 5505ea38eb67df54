"""Readers for the values of TOML keys: a raw value in, a domain value out, ``ValueError`` with the reason otherwise."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from autopilot.domain import cadence
from autopilot.domain.after import MOST_AFTER, After, On
from autopilot.domain.array import LONGEST_VALUE, MOST_TASKS, check_variable
from autopilot.domain.code import MOST_BYTES
from autopilot.domain.errors import UserError
from autopilot.domain.gpu_choices import parse_choices
from autopilot.domain.job import GpuChoice
from autopilot.domain.money import BYTES_PER_GB, usd
from autopilot.domain.time import parse_duration

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(MB|GB|TB)", re.IGNORECASE)
_GB = {"MB": Decimal("0.001"), "GB": Decimal(1), "TB": Decimal(1000)}
_MOST_MONEY = Decimal(1_000_000_000)
"""The ledger holds nine times as much; a larger amount is a slip of the keyboard."""

LONGEST_HOLD = timedelta(hours=24)

Choice = TypeVar("Choice", bound=StrEnum)

MOST_TAGS = 20
LONGEST_TAG = 100
_TAG_KEY = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)


def _show(raw: object) -> str:
    """As written in the file: an unquoted decimal is kept as a ``Decimal`` in here."""
    return str(raw) if isinstance(raw, Decimal) else repr(raw)


def text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"must be text in quotes, not {_show(raw)}")
    if not raw.strip():
        raise ValueError("must not be empty")
    if "\0" in raw:
        raise ValueError("must not hold a zero byte")
    return raw


def matching(pattern: str, explanation: str) -> Callable[[object], str]:
    compiled = re.compile(pattern)

    def read(raw: object) -> str:
        value = text(raw)
        if not compiled.fullmatch(value):
            raise ValueError(f"{explanation}, not {value!r}")
        return value

    return read


job_name = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", "must be 1 to 60 letters, digits, dots, dashes or _")
"""An id is of that form, too."""


def server(raw: object) -> str:
    """A registry's host, with a port where it needs one."""
    return matching(r"[a-z0-9.-]+(?::\d{1,5})?", "must be a registry's host like ghcr.io, without https://")(raw)


_PUBLIC_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]{40,}={0,2}(?: [\x21-\x7e]+)*", re.ASCII)
LONGEST_PUBLIC_KEY = 256
"""vast.ai takes no longer value of an environment variable."""


def public_key(raw: object) -> str:
    """As ``ssh-keygen`` writes it into a file that ends in .pub, in one line."""
    value = text(raw).strip()
    if not _PUBLIC_KEY.fullmatch(value):
        raise ValueError("must be the text of a public key, or from the command line the path of its .pub file")
    if len(value) > LONGEST_PUBLIC_KEY:
        raise ValueError(f"has more than {LONGEST_PUBLIC_KEY} characters: take an Ed25519 key (ssh-keygen -t ed25519)")
    return value


def word(raw: object) -> str:
    return matching(r"[^\s'\"`$\\]+", "must be without spaces and quotes")(raw)


def one_of(choices: type[Choice]) -> Callable[[object], Choice]:
    def read(raw: object) -> Choice:
        for choice in choices:
            if raw == choice.value:
                return choice
        known = ", ".join(f'"{choice.value}"' for choice in choices)
        raise ValueError(f"must be one of {known}, not {_show(raw)}")

    return read


def money(raw: object) -> Decimal:
    """Dollars above zero from ``"$25.00"``."""
    if not isinstance(raw, str):
        raise ValueError(f'not an amount of money: {_show(raw)} (write it as "$25.00", with quotes)')
    try:
        amount = usd(raw)
    except UserError as error:
        raise ValueError(str(error)) from None
    except ArithmeticError:
        raise ValueError(f"not an amount of money: {_show(raw)}") from None
    if not 0 < amount <= _MOST_MONEY:
        raise ValueError(f"must be positive and at most a billion dollars, not {_show(raw)}")
    return amount


def duration(raw: object) -> timedelta:
    """A time span above zero from ``"90s"`` or ``"1d12h"``."""
    try:
        span = parse_duration(raw)
    except UserError as error:
        raise ValueError(str(error)) from None
    if span <= timedelta(0):
        raise ValueError(f"must be longer than nothing, not {_show(raw)}")
    return span


def hold(raw: object) -> timedelta:
    span = duration(raw)
    if span > LONGEST_HOLD:
        raise ValueError(f"must be 24h at most, not {_show(raw)}")
    return span


def size_gb(raw: object) -> Decimal:
    """Gigabytes above zero from ``"500MB"``, ``"40GB"`` or ``"1.5 TB"``."""
    found = _SIZE.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if found is None:
        raise ValueError(f'not a size: {_show(raw)} (write it with its unit, like "500MB", "40GB" or "1.5TB")')
    size = Decimal(found[1]) * _GB[found[2].upper()]
    if not size:
        raise ValueError(f"must be positive, not {_show(raw)}")
    return size


def flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"must be true or false, not {_show(raw)}")
    return raw


def count(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
        raise ValueError(f"must be a whole number of at least 1, not {_show(raw)}")
    return raw


def task_count(raw: object) -> int:
    number = count(raw)
    if number > MOST_TASKS:
        raise ValueError(f"must be {MOST_TASKS:,} at most, not {number:,}")
    return number


def share(raw: object) -> Decimal:
    """Above 0, up to 1."""
    if isinstance(raw, bool) or not isinstance(raw, (int, Decimal)) or not 0 < raw <= 1:
        raise ValueError(f"must be a share like 0.9, above 0 and up to 1, not {_show(raw)}")
    return Decimal(raw)


def matrix(raw: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Variables, each with its values: numbers stand as they are written."""
    if not isinstance(raw, dict) or not raw:
        raise ValueError("must be values by variable like { LR = [0.1, 0.01], SEED = [1, 2, 3] }")
    product = 1
    for name, listed in raw.items():
        try:
            check_variable(name)
        except UserError as error:
            raise ValueError(str(error)) from None
        if not isinstance(listed, list) or not listed:
            raise ValueError(f"{name} must be a list of values like [0.1, 0.01]")
        product *= len(listed)
        if product > MOST_TASKS:
            raise ValueError(f"has more than {MOST_TASKS:,} combinations")
    return tuple((name, tuple(map(_task_value, listed))) for name, listed in raw.items())


def _task_value(raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (int, Decimal, str)):
        raise ValueError(f"a value must be a number or text in quotes, not {_show(raw)}")
    value = str(raw)
    if "\0" in value or len(value) > LONGEST_VALUE:
        raise ValueError(f"a value must have {LONGEST_VALUE:,} characters at most, and no zero byte")
    return value


def instant(raw: object) -> datetime:
    """A point in time with its zone, from a TOML date-time or an RFC 3339 string."""
    example = "write it as 2026-12-24T18:00:00Z"
    if isinstance(raw, str):
        try:
            raw = datetime.fromisoformat(raw.strip())
        except ValueError:
            raise ValueError(f"not a date and time: {_show(raw)} ({example})") from None
    if not isinstance(raw, datetime):
        raise ValueError(f"not a date and time: {_show(raw)} ({example})")
    if raw.tzinfo is None:
        raise ValueError(f"needs a time zone: {raw.isoformat()} ({example})")
    try:
        return raw.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"out of range: {raw.isoformat()}") from None


def cron(raw: object) -> str:
    return cadence.check_cron(text(raw))


def zone(raw: object) -> str:
    name = text(raw)
    cadence.check_zone(name)
    return name


def firings(raw: object) -> int:
    number = count(raw)
    if number > cadence.MOST_FIRINGS:
        raise ValueError(f"must be {cadence.MOST_FIRINGS:,} at most, not {number}")
    return number


def day_or_instant(raw: object) -> date | datetime:
    """A day without a time, or as ``instant``."""
    if isinstance(raw, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(raw.strip())
    if isinstance(raw, date) and not isinstance(raw, datetime):
        return raw
    return instant(raw)


def amount_over_all(raw: object) -> tuple[Decimal, bool]:
    """Dollars, and whether they are for each month: ``"$60/month"``, or ``"$60"`` for ever."""
    amount, slash, period = raw.partition("/") if isinstance(raw, str) else (raw, "", "")
    if slash and period.strip() != "month":
        raise ValueError(f'must be like "$60/month", or "$60" for all firings ever, not {_show(raw)}')
    return money(amount), bool(slash)


def gpus(raw: object) -> tuple[GpuChoice, ...]:
    return parse_choices(text(raw))


def pattern(raw: object) -> str:
    """``json``, ``off``, or a regular expression with a named group that says something of progress."""
    expression = text(raw)
    if expression in ("json", "off"):
        return expression
    try:
        groups = re.compile(expression).groupindex
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if not groups.keys() & {"step", "percent", "fraction"}:
        raise ValueError(
            'must be "json", "off", or have a group like (?P<step>...), (?P<percent>...) or (?P<fraction>...)'
        )
    return expression


def code_bytes(raw: object) -> int:
    """Bytes from ``"500MB"``, as many as a copy of code may have."""
    count = int(size_gb(raw) * BYTES_PER_GB)
    if not 0 < count <= MOST_BYTES:
        raise ValueError(f'must be at most "{MOST_BYTES // BYTES_PER_GB}GB", not {_show(raw)}')
    return count


def patterns(raw: object) -> tuple[str, ...]:
    """As lines of a .gitignore."""
    if not isinstance(raw, list) or not all(isinstance(line, str) and line.strip() for line in raw):
        raise ValueError('must be a list like ["data/", "*.ckpt"]')
    if any(char in line for line in raw for char in "\0\n\r"):
        raise ValueError("must not hold a zero byte or the end of a line")
    return tuple(raw)


def paths(raw: object) -> tuple[str, ...]:
    """Paths or patterns relative to the work directory."""
    if not isinstance(raw, list) or not raw or not all(isinstance(path, str) and path.strip() for path in raw):
        raise ValueError('must be a list like ["model", "results/*.json"]')
    if any(".." in path.split("/") for path in raw):
        raise ValueError("must be paths without '..'")
    if any(path.startswith(("/", "~")) for path in raw):
        raise ValueError("must be paths beneath the work directory, not starting with / or ~")
    if any("\0" in path for path in raw):
        raise ValueError("must not hold a zero byte")
    if any(not set(path.strip().split("/")) - {"", "."} for path in raw):
        raise ValueError('must name paths in the work directory to keep; "**" is all of it')
    return tuple(raw)


def after(raw: object) -> tuple[After, ...]:
    """Names and ids, or tables ``{ job, on }``."""
    if not isinstance(raw, list) or not raw:
        raise ValueError('must be a list of jobs like ["prepare"]')
    if len(raw) > MOST_AFTER:
        raise ValueError(f"a job waits for {MOST_AFTER} others at most, not for {len(raw)}")
    found = tuple(map(_after, raw))
    for number, each in enumerate(found):
        if each.job in [other.job for other in found[:number]]:
            raise ValueError(f"names {each.job!r} twice")
    return found


def _after(raw: object) -> After:
    if isinstance(raw, str):
        return After(job_name(raw))
    if not isinstance(raw, dict) or not {"job"} <= raw.keys() <= {"job", "on"}:
        raise ValueError('each is a name like "prepare", or { job = "prepare", on = "any" }')
    return After(job_name(raw["job"]), one_of(On)(raw.get("on", On.OK)))


def sinks(raw: object) -> tuple[str, ...]:
    """Names of sinks; none of them: no notice."""
    if not isinstance(raw, list) or not all(isinstance(name, str) and name.strip() for name in raw):
        raise ValueError('must be a list of sinks\' names like ["team"]; [] asks for no notice')
    return tuple(dict.fromkeys(raw))


def tags(raw: object) -> tuple[tuple[str, str], ...]:
    """What a job belongs to, in the user's own words."""
    if not isinstance(raw, dict) or not raw or len(raw) > MOST_TAGS:
        raise ValueError(f'must be 1 to {MOST_TAGS} words by key like {{ project = "x" }}')
    for key, value in raw.items():
        if not _TAG_KEY.fullmatch(key):
            raise ValueError("keys have 1 to 40 letters, digits, dashes or _")
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TAG or not value.isprintable():
            raise ValueError(f"{key} must be a text of 1 to {LONGEST_TAG} characters on one line")
    return tuple(sorted(raw.items()))
