"""What an error means for a script: the exit code of the command that it ends."""

from __future__ import annotations

from autopilot.cli.exits import CommandError, Exit
from autopilot.client.errors import ApiError, CodeChanged, NoAccess, Unreachable, UnreadableAnswer
from autopilot.domain.errors import OtherDaemonError, UserError

_OF_REASON = {"same_job_open": Exit.USAGE, "confirm_first": Exit.REFUSED}
"""They go before the status."""
_OF_STATUS = {
    400: Exit.USAGE,
    404: Exit.USAGE,
    413: Exit.USAGE,
    422: Exit.USAGE,
    401: Exit.REFUSED,
    402: Exit.REFUSED,
    403: Exit.REFUSED,
    421: Exit.REFUSED,
    429: Exit.UNREACHABLE,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""By the status of the daemon's answer; any other error is a failed operation."""


def exit_code_of(error: UserError) -> Exit:
    match error:
        case CommandError():
            return error.exit_code
        case OtherDaemonError():
            return Exit.OTHER_DAEMON
        case NoAccess():
            return Exit.REFUSED
        case Unreachable():
            return Exit.UNREACHABLE
        case UnreadableAnswer() | CodeChanged():
            return Exit.FAILED
        case ApiError():
            return _OF_REASON.get(error.reason) or _OF_STATUS.get(error.status, Exit.FAILED)
    return Exit.USAGE
