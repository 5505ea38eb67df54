"""The user's own defaults for jobs, read by the command line and never by a daemon: ``client.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autopilot.config import paths
from autopilot.config.toml_document import nearest
from autopilot.domain.errors import UserError

NAME = "client.toml"
KEYS = {"defaults": ("image", "gpu", "budget"), "ssh": ("key",)}


@dataclass(frozen=True, slots=True)
class ClientDefaults:
    """Empty: not set."""

    image: str = ""
    gpu: str = ""
    budget: str = ""
    ssh_key: Path | None = None
    """File of a public key."""


def read_client_file(path: Path | None = None) -> ClientDefaults:
    """Raises ``UserError``."""
    file = path or paths.user_config_dir() / NAME
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ClientDefaults()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: {error}", hint="the file is not valid TOML") from None
    _refuse_unknown(file, values)
    defaults, ssh = values.get("defaults", {}), values.get("ssh", {})
    key = ssh.get("key", "")
    return ClientDefaults(
        defaults.get("image", ""),
        defaults.get("gpu", ""),
        defaults.get("budget", ""),
        Path(key).expanduser() if key else None,
    )


def _refuse_unknown(file: Path, values: dict[str, Any]) -> None:
    for section, table in values.items():
        if section not in KEYS or not isinstance(table, dict):
            raise UserError(f"{file}: unknown section [{section}]", hint=nearest(section, KEYS))
        for key, value in table.items():
            if key not in KEYS[section]:
                raise UserError(f"{file}: unknown key {key!r} in [{section}]", hint=nearest(key, KEYS[section]))
            if not isinstance(value, str):
                raise UserError(f"{file}: {section}.{key} must be a text in quotes")
