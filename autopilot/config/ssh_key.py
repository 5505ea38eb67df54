"""The public key of ``[ssh]``: the job file names a file of the user's, and the job takes its text along."""

from __future__ import annotations

import json
import re
from pathlib import Path

from autopilot.config import values
from autopilot.config.toml_document import read_toml
from autopilot.domain.errors import UserError

LARGEST_FILE = 16_384
_LINE = re.compile(r"""(\s*(?:ssh\s*\.\s*)?key\s*=\s*)(?:"[^"\n]*"|'[^'\n]*')""")


def with_key(toml: str, source: str, beside: Path, default: Path | None) -> str:
    """The job file with the key's text in place of its path; with that of ``default`` where it has no ``[ssh]``.

    ``beside``: the directory that the path is relative to. A file that is no TOML, or whose key is no text, comes back
    as it is: the daemon says what is wrong with it. Raises ``UserError``.
    """
    try:
        document = read_toml(toml, source)
    except UserError:
        return toml
    section = document.values.get("ssh")
    if section is None:
        return toml if default is None else f"{toml.rstrip()}\n\n[ssh]\nkey = {_quote(read_public_key(default))}\n"
    path = section.get("key") if isinstance(section, dict) else None
    if not isinstance(path, str) or not path.strip() or " " in path.strip():
        return toml
    lines, number = toml.split("\n"), document.lines.get(("ssh", "key"))
    line = _LINE.match(lines[number - 1]) if number else None
    if number is None or line is None:
        raise UserError(f'{document.place(("ssh",))}: ssh.key must be on a line of its own, as key = "FILE"')
    text = _quote(read_public_key(beside / Path(path.strip()).expanduser()))
    lines[number - 1] = line[1] + text + lines[number - 1][line.end() :]
    return "\n".join(lines)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def read_public_key(path: Path) -> str:
    """The text of the key in ``path``. Raises ``UserError``."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE).decode("ascii", "replace").strip()
    except OSError as error:
        hint = "ssh-keygen -t ed25519 makes one"
        raise UserError(f"cannot read the public key {path}: {error.strerror}", hint=hint) from None
    if text.startswith("-----BEGIN"):
        raise UserError(f"{path} is a private key, which autopilot never sends", hint=f"use the public key: {path}.pub")
    try:
        return values.public_key(text)
    except ValueError as problem:
        raise UserError(f"{path}: {problem}", hint="a file like ~/.ssh/id_ed25519.pub") from None
