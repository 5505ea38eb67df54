"""``autopilot secret``: values that job files name and never hold."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from autopilot.cli.exits import CommandError, Exit
from autopilot.config import secret_files
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")


def secret(
    action: Literal["set", "list", "remove"],
    name: str | None = None,
    /,
    *,
    server: str | None = None,
    file: Path | None = None,
    system: Annotated[bool, Flag] = False,
) -> int:
    """Store values for the [secrets] and [registry] of job files. Only their owner can read them; none is ever shown.

    Parameters
    ----------
    action
        set prompts for the value without echo, or reads it from a file or a pipe; list shows names; remove deletes one.
    name
        Name of the secret, as job files write it.
    server
        Store it as a password for this registry only, like ghcr.io; [registry] can name it.
    file
        Read the value from this file.
    system
        Store it for the system's daemon, under /etc/autopilot; needs root, and a line in the service's settings.
    """
    if action == "list":
        for known in secret_files.names():
            print(known)
        for known in secret_files.names(secret_files.REGISTRY_PREFIX):
            print(f"{known} (registry {secret_files.read_registry(known)[0]})")
        return Exit.OK
    if name is None:
        raise UserError(f"which secret? (autopilot secret {action} NAME)")
    place = secret_files.system_place() if system else secret_files.user_place()
    try:
        if action == "remove":
            print(f"removed {secret_files.remove_secret(name, place)}")
            return Exit.OK
        value = _value(name, file)
        if server is not None:
            path = secret_files.store_registry(name, server, value, place)
        else:
            path = secret_files.store_secret(name, value, place)
    except OSError as error:
        hint = "run it with sudo" if isinstance(error, PermissionError) and system else ""
        raise CommandError(Exit.FAILED, f"{error.filename}: {error.strerror}", hint=hint) from None
    print(f"wrote {path}")
    if system:
        print(f"the service needs LoadCredential={path.name}:{path} (systemctl edit autopilot), then a restart")
    return Exit.OK


def _value(name: str, file: Path | None) -> str:
    if file is not None:
        value = file.read_text()
    elif sys.stdin.isatty():
        value = getpass.getpass(f"value of {name} (not shown): ")
    else:
        value = sys.stdin.read()
    if not value.strip():
        raise UserError("the value is empty")
    return value
