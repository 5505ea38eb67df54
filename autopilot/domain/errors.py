"""Errors that a person has to act upon. An error says what is wrong, and the hint who must do what."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend. ``str(error)`` is the whole message: what is wrong, then the way out."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class OtherDaemonError(UserError):
    """Another daemon holds the ledger or the socket, so this one cannot start."""


def install_hint(extra: str) -> str:
    """How to add an extra. No index has the package, hence from the folder that it was installed from."""
    return f"make wheels EXTRAS={extra} in the checkout, {_FROM_WHEELS} 'gpu-autopilot[{extra}]'"


def lab_hint(extra: str = "") -> str:
    """How to install the laboratory, perhaps with an extra of its own; the same holds for it."""
    wanted, named = (f" LAB_EXTRAS={extra}", f"'gpu-autopilot-lab[{extra}]'") if extra else ("", "gpu-autopilot-lab")
    return f"make wheels{wanted} in the checkout, {_FROM_WHEELS} {named}"


_FROM_WHEELS = "then there: pip install --no-index --find-links dist"


class InvalidTransition(Exception):
    """A state change that the lifecycle table does not allow: a defect in this program, never the user's."""
