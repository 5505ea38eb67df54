"""Where configuration, state, keys and the control socket lie. Standard library only: every CLI command imports it.

The service manager's directories (``CONFIGURATION_DIRECTORY``, ``STATE_DIRECTORY``, ``RUNTIME_DIRECTORY``) come
first, then the XDG base directories, then their usual places under the home directory.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from autopilot.domain.errors import UserError

CONFIG_NAME = "autopilot.toml"
SOCKET_NAME = "autopilot.sock"
SYSTEM_SOCKET = Path("/run/autopilot") / SOCKET_NAME
SYSTEM_STATE_DIR = Path("/var/lib/autopilot")


def system_config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    return _read_given(environ, "CONFIGURATION_DIRECTORY") or Path("/etc/autopilot")


def user_config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    return (_read_given(environ, "XDG_CONFIG_HOME") or _home(environ) / ".config") / "autopilot"


def credential_dirs(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where ``autopilot init`` stores keys; a later one wins."""
    return [system_config_dir(environ) / "credentials", user_config_dir(environ) / "credentials"]


def config_files(explicit: Path | None = None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The configuration files that exist; a later one wins.

    ``explicit`` (``--config``) takes the place of ``$AUTOPILOT_CONFIG``. Raises ``UserError`` when the file
    named by either does not exist: a cap that is silently not read would cost money.
    """
    found = [
        path
        for path in (system_config_dir(environ) / CONFIG_NAME, user_config_dir(environ) / CONFIG_NAME)
        if _may_exist(path)
    ]
    named = explicit or _read_given(environ, "AUTOPILOT_CONFIG")
    if named is not None:
        if not os.path.isfile(named):
            raise UserError(f"no such configuration file: {named}", hint="see --config and AUTOPILOT_CONFIG")
        found.append(named)
    return found


def default_state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    if given := _read_given(environ, "STATE_DIRECTORY"):
        return given
    return (_read_given(environ, "XDG_STATE_HOME") or _home(environ) / ".local" / "state") / "autopilot"


def system_state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the system's daemon keeps its state, as far as its configuration can be read from here."""
    try:
        values = tomllib.loads((system_config_dir(environ) / CONFIG_NAME).read_text())
    except (OSError, ValueError, RecursionError):
        values = {}
    return _path(values.get("state_dir")) or SYSTEM_STATE_DIR


def default_socket(state_dir: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the daemon listens unless it is told otherwise."""
    if given := _read_given(environ, "RUNTIME_DIRECTORY"):
        return given / SOCKET_NAME
    if given := _read_given(environ, "XDG_RUNTIME_DIR"):
        return given / "autopilot" / SOCKET_NAME
    return state_dir / "run" / SOCKET_NAME


def client_socket(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a client finds the daemon: the configured socket, else the user's own daemon, else the system's.

    Raises ``UserError`` when a configuration file is not TOML.
    """
    if given := _read_given(environ, "AUTOPILOT_API__SOCKET"):
        return given
    socket, state_dir = _read_configured(environ)
    if socket is not None:
        return socket
    own = default_socket(
        _read_given(environ, "AUTOPILOT_STATE_DIR") or state_dir or default_state_dir(environ), environ
    )
    return SYSTEM_SOCKET if _may_exist(SYSTEM_SOCKET) and not os.path.exists(own) else own


def _may_exist(path: Path) -> bool:
    """True also if we may not look: opening it raises an error then, and nothing is silently left out."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def packaged_config() -> Path:
    """The commented ``autopilot.toml`` that ships with the program: in the wheel's data, or in the checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_data" / "config" / CONFIG_NAME
    return shipped if shipped.is_file() else package.parent / "config" / CONFIG_NAME


def _read_configured(environ: Mapping[str, str]) -> tuple[Path | None, Path | None]:
    socket = state_dir = None
    for path in config_files(environ=environ):
        if not os.access(path, os.R_OK):
            continue  # the daemon's file, not ours to read; its socket is found at the usual place
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read the configuration file {path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: {error}", hint="the file is not valid TOML") from None
        api = values.get("api")
        socket = _path(api.get("socket") if isinstance(api, dict) else None) or socket
        state_dir = _path(values.get("state_dir")) or state_dir
    return socket, state_dir


def _path(value: object) -> Path | None:
    return Path(value).expanduser() if isinstance(value, str) and value else None


def _read_given(environ: Mapping[str, str], name: str) -> Path | None:
    """The service manager may name several directories, joined by colons; the first is the main one."""
    value = environ.get(name, "")
    return _path(value.split(":", 1)[0] if name.endswith("_DIRECTORY") else value)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))
