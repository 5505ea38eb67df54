"""Files and standard input as commands take them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.config.toml_trouble import decode
from autopilot.domain.errors import UserError

# Otherwise a lone "-" for standard input would be parsed as an option.
JobFile = Annotated[Path, Parameter(allow_leading_hyphen=True)]

MAX_BYTES = 100_000
"""A job file is a page of text; anything larger is the wrong file."""


def read_job_file(file: Path) -> tuple[str, str]:
    """The text of a job file and its name for messages; ``-`` is standard input. Raises ``UserError``."""
    if len(str(file)) > 1 and str(file).startswith("-"):
        raise UserError(f"unknown option: {file}", hint=f"--help lists them; a file of that name is ./{file}")
    source = "standard input" if str(file) == "-" else str(file)
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if str(file) == "-" else _head(file)
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"{source} is not a job file: it is larger than {MAX_BYTES // 1000} kB")
    try:
        return decode(raw), source
    except ValueError:
        raise UserError(f"{source} is not a job file: it is not text", hint="save it as UTF-8") from None


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAX_BYTES + 1)
