"""Where ``autopilot login`` keeps a daemon elsewhere: its address, and the token for it. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from autopilot.config import paths
from autopilot.config.hosts import is_loopback
from autopilot.config.keys import read_private, store_private
from autopilot.domain.errors import UserError

NAME = "login.json"


@dataclass(frozen=True, slots=True)
class DaemonLogin:
    url: str
    token: str
    ca_file: str = ""
    """Certificate of the authority that signed the daemon's; empty: those that this machine trusts."""


def login_path(environ: Mapping[str, str] = os.environ) -> Path:
    return paths.user_config_dir(environ) / NAME


def read_login(environ: Mapping[str, str] = os.environ) -> DaemonLogin | None:
    """None if there is no login. Raises ``UserError`` for a file that others can read or that is none."""
    path = login_path(environ)
    if not path.is_file():
        return None
    try:
        match json.loads(read_private(path)):
            case {"url": str(url), "token": str(token), "ca_file": str(ca_file)}:
                return DaemonLogin(check_daemon_url(url), token, ca_file)
    except ValueError:
        pass
    raise UserError(f"{path} does not contain a login", hint="autopilot login --end removes it; then log in again")


def store_login(login: DaemonLogin) -> Path:
    """Returns the file. Raises ``OSError``."""
    kept = {"url": login.url, "token": login.token, "ca_file": login.ca_file}
    path = login_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    return store_private(path.parent, NAME, json.dumps(kept))


def forget_login() -> bool:
    """Whether there was one. Raises ``OSError``."""
    path = login_path()
    was_there = path.exists()
    path.unlink(missing_ok=True)
    return was_there


def check_daemon_url(url: str) -> str:
    """The daemon's address without what follows host and port. Raises ``UserError``."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query or parts.username:
        hint = "write it like https://autopilot.example.org:8482"
        raise UserError(f"not the address of a daemon: {url!r}", hint=hint)
    if parts.scheme == "http" and not is_loopback(host):
        raise UserError(f"{url} has no TLS: the token could be read on the way", hint="write it with https://")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")
