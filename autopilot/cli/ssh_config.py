"""``autopilot ssh-config``: a job's machine as an entry of OpenSSH's configuration, for editors that work over SSH."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.jobs import Job, JobAnswer
from autopilot.answers.shells import SshAnswer
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.ssh import find_private_key, known_hosts, list_options
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.config import paths
from autopilot.domain.errors import UserError

DIRECTORY = "ssh.d"
"""Beside ``client.toml``: a file for each job."""
_WORD = re.compile(r"[A-Za-z0-9._:-]+")
"""What a market may say of its machine's address: it becomes a line of the user's own configuration."""


def ssh_config(
    job: str,
    /,
    *,
    write: Annotated[bool, Parameter(negative="")] = False,
    identity: Annotated[Path | None, Parameter(name=["--identity", "-i"])] = None,
) -> int:
    """Print the job's machine as an entry for ~/.ssh/config, for editors that work over SSH, like VS Code.

    Its name is autopilot-NAME. The entry is of the machine that runs the job now: after a move, run this again.

    Parameters
    ----------
    job
        The job's id or name.
    write
        Write the entry to a file of its own, and an Include of such files as the first line of ~/.ssh/config.
    identity
        Private key; default: the one next to [ssh] key of client.toml, then ssh's own defaults.
    """
    client = JsonClient()
    where = read(SshAnswer, client.get(job_path(job, "ssh")))
    name = f"autopilot-{_name_of(read(JobAnswer, client.get(job_path(job))).job)}"
    entry = make_entry(name, where, identity or find_private_key(), known_hosts())
    if not write:
        print(entry, end="")
        return Exit.OK
    try:
        file = _write_entry(name, entry)
        main = _include(file.parent)
    except OSError as problem:
        raise CommandError(Exit.FAILED, f"cannot write {problem.filename}: {problem.strerror}") from None
    print(f"wrote {file}" + (f", and an Include of such files to {main}" if main is not None else ""))
    print(f"try it: ssh {name}")
    return Exit.OK


def make_entry(name: str, where: SshAnswer, identity: Path | None, hosts: Path) -> str:
    """Raises ``UserError`` for an address that is none."""
    place = {"HostName": where.host, "Port": str(where.port), "User": where.user}
    if not all(_WORD.fullmatch(value) for value in (*place.values(), where.lease)):
        raise UserError("the market says an address of the machine that ssh cannot use")
    lines = {**place, **list_options(where, hosts)}
    if identity is not None:
        lines |= {"IdentityFile": f'"{identity.absolute()}"', "IdentitiesOnly": "yes"}
    return "\n".join([f"Host {name}", *(f"    {key} {value}" for key, value in lines.items())]) + "\n"


def _name_of(job: Job) -> str:
    """A task's is written ``JOB/17``; a job may have a name that ssh would take for a pattern."""
    name = job.name.replace("/", "-")
    return name if _WORD.fullmatch(name) else job.id


def _write_entry(name: str, entry: str) -> Path:
    directory = paths.user_config_dir() / DIRECTORY
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = directory / name
    _replace(file, entry)
    return file


def _include(directory: Path) -> Path | None:
    """The user's own file, if the line had to be added; the rest of it is kept."""
    main = Path.home() / ".ssh/config"
    line = f'Include "{directory}/*"'
    kept = main.read_text() if main.exists() else ""
    if line in kept.splitlines():
        return None
    main.parent.mkdir(exist_ok=True, mode=0o700)
    _replace(main, f"{line}\n" + (f"\n{kept}" if kept else ""))  # at the top: below a Host it would be a part of that
    return main


def _replace(file: Path, text: str) -> None:
    """Whole or not at all, readable by its owner alone; a link to it stays one."""
    file = file.resolve()
    unfinished = file.with_name(f"{file.name}.new")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(text)
    unfinished.replace(file)
