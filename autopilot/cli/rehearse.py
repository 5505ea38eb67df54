"""``autopilot rehearse``: whether a training resumes from its checkpoint, tested on this computer."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.cli import rehearsed
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.guess import guess
from autopilot.cli.output import print_json
from autopilot.clock import SystemClock
from autopilot.config.edit import set_values
from autopilot.domain.errors import UserError
from autopilot.rehearsal.course import LOSSES, Program, RehearsalBounds
from autopilot.rehearsal.course import rehearse as run_course
from autopilot.rehearsal.observed import RehearsalSeen
from autopilot.rehearsal.program import read_command, read_example, read_job
from autopilot.rehearsal.report import as_json, in_words
from autopilot.rehearsal.verdict import judge

Flag = Parameter(negative="")


def rehearse(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    checkpoint: str = "",
    example: Annotated[bool, Flag] = False,
    minutes: float = 10.0,
    losses: int = len(LOSSES),
    seed: int = 0,
    price: float | None = None,
    save: Annotated[bool, Flag] = False,
    json: Annotated[bool, Flag] = False,
    badge: Path | None = None,
) -> int:
    """Rehearse a training on this computer: start it, take its machine away as markets do, see whether it resumes.

    autopilot rehearse -- python train.py, or a job file: autopilot rehearse JOB.toml. It needs no daemon, no key and no
    account. The command runs under the agent in a copy of this directory. It is ended by SIGTERM and by SIGKILL, in the
    middle of a save as well, with its disk kept and with a fresh one. Exits with 0 only for a sound program.

    Parameters
    ----------
    command
        The command, after --; or a job file.
    checkpoint
        File, directory or pattern that the command saves to; default: what the job file or the program says.
    example
        Rehearse a small training that comes along, to see what a rehearsal is.
    minutes
        Maximum time of the rehearsal.
    losses
        Maximum number of losses.
    seed
        Of the moments at which machines are lost.
    price
        Dollars an hour of the GPU that it will run on: what a loss costs there.
    save
        Write the checkpoint path into the job file, where it names none.
    json
        Print the verdict as one JSON document.
    badge
        Write a badge to this file, as SVG.
    """
    if not sys.platform.startswith("linux"):
        raise UserError("a rehearsal runs the agent of rented machines, which needs Linux")
    if not 0 < minutes <= 24 * 60 or losses < 1:
        raise UserError("--minutes must be above 0, and --losses at least 1")
    if example and command:
        raise UserError("--example comes with its own command")
    program, job_file = (read_example(), None) if example else _read(command, checkpoint)
    if save and job_file is None:
        raise UserError("--save needs a job file to write to", hint="autopilot new writes one")
    seen = _rehearse(program, RehearsalBounds(minutes * 60, losses, seed), is_silent=json)
    if not example:
        _remember(command, job_file)
    verdict = judge(seen)
    body = as_json(seen, verdict, price)
    if json:
        print_json(body)
    else:
        print("\n".join(in_words(seen, verdict, price)))
    if badge is not None:
        _write(badge, body["badge"] + "\n")
    if save and job_file is not None:
        _save(job_file, program)
    return Exit.OK if verdict.is_sound else Exit.FAILED


def _read(command: tuple[str, ...], checkpoint: str) -> tuple[Program, Path | None]:
    if not command:
        raise UserError("what is to be rehearsed?", hint="autopilot rehearse -- python train.py, or --example")
    if len(command) == 1 and command[0].endswith(".toml"):
        path = Path(command[0])
        return read_job(path, checkpoint, SystemClock().now()), path
    here = Path.cwd()
    place = checkpoint or guess(here).checkpoint
    if not place:
        raise UserError("where does it save? no checkpoint path was found in its programs", hint="--checkpoint PATH")
    return read_command(command, here, place), None


def _remember(command: tuple[str, ...], job_file: Path | None) -> None:
    if job_file is None:
        key: str | None = rehearsed.key_of(Path.cwd(), shlex.join(command))
    else:
        key = rehearsed.read_key(job_file.read_text(encoding="utf-8"), str(job_file), job_file.absolute().parent)
    if key is not None:
        rehearsed.remember(key)


def _rehearse(program: Program, bounds: RehearsalBounds, *, is_silent: bool) -> RehearsalSeen:
    def say(line: str) -> None:
        if not is_silent:
            print(line, file=sys.stderr, flush=True)

    try:
        return asyncio.run(run_course(program, bounds, say))
    except OSError as error:
        raise CommandError(Exit.FAILED, f"the rehearsal failed: {error}") from None


def _save(path: Path, program: Program) -> None:
    """The file's comments stay, and so does what it says already."""
    values = {("checkpoint", "path"): program.work.checkpoint_path}
    text, kept = set_values(path.read_text(encoding="utf-8"), values)
    _write(path, text)
    for key in kept:
        print(f"{path}: {key} is kept as it was", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(Exit.FAILED, f"{path}: {error.strerror}") from None
