"""What the lock files pin, and what ``requirements-left-out.txt`` leaves out of them."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
RUN = ROOT / "requirements.lock"
DEVELOP = ROOT / "requirements-dev.lock"
LEFT_OUT = ROOT / "requirements-left-out.txt"

_PIN = re.compile(r"^[a-z0-9][^\n\\]*", re.MULTILINE)


def read_pins(lock: Path) -> dict[str, str]:
    """Canonical name to version, of what is installed on this Python and system."""
    pins = [Requirement(line) for line in _PIN.findall(lock.read_text())]
    applying = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in applying}


def read_left_out() -> dict[str, str]:
    """Canonical name to reason; the reason is empty if none is given."""
    lines = [line for line in LEFT_OUT.read_text().splitlines() if line and not line.startswith("#")]
    return {
        canonicalize_name(name.strip()): reason.strip() for name, _, reason in (row.partition("#") for row in lines)
    }
