"""Exit codes, and the error of a command that carries one."""

from __future__ import annotations

from enum import IntEnum

from autopilot.domain.errors import UserError


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """The job or the operation failed."""
    USAGE = 2
    """Bad usage or bad input; nothing was done."""
    UNREACHABLE = 3
    """The daemon or the market could not be reached."""
    REFUSED = 4
    """A budget, a limit or missing permission forbids it; a job that was waited for is parked."""
    CANCELLED = 5
    """A job that was waited for was cancelled."""
    OTHER_DAEMON = 6
    """Another daemon holds the ledger or the socket."""


class CommandError(UserError):
    def __init__(self, exit_code: Exit, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
