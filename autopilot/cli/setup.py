"""``autopilot init``: the commented configuration file and the API keys, each in its place."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.cli.exits import CommandError, Exit
from autopilot.config import paths
from autopilot.config.keys import KEY_SUFFIX, read_key, store_key
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")

MARKETS = {"vastai": "vast.ai", "runpod": "RunPod"}
"""Name → title."""


def init(
    *,
    system: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    vast_key_file: Path | None = None,
    runpod_key_file: Path | None = None,
) -> int:
    """Write a configuration file that explains itself, and store API keys.

    What exists already is kept. Keys are asked for without echo and stored readable by their owner alone.

    Parameters
    ----------
    system
        For the system's daemon, under /etc/autopilot; needs root.
    force
        Replace the key that is given; with none given, the settings (saved as autopilot.toml.bak) and keys typed in.
    vast_key_file
        Take the vast.ai key from this file and ask nothing.
    runpod_key_file
        The same for RunPod.
    """
    files = {"vastai": vast_key_file, "runpod": runpod_key_file}
    given = {market: read_key(path) for market, path in files.items() if path is not None}
    directory = paths.system_config_dir() if system else paths.user_config_dir()
    try:
        is_new = not directory.exists()
        is_written = _write_config(directory, replace=force and not given)
        # The system's daemon is another user: a strict umask must not hide the limits from it.
        if system and is_new:
            directory.chmod(0o755)
        if system and is_written:
            (directory / paths.CONFIG_NAME).chmod(0o644)
        for market in given or MARKETS:
            _store_key(directory / "credentials", market, given.get(market), force)
    except OSError as error:
        hint = "run it with sudo" if isinstance(error, PermissionError) and system else ""
        raise CommandError(Exit.FAILED, f"cannot write {error.filename}: {error.strerror}", hint=hint) from None
    return Exit.OK


def _write_config(directory: Path, *, replace: bool) -> bool:
    """Whether it was written: what is there already is kept unless it is to be replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / paths.CONFIG_NAME
    if path.exists():
        if not replace:
            print(f"kept {path}")
            return False
        former = path.with_name(path.name + ".bak")
        shutil.copy2(path, former)  # a copy: a daemon that starts now must not find no limits at all
        print(f"saved the former {path.name} as {former}")
    # Written beside and moved into place: a daemon that starts now reads the old file or the new one, never half.
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(paths.packaged_config().read_text())
    os.replace(unfinished, path)
    print(f"wrote {path}")
    return True


def _store_key(directory: Path, market: str, key: str | None, force: bool) -> None:
    path = directory / f"{market}{KEY_SUFFIX}"
    if path.exists() and not force:
        print(f"kept {path}")
        return
    if key is None:
        key = _ask(MARKETS[market])
    if key is None and path.exists():
        print(f"kept {path}")
        return
    if key is None:
        print(f"no {MARKETS[market]} key stored; later: autopilot init, with --vast-key-file or --runpod-key-file FILE")
        return
    print(f"wrote {store_key(directory, market, key)}")


def _ask(title: str) -> str | None:
    if not sys.stdin.isatty():
        return None
    key = getpass.getpass(f"{title} API key (not shown; Enter to skip): ").strip()
    if any(character.isspace() for character in key):
        raise UserError("a key holds no spaces", hint="paste the key and nothing else")
    return key or None
