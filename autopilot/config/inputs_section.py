"""The section ``[inputs]``: addresses, and what other jobs leave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from autopilot.config import values
from autopilot.config.job_keys import INPUTS, SENDS_FILES
from autopilot.config.toml_document import KeyPath, TomlDocument
from autopilot.domain.after import MOST_AFTER, After, On, paired_with
from autopilot.domain.errors import UserError
from autopilot.domain.inputs import OF_A_JOB, LeftInput, left_inputs
from autopilot.domain.money import ZERO


def read_inputs(document: TomlDocument) -> tuple[tuple[tuple[str, str], ...], Decimal]:
    """(path, place) of each, and the size in GB of those that state one. Raises ``UserError``."""
    inputs, total_gb = [], ZERO
    for path, raw in document.values.get(INPUTS, {}).items():
        place = f"{document.place((INPUTS, path))}: inputs.{path}"
        if "\0" in path or path.startswith(("/", "~")) or {"..", ".", ""} & set(path.split("/")):
            raise UserError(f"{place}: not a path inside the work directory", hint='write it as "data/train.bin"')
        url, size_gb = _url_and_size(place, raw)
        total_gb += size_gb
        if isinstance(url, str) and url.startswith(OF_A_JOB):
            if any(sign in path for sign in "*?["):
                raise UserError(f"{place}: an output of a job is one path, not a pattern", hint="name one path")
            url = _left_place(place, url)
        elif not isinstance(url, str) or not re.fullmatch(r"https?://[^\s]+", url):
            raise UserError(
                f'{place}: must be an http or https address, or the output of another job, like "job:prepare/out"',
                hint=SENDS_FILES,
            )
        inputs.append((path, url))
    for path, _ in inputs:
        if any(other.startswith(path + "/") for other, _ in inputs):
            place = f"{document.place((INPUTS, path))}: inputs.{path}"
            raise UserError(f"{place}: is a file, but also the directory of another input", hint="rename one of them")
    return tuple(inputs), total_gb


def _url_and_size(place: str, raw: Any) -> tuple[Any, Decimal]:
    """Size in GB, nothing if none is stated."""
    if not isinstance(raw, dict):
        return raw, ZERO
    if not raw.keys() <= {"url", "size"}:
        raise UserError(f"{place}: has url and size, and nothing else", hint='{ url = "https://…", size = "9GB" }')
    try:
        return raw.get("url"), values.size_gb(raw["size"]) if "size" in raw else ZERO
    except ValueError as error:
        raise UserError(f"{place}.size: {error}") from None


def _left_place(place: str, raw: str) -> str:
    """``job:NAME/PATH`` with its path in its shortest form."""
    name, _, path = raw.removeprefix(OF_A_JOB).partition("/")
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if not steps or ".." in steps or "\0" in path or any(sign in path for sign in "*?["):
        raise UserError(
            f"{place}: {raw!r} is not an output of a job",
            hint='use the job and one path of its [outputs], like "job:prepare/out"',
        )
    try:
        return LeftInput("", values.job_name(name), "/".join(steps)).place
    except ValueError as error:
        raise UserError(f"{place}: {error}") from None


def read_after(
    document: TomlDocument, read: Mapping[KeyPath, Any], inputs: tuple[tuple[str, str], ...]
) -> tuple[After, ...]:
    """What the job file says, and the jobs that leave something for this one. Raises ``UserError``."""
    after: tuple[After, ...] = read.get(("after",), ())
    if paired_with(after) and "array" not in document.values:
        place = document.place(("after",))
        raise UserError(f'{place}: on = "{On.SAME_TASK}" is for arrays, and this job is not an array', hint="omit on")
    ends = {each.job: each.on for each in after}
    for left in left_inputs(inputs):
        place = f"{document.place((INPUTS, left.path))}: inputs.{left.path}"
        if ("schedule", "cron") in read:
            raise UserError(
                f"{place}: jobs of a schedule cannot use the outputs of another job",
                hint="use a bucket of your own instead",
            )
        if ends.setdefault(left.job, On.OK) not in (On.OK, On.SAME_TASK):
            raise UserError(
                f"{place}: {left.job} has outputs only if it succeeds, but after waits for another outcome",
                hint=f'write after = ["{left.job}"], or omit it: the input implies it',
            )
    if len(ends) > MOST_AFTER:
        raise UserError(f"a job can wait for at most {MOST_AFTER} others; with those of [inputs] these are {len(ends)}")
    return tuple(After(job, on) for job, on in ends.items())
