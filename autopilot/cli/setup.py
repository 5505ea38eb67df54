"""``autopilot init``: the commented configuration file, the API keys, and a place to meet, each in its place."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from autopilot.cli import meeting_place
from autopilot.cli.exits import CommandError, Exit
from autopilot.config import paths
from autopilot.config.edit import set_values
from autopilot.config.keys import BUCKET_KEY, KEY_SUFFIX, read_key, read_private, secrets_in, store_key, store_private
from autopilot.domain import money
from autopilot.domain.errors import UserError
from autopilot.markets.facts import MarketFacts
from autopilot.markets.installed import every_market

Flag = Parameter(negative="")

MARKETS = {name: facts for name, facts in every_market().items() if facts.key_option}
"""Those that need a key."""


def _name_field(facts: MarketFacts) -> str:
    return facts.key_option.removeprefix("--").replace("-", "_")


def _make_option(facts: MarketFacts) -> Any:
    told = facts.key_help or f"The same for {facts.display_name}."
    return Annotated[Path | None, Parameter(name=facts.key_option, help=told)]


if TYPE_CHECKING:
    KeyFiles = object
else:
    _fields = [(_name_field(facts), _make_option(facts), None) for facts in MARKETS.values()]
    # With the module of the library that makes the class, the options would not be seen.
    KeyFiles = Parameter(name="*")(make_dataclass("KeyFiles", _fields, namespace={"__module__": __name__}, frozen=True))
"""An option for each market that needs a key; made here, as what is installed decides which there are."""
NO_FILES = KeyFiles()


def init(
    *,
    system: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    key_files: KeyFiles = NO_FILES,
    day: str | None = None,
    month: str | None = None,
    bucket: str | None = None,
    bucket_key_file: Path | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    public_url: str | None = None,
    listen: str = meeting_place.LISTEN,
) -> int:
    """Set up autopilot on this machine: settings, API keys, limits and storage.

    Existing files are kept. On a terminal it asks for what is missing and tests the bucket at once. Keys are typed
    without echo and stored so that only their owner can read them.

    Parameters
    ----------
    system
        Set up the system's daemon, under /etc/autopilot; needs root.
    force
        Replace the given key; with none given, the settings (saved as autopilot.toml.bak) and the keys you type.
    key_files
    day
        Maximum spend in a day, like 20.
    month
        Maximum spend in a calendar month.
    bucket
        Storage that machines and the daemon share, like s3://my-bucket/autopilot, gs://… or az://….
    bucket_key_file
        Read the bucket's key from this file.
    endpoint
        Address of the bucket's service; AWS, Google or Azure if omitted.
    region
        The bucket's region.
    public_url
        Instead of a bucket: an https address that leads to this machine's storage.
    listen
        With --public-url: where the storage listens for what comes to that address.
    """
    wish = {
        **{("limits", "day"): day, ("limits", "month"): month, ("blobs", "url"): bucket},
        **{("blobs", "endpoint"): endpoint, ("blobs", "region"): region, ("blobs", "public_url"): public_url},
    }
    values: meeting_place.Values = {
        place: _check_amount(place, value) for place, value in wish.items() if value is not None
    }
    if public_url is not None:
        values["blobs", "listen"] = listen
    bucket_key = None if bucket_key_file is None else read_private(bucket_key_file)
    files = {market: getattr(key_files, _name_field(facts)) for market, facts in MARKETS.items()}
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
        credentials = directory / "credentials"
        for market in given or MARKETS:
            _store_key(credentials, market, given.get(market), force)
        is_asked = sys.stdin.isatty() and not given and not values
        if is_asked and is_written:
            values, bucket_key = meeting_place.ask()
        _set_values(directory / paths.CONFIG_NAME, values)
        if bucket_key is not None:
            print(f"wrote {store_private(credentials, BUCKET_KEY, bucket_key)}")
        if is_asked:
            return _check()
    except OSError as error:
        hint = "run it with sudo" if isinstance(error, PermissionError) and system else ""
        raise CommandError(Exit.FAILED, f"cannot write {error.filename}: {error.strerror}", hint=hint) from None
    return Exit.OK


def _write_config(directory: Path, *, replace: bool) -> bool:
    """Whether it was written: what already exists is kept unless it is to be replaced."""
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


def _check_amount(place: tuple[str, str], value: str) -> str:
    """Raises ``UserError`` for an amount that is none; the rest is checked with all settings."""
    return f"${money.usd(value)}" if place[0] == "limits" else value


def _set_values(path: Path, values: Mapping[tuple[str, str], str | bool]) -> None:
    if not values:
        return
    text, kept = set_values(path.read_text(), values)
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text)
    shutil.copymode(path, unfinished)
    os.replace(unfinished, path)
    for section, key in values:
        is_kept = f"{section}.{key}" in kept
        print(f"kept {section}.{key}, which {path.name} sets already" if is_kept else f"set {section}.{key} in {path}")


def _check() -> int:
    """All that ``autopilot doctor`` looks at, so that what is wrong is seen while it is fresh in mind."""
    from autopilot.cli.service import doctor

    print("\nautopilot doctor reports:")
    code = doctor()
    way_on = "autopilot run --gpu 4090 --budget 2 -- python train.py"
    print(f"\nnext, in your project: {way_on}" if code == Exit.OK else "\nfix what fails, then run: autopilot doctor")
    return Exit.OK


def _store_key(directory: Path, market: str, key: str | None, force: bool) -> None:
    path = directory / f"{market}{KEY_SUFFIX}"
    if path.exists() and not force:
        print(f"kept {path}")
        return
    if key is None:
        key = _ask(MARKETS[market].display_name)
    if key is None and path.exists():
        print(f"kept {path}")
        return
    if key is None:
        facts = MARKETS[market]
        print(f"no {facts.display_name} key stored; later: autopilot init {facts.key_option} FILE")
        return
    print(f"wrote {store_key(directory, market, key)}")


def _ask(title: str) -> str | None:
    if not sys.stdin.isatty():
        return None
    key = getpass.getpass(f"{title} API key (not shown; Enter to skip): ").strip()
    if any(character.isspace() for character in key) and not (key.startswith("{") and secrets_in(key)):
        raise UserError("a key has no spaces", hint="paste the key and nothing else")
    return key or None
