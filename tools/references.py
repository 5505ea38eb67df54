"""Regenerate the documentation that the code can write: ``python -m tools.references``.

- the tables of arguments in docs/reference/cli.md, of the commands' own docstrings;
- docs/reference/openapi.json, of the models of the API, unless that would break what it promises;
- the claims of docs/providers, of the facts that each market's plug-in states;
- the lines of systemd/autopilot.service that hand over the markets' keys;
- the tables of docs/research/simulator-catalogue.md, but for the planted bugs, which take hours (``--planted all``).

The other pages of docs/reference are written by hand. Their tests say what is missing.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path

from cyclopts import App

from autopilot.api.openapi import openapi
from autopilot.certify.claims import table
from autopilot.cli.main import COMMANDS, app
from autopilot.config import paths
from autopilot.config.keys import KEY_SUFFIX
from autopilot.markets.installed import claims_of, every_market
from tests.simulation.drivers import document
from tools import api_document

ROOT = Path(__file__).parents[1]
CLI = ROOT / "docs/reference/cli.md"
PROVIDERS = ROOT / "docs/providers"
SERVICE = ROOT / "systemd/autopilot.service"
CATALOGUE = ROOT / "docs/research/simulator-catalogue.md"

HEAD = "| Argument | Default | Meaning |\n|---|---|---|\n"
_SECTION = re.compile(r"^### ([\w-]+)\n.*?(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_CLAIMS = re.compile(r"<!-- claims -->\n.*?<!-- /claims -->\n", re.DOTALL)
_KEYS = re.compile(rf"(?:^(?:Load|Set)Credential=\w+{KEY_SUFFIX}:.*\n)+", re.MULTILINE)
_TABLE = re.compile(re.escape(HEAD) + r"(?:^\|.*\n)*", re.MULTILINE)


def arguments(program: App, command: str) -> str:
    """The table of a command's arguments."""
    rows = []
    for argument in program[command].assemble_argument_collection(parse_docstring=True):
        if argument.names == ("*",):  # a record whose fields are arguments of their own
            continue
        default = argument.field_info.default
        is_unset = default is None or default is False or default is inspect.Parameter.empty
        shown = "required" if argument.required else "" if is_unset else f"`{default}`"
        names = ", ".join(f"`{name}`" for name in argument.names)
        rows.append(f"| {names} | {shown} | {argument.parameter.help} |\n")
    return HEAD + "".join(rows)


def with_arguments(page: str, program: App, commands: list[str]) -> str:
    """``page`` with the commands' tables regenerated. Raises ``ValueError`` if a section is missing."""
    sections = {found[1]: found[0] for found in _SECTION.finditer(page)}
    for command in commands:
        if command not in sections:
            raise ValueError(f"docs/reference/cli.md has no section {command}: write it, with the head of its table")
        table = arguments(program, command).replace("\\", r"\\")
        page = page.replace(sections[command], _TABLE.sub(table, sections[command]))
    return page


def with_claims(page: str, market: str) -> str:
    """``page`` with the market's claims regenerated. Raises ``ValueError`` if their place is missing."""
    if not _CLAIMS.search(page):
        raise ValueError(f"docs/providers/{market}.md has no place for its claims: <!-- claims --> … <!-- /claims -->")
    return _CLAIMS.sub(lambda _: f"<!-- claims -->\n{table(claims_of(market))}<!-- /claims -->\n", page)


def with_keys(unit: str) -> str:
    """``unit`` with the lines that hand over the markets' keys regenerated."""
    names = [f"{market}{KEY_SUFFIX}" for market, facts in every_market().items() if facts.key_option]
    place = paths.credential_dirs({"HOME": "/nonexistent"})[0]
    lines = [f"LoadCredential={name}:{place / name}\nSetCredential={name}:\\n\n" for name in names]
    return _KEYS.sub(lambda _: "".join(lines), unit, count=1)


def main() -> int:
    SERVICE.write_text(with_keys(SERVICE.read_text()))
    for market in every_market():
        path = PROVIDERS / f"{market}.md"
        path.write_text(with_claims(path.read_text(), market))
    CLI.write_text(with_arguments(CLI.read_text(), app(), [command.name for command in COMMANDS]))
    document.write(CATALOGUE)
    return _write_api_document()


def _write_api_document() -> int:
    """Leaves it as it is, and says so, where a client of it would break."""
    made = openapi()
    breaks = api_document.find_breaks(json.loads(api_document.PAGE.read_text()), made)
    if breaks:
        print("\n".join(("the API breaks what docs/reference/openapi.json promises:", *breaks)), file=sys.stderr)
        return 1
    api_document.PAGE.write_text(api_document.as_text(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
