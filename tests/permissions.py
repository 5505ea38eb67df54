"""Users without rights, and a directory that may not be entered even if the tests run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OTHER_USER = "nobody"
"""A user that every Linux has, and that runs no test."""
UNPRIVILEGED = 65534


@contextmanager
def kept_out(directory: Path) -> Iterator[None]:
    """Nothing beneath ``directory`` can be looked at, for as long as this lasts; root drops its rights then."""
    was_root = os.geteuid() == 0
    directory.chmod(0)
    try:
        if was_root:
            os.seteuid(UNPRIVILEGED)
        yield
    finally:
        if was_root:
            os.seteuid(0)
        directory.chmod(0o700)
