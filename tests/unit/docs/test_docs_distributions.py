"""The page about distributions names each extra and each command of the laboratory, as the projects state them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from autopilot.cli import laboratory
from autopilot.cli.main import OF_THE_LABORATORY
from tests.locks import ROOT, RUN, read_pins

PAGE = (ROOT / "docs/reference/distributions.md").read_text()
ROW = re.compile(r"^\| `([\w-]+)` \| (?:`(\w+)`|none) \| .+ \| *(\d*) *\|.*\|$", re.MULTILINE)


def extras(directory: Path) -> set[tuple[str, str]]:
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    return {(project["name"], extra) for extra in ("", *project["optional-dependencies"])}


def test_each_extra_has_a_row() -> None:
    rows = [(found[1], found[2] or "") for found in ROW.finditer(PAGE)]
    assert len(rows) == len(set(rows))
    assert set(rows) == extras(ROOT) | extras(ROOT / "packages/lab")


def test_the_commands_of_the_laboratory_are_named() -> None:
    commands = ", ".join(f"`{command.name}`" for command in OF_THE_LABORATORY)
    assert f"| `{laboratory.DISTRIBUTION}`, in `packages/lab` | {commands} |" in PAGE


def test_the_lock_is_the_lines_none_and_all() -> None:
    counts = {(found[1], found[2]): int(found[3] or 0) for found in ROW.finditer(PAGE)}
    whole = counts["gpu-autopilot", None] + counts["gpu-autopilot", "all"]
    assert f'the line "none" and `all`: {whole} packages' in PAGE
    assert abs(len(read_pins(RUN)) - whole) <= 2, "on another Python or system one or two packages differ"
