"""The laboratory is a distribution of its own. This is the one place that looks for it."""

from __future__ import annotations

from importlib.util import find_spec

from autopilot import __version__
from autopilot.domain.errors import UserError, lab_hint

DISTRIBUTION = "gpu-autopilot-lab"
PACKAGE = "autopilot_lab"


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def require(command: str) -> None:
    """Raise ``UserError`` unless the laboratory is here, in this program's version."""
    if not is_installed():
        raise UserError(
            f"`autopilot {command}` is a command of the laboratory, {DISTRIBUTION}, which is not installed",
            hint=lab_hint(),
        )
    if (found := _version()) != __version__:
        raise UserError(
            f"the laboratory, {DISTRIBUTION}, is of version {found}, and this program of version {__version__}",
            hint=lab_hint(),
        )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # imported longer than the overview takes

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # importable without being installed: it is read from the checkout
        return __version__
