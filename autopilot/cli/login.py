"""``autopilot login``: which daemon the commands here speak to, where it is not this machine's."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.status import Status
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import SOCKET_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, DaemonAddress, read_token
from autopilot.config.keys import read_private
from autopilot.config.login import DaemonLogin, check_daemon_url, forget_login, login_path, read_login, store_login
from autopilot.domain.errors import UserError


def login(
    url: str | None = None,
    /,
    *,
    token_file: Path | None = None,
    ca_file: Path | None = None,
    end: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Point these commands at a remote daemon, with a token; without an address, show the current target.

    On a terminal it prompts for the token without echo; otherwise it reads AUTOPILOT_TOKEN or --token-file. It checks
    the token with the daemon at once and stores it so that only you can read it.

    Parameters
    ----------
    url
        Address of the daemon, like https://autopilot.example.org:8482: its http.listen.
    token_file
        Read the token from this file, which only you can read.
    ca_file
        Certificate of the authority that signed the daemon's, or the daemon's own if it is self-signed.
    end
        Delete the login: the commands use the daemon of this machine again.
    """
    if end:
        print("logged out" if forget_login() else "you were not logged in")
        return Exit.OK
    if url is None:
        return _say()
    checked, own = check_daemon_url(url), "" if ca_file is None else str(ca_file.absolute())
    address = DaemonAddress(None, checked, own, _read_token(token_file))
    status = read(Status, JsonClient(address).status())
    path = store_login(DaemonLogin(address.url, address.token, address.ca_file))
    print(f"logged in at {address.url}: autopilot {status.version}, {status.jobs_open} open jobs visible")
    print(f"the token is in {path}; autopilot login --end removes it", file=sys.stderr)
    for name in (URL_VARIABLE, SOCKET_VARIABLE):
        if os.environ.get(name):
            print(f"note: {name} is set, and goes before this login", file=sys.stderr)
    return Exit.OK


def _say() -> int:
    if url := os.environ.get(URL_VARIABLE):
        print(f"{url}, by {URL_VARIABLE}")
        return Exit.OK
    found = read_login()
    if found is None:
        print("the daemon of this machine; autopilot login URL names another")
    else:
        print(f"{found.url}, by {login_path()}")
    return Exit.OK


def _read_token(file: Path | None) -> str:
    """Raises ``UserError``."""
    if file is not None:
        given = read_private(file)
    elif os.environ.get(TOKEN_VARIABLE):
        given = os.environ[TOKEN_VARIABLE]
    elif sys.stdin.isatty():
        given = getpass.getpass("token (autopilot token create prints one): ")
    else:
        raise CommandError(Exit.USAGE, "there is no token", hint=f"set {TOKEN_VARIABLE}, or name --token-file")
    token = read_token(given)
    if not token:
        raise UserError("the token is empty", hint="autopilot token create NAME, where the daemon is, prints one")
    return token
