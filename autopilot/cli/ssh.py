"""``autopilot ssh``: a shell on the machine that runs the job, or that is held, by the system's own ``ssh``."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.shells import SshAnswer
from autopilot.cli.answers import read
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.config import paths
from autopilot.config.client_file import read_client_file
from autopilot.domain.errors import UserError

KNOWN_HOSTS = "known_hosts"


def ssh(
    job: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    forward: Annotated[list[int] | None, Parameter(negative="")] = None,
    identity: Annotated[Path | None, Parameter(name=["--identity", "-i"])] = None,
) -> int:
    """Open a shell on the job's machine, or run a command there; needs [ssh] in the job file or in client.toml.

    The shell starts in the job's work directory, with its environment, as root in most images. The exit code is that of
    ssh. If the machine accepts no login, autopilot exec still runs commands.

    Parameters
    ----------
    job
        The job's id or name.
    command
        After --: a command, like -- nvidia-smi; default: a shell.
    forward
        Forward this port of the machine to the same port here, like 6006; can be repeated.
    identity
        Private key; default: the one next to [ssh] key of client.toml, then ssh's own defaults.
    """
    program = shutil.which("ssh")
    if program is None:
        raise UserError("ssh is not installed", hint=f"install OpenSSH, or run autopilot exec {job} -- COMMAND")
    wrong = next((port for port in forward or () if not 0 < port < 65_536), None)
    if wrong is not None:
        raise UserError(f"--forward must be a port from 1 to 65535, not {wrong}")
    where = read(SshAnswer, JsonClient().get(job_path(job, "ssh")))
    words = arguments(where, identity or find_private_key(), forward or [], known_hosts())
    line = command if len(command) < 2 else (shlex.join(command),)
    return subprocess.run([program, *words, *line], check=False).returncode


def arguments(where: SshAnswer, identity: Path | None, forward: list[int], hosts: Path) -> list[str]:
    """What ``ssh`` is called with."""
    options = list_options(where, hosts)
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    words += [word for port in forward for word in ("-L", f"127.0.0.1:{port}:127.0.0.1:{port}")]
    words += ["-i", str(identity), "-o", "IdentitiesOnly=yes"] if identity else []
    return [*words, "-p", str(where.port), "--", f"{where.user}@{where.host}"]


def list_options(where: SshAnswer, hosts: Path) -> dict[str, str]:
    """Of OpenSSH. The host key is kept at first sight, under the lease, and held to from then on."""
    return {
        "HostKeyAlias": f"autopilot-{where.lease}",
        "UserKnownHostsFile": f'"{hosts}"',
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "accept-new",
        "HashKnownHosts": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }


def known_hosts() -> Path:
    """Raises ``UserError``."""
    directory = paths.user_config_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError(f"cannot keep host keys in {directory}: {error.strerror}") from None
    return directory / KNOWN_HOSTS


def find_private_key() -> Path | None:
    """The one beside the public key of client.toml."""
    public = read_client_file().ssh_key
    private = public.with_suffix("") if public is not None and public.suffix == ".pub" else None
    return private if private is not None and private.exists() else None
