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
    """How to add an extra. The package is in no registry, hence from where it was installed."""
    return f"{_IN_THE_CHECKOUT} '.[{extra}]'"


def lab_hint(extra: str = "") -> str:
    """How to install the laboratory, perhaps with an extra of its own; the same holds for it."""
    return f"{_IN_THE_CHECKOUT} " + (f"'./packages/lab[{extra}]'" if extra else "./packages/lab")


_IN_THE_CHECKOUT = "in the checkout that you installed from: pip install"


class InvalidTransition(Exception):
    """A state change that the lifecycle table does not allow: a defect in this program, never the user's."""
