"""The laboratory is another distribution: what its commands say where it is missing or of another version."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from autopilot import __version__
from autopilot.cli import laboratory
from autopilot.cli.exits import Exit
from autopilot.cli.main import OF_THE_LABORATORY, app, overview, run

NAMES = [command.name for command in OF_THE_LABORATORY]
HINT = "hint: make wheels in the checkout, then there: pip install --no-index --find-links dist gpu-autopilot-lab"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product without the laboratory."""
    monkeypatch.setitem(sys.modules, laboratory.PACKAGE, None)  # marks a package as not installed


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("words", [(), ("--help",)])
def test_a_command_names_the_distribution_that_is_missing(
    name: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, *words]) == Exit.USAGE
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f"error: `autopilot {name}` is a command of the laboratory, gpu-autopilot-lab, which is not installed",
        HINT,
    ]
    assert said.out == ""


@pytest.mark.usefixtures("alone")
def test_the_overview_says_so_and_the_shell_completes_what_is_installed() -> None:
    assert "Laboratory (not installed):" in overview()
    script = app().generate_completion(shell="bash")
    assert "reconcile" in script
    assert [name for name in NAMES if f"'{name}'" in script or f" {name} " in script] == []


def test_where_it_is_installed_the_shell_completes_its_commands() -> None:
    assert "Laboratory:" in overview()
    script = app().generate_completion(shell="bash")
    assert [name for name in NAMES if name not in script] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_laboratory_of_another_version_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.0.9")
    assert run([name]) == Exit.USAGE
    assert capsys.readouterr().err.splitlines() == [
        f"error: the laboratory, gpu-autopilot-lab, is of version 0.0.9, and this program of version {__version__}",
        HINT,
    ]
