"""Which values are masked in a job's output: read each time, as they may be replaced while the daemon runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from autopilot.config.keys import secrets_in
from autopilot.config.secret_files import read_secret, registry_password
from autopilot.config.settings import Settings
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec


def read_output_secrets(settings: Settings, spec: JobSpec) -> tuple[list[str], list[str]]:
    """The job's own secrets; the markets' keys and its registry login, which its command has not.

    What cannot be read is left out: there is nothing to compare with.
    """
    own = [value for _, name in spec.secrets for value in _try_to_read(partial(read_secret, name))]
    keys = [key for name in settings.markets for key in _try_to_read(partial(read_market_key, settings, name))]
    others = [part for key in keys for part in secrets_in(key) or (key,)]
    if (login := spec.registry) is not None:
        others += _try_to_read(partial(registry_password, login.secret, login.server))
    return own, others


def read_market_key(settings: Settings, name: str) -> str:
    """Empty if none is stored. Raises ``UserError``."""
    key = settings.key_for(name)
    return "" if key is None else key.get_secret_value()


def _try_to_read(read: Callable[[], str]) -> list[str]:
    try:
        return [read()]
    except (UserError, ValueError):
        return []
