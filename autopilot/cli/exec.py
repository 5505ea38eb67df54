"""``autopilot exec``: a command beside the job, on the machine that runs it, or that is held."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.shells import ExecAnswer
from autopilot.cli.answers import read
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.domain.errors import UserError
from autopilot.domain.time import parse_duration
from autopilot.words import text

WAIT_BEYOND_S = 120
"""The daemon gives the machine less than this beyond the command's own time."""


def exec(
    job: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    timeout: Annotated[str, Parameter()] = "60s",
) -> int:
    """Run a command on the job's machine, next to the job, and print its output.

    The exit code is the command's, or 124 if it timed out. Output is limited to 1 MB, and there is no standard input.
    Several words are quoted one by one; a single word is passed to the shell.

    Parameters
    ----------
    job
        The job's id or name.
    command
        After --: the command, like -- nvidia-smi.
    timeout
        Kill the command after this long, at most 10m.
    """
    if not command:
        raise UserError("exec needs a command", hint=f"autopilot exec {job} -- nvidia-smi")
    timeout_s = parse_duration(timeout).total_seconds()
    line = command[0] if len(command) == 1 else shlex.join(command)
    client = JsonClient(timeout_s=timeout_s + WAIT_BEYOND_S)
    body = client.post(job_path(job, "exec"), {"command": line, "timeout_s": round(timeout_s)})
    answer = read(ExecAnswer, body)
    sys.stdout.write(text.harmless(answer.output) if sys.stdout.isatty() else answer.output)
    sys.stdout.flush()
    if answer.is_cut:
        print("──── there was more output: 1 MB is kept ────", file=sys.stderr)
    if answer.ended == "timed_out":
        print(f"──── ended after {text.span(timeout_s)}; --timeout gives it more ────", file=sys.stderr)
    elif answer.ended == "stopped":
        print("──── ended: the machine was no longer to run the job ────", file=sys.stderr)
    return answer.exit_code
