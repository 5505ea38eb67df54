"""Writes docs/reference/licences.md: ``python -m tests.licences``, in the environment that ``make`` installs."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import metadata
from typing import cast

from tests.locks import DEVELOP, ROOT, RUN, read_pins

PAGE = ROOT / "docs/reference/licences.md"

_HEAD = """\
# Licences

autopilot itself is under the Apache License 2.0. This page lists every package that the two lock files install.
It is written by `python -m tests.licences`, from each package's own metadata.

`requirements.lock` runs the program. It leaves out what only the markets' SDKs declare and autopilot never uses;
`requirements-left-out.txt` names each such package and its purpose.

A plain `pip install '.[vast]'` installs all that the SDK declares, among it borb under the AGPL-3.0.
vastai-sdk is a thin wrapper of vastai and states no licence.

Nothing that runs is under the GPL or AGPL. Weak copyleft remains: paramiko (LGPL-2.1), psycopg (LGPL-3.0),
certifi, pathspec and parts of tqdm (MPL-2.0).

Versions are those for Python 3.11 on Linux. Newer Pythons get a newer numpy, and 3.14 has zstd of its own.

| Package | Version | Licence | Used for |
|---|---|---|---|
"""
_CLASSIFIER = "License :: "
_VAGUE = {"OSI Approved"}


def read_licence(package: str) -> str:
    """As the package states it: an expression, else its classifiers, else the first line of its free text."""
    stated = cast("Message", metadata(package))
    expression = stated.get("License-Expression")
    if expression:
        return str(expression)
    classified = [
        str(line).split(" :: ")[-1] for line in stated.get_all("Classifier", []) if str(line).startswith(_CLASSIFIER)
    ]
    named = [name for name in classified if name not in _VAGUE]
    if named:
        return ", ".join(sorted(named))
    free_text = str(stated.get("License") or "").strip().splitlines()
    return free_text[0] if free_text else "none stated"


def write_page() -> str:
    run, develop = read_pins(RUN), read_pins(DEVELOP)
    rows = [
        f"| {name} | {version} | {read_licence(name)} | {'running' if name in run else 'development'} |"
        for name, version in sorted((develop | run).items())
    ]
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(write_page())
