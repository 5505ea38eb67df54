"""Where settings come from, weakest first: stored keys, TOML files, the service manager's credentials, environment.

Each source keeps its name, so that an error says which file and line, or which variable, to mend.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from autopilot.config import paths
from autopilot.config.keys import bucket_key_file, key_files
from autopilot.config.toml_document import KeyPath, TomlDocument, nearest, read_toml
from autopilot.domain.errors import UserError

ENV_PREFIX = "AUTOPILOT_"
ENV_DELIMITER = "__"


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    values: dict[str, Any]
    document: TomlDocument | None = None
    is_environment: bool = False

    def has(self, path: KeyPath) -> bool:
        at: object = self.values
        for part in path:
            if not isinstance(at, Mapping) or part not in at:
                return False
            at = at[part]
        return True

    def place(self, path: KeyPath) -> str:
        if self.is_environment:
            return ENV_PREFIX + ENV_DELIMITER.join(path).upper()
        return self.document.place(path) if self.document else self.name


def read_sources(settings_class: type[BaseSettings], explicit: Path | None) -> list[Source]:
    """Every source that says something, weakest first. Raises ``UserError``."""
    sources = [_stored_keys(directory) for directory in paths.credential_dirs()]
    sources += [_toml_file(path) for path in paths.config_files(explicit)]
    if credentials := os.environ.get("CREDENTIALS_DIRECTORY"):
        sources.append(_stored_keys(Path(credentials)))
    sources.append(_environment(settings_class))
    return sources


def _stored_keys(directory: Path) -> Source:
    found = {name: {"api_key_file": str(path)} for name, path in key_files(directory).items()}
    values: dict[str, Any] = {"providers": found} if found else {}
    if bucket_key := bucket_key_file(directory):
        values["blobs"] = {"key_file": str(bucket_key)}
    return Source(str(directory), values)


def _toml_file(path: Path) -> Source:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        hint = "correct its mode, or set HOME or XDG_CONFIG_HOME"
        raise UserError(f"cannot read the configuration file {path}: {reason}", hint=hint) from None
    document = read_toml(text, str(path))
    return Source(str(path), document.values, document)


def _environment(settings_class: type[BaseSettings]) -> Source:
    _refuse_unknown_variables(settings_class.model_fields)
    try:
        values = EnvSettingsSource(
            settings_class, env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_DELIMITER, case_sensitive=False
        )()
    except SettingsError as error:
        raise UserError(f"environment: {error}") from None
    # The short form is also what the program hands to processes that live on its scaled clock.
    if speed := os.environ.get("AUTOPILOT_CLOCK_SPEED"):
        values["clock"] = {"speed": speed} | values.get("clock", {})
    return Source("environment", values, is_environment=True)


def _refuse_unknown_variables(sections: Collection[str]) -> None:
    """A mistyped AUTOPILOT_LIMITS_DAY must not be ignored; variables that are no setting's (AUTOPILOT_ROOT) may be."""
    for name in os.environ:
        words = name.upper().removeprefix(ENV_PREFIX).lower()
        if not name.upper().startswith(ENV_PREFIX) or words in sections or words == "clock_speed":
            continue
        if ENV_DELIMITER in words:
            section = words.split(ENV_DELIMITER)[0]
            if section not in sections:
                raise UserError(f"{name}: unknown section {section!r}", hint=nearest(section, sections))
        elif section := next((s for s in sections if words.startswith(s + "_")), ""):
            meant = f"{ENV_PREFIX}{section}{ENV_DELIMITER}{words.removeprefix(section + '_')}".upper()
            raise UserError(f"{name} is not a setting", hint=f"two underscores separate section and key: {meant}")
