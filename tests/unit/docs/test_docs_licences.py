"""docs/reference/licences.md is as ``python -m tests.licences`` writes it; nothing that runs is under GPL or AGPL."""

from __future__ import annotations

import re

from tests.licences import PAGE, read_licence, write_page
from tests.locks import DEVELOP, RUN, read_pins

_VERSION = re.compile(r"^(\| [a-z0-9-]+ \|) ([^|]+) \|", re.MULTILINE)


_ROW = re.compile(r"^\| ([a-z0-9-]+) \| .*\n", re.MULTILINE)
HERE = read_pins(RUN) | read_pins(DEVELOP)
"""What is installed on this Python: the page is that of 3.11, and newer ones have a little less."""


def without_versions(page: str) -> str:
    return _VERSION.sub(r"\1", _ROW.sub(lambda row: row[0] if row[1] in HERE else "", page))


def test_the_page_names_every_package_and_its_licence() -> None:
    """Versions differ between Pythons: those are held to the locks."""
    assert without_versions(PAGE.read_text()) == without_versions(write_page())


def test_each_version_is_locked() -> None:
    locks = RUN.read_text() + DEVELOP.read_text()
    stated = [f"{name.strip('| ')}=={version}" for name, version in _VERSION.findall(PAGE.read_text())]
    assert [pin for pin in stated if not re.search(rf"^{re.escape(pin)}[ \\]", locks, re.MULTILINE)] == []
    assert {pin.partition("==")[0] for pin in stated} >= HERE.keys()


def test_nothing_that_runs_is_under_a_strong_copyleft() -> None:
    strong = re.compile(r"(?<![L])GPL|Affero")
    assert [name for name in read_pins(RUN) if strong.search(read_licence(name))] == []
