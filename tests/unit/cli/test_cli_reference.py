"""docs/reference/cli.md is held to the code: commands, arguments, defaults, their explanation, exit codes."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
from cyclopts import App

from autopilot.cli.exits import Exit
from autopilot.cli.main import COMMANDS, app, overview, run

REFERENCE = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text()
SECTIONS = dict(re.findall(r"^### ([\w-]+)\n(.*?)(?=^### |\Z)", REFERENCE, re.MULTILINE | re.DOTALL))
NAMES = [command.name for command in COMMANDS]


@pytest.fixture(scope="module")
def program() -> App:
    return app()


def test_every_command_is_documented_in_the_order_of_the_help() -> None:
    assert list(SECTIONS) == NAMES
    assert re.findall(r"^  ([\w-]+)  ", overview(), re.MULTILINE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_arguments_defaults_and_explanations(program: App, name: str) -> None:
    expected = []
    for argument in program[name].assemble_argument_collection(parse_docstring=True):
        if argument.names == ("*",):  # a record whose fields are arguments of their own
            continue
        default = argument.field_info.default
        is_unset = default is None or default is False or default is inspect.Parameter.empty
        shown = "" if is_unset else f"`{default}`"
        names = ", ".join(f"`{name}`" for name in argument.names)
        expected.append((names, "required" if argument.required else shown, argument.parameter.help))
    documented = re.findall(r"^\| (`.+`) \| (.*?) ?\| (.+) \|$", SECTIONS[name], re.MULTILINE)
    assert documented == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_command_s_own_words_are_there(name: str) -> None:
    target = next(command.target for command in COMMANDS if command.name == name)
    module, _, function = target.partition(":")
    words = inspect.getdoc(getattr(importlib.import_module(module), function)) or ""
    assert words.split("\nParameters\n")[0].strip() in SECTIONS[name]


@pytest.mark.parametrize("name", NAMES)
def test_help_of_each_command_works(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: autopilot {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_help_is_as_wide_as_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {}
    for width in (80, 5000):
        monkeypatch.setenv("COLUMNS", str(width))
        assert run([name, "--help"]) == 0
        shown[width] = capsys.readouterr().out
    assert max(map(len, shown[80].splitlines())) <= 80
    assert shown[80].split() == shown[5000].split()
    paragraphs = re.split(r"^(?:Arguments|Parameters|Commands):$", shown[5000], maxsplit=1, flags=re.MULTILINE)[0]
    assert not [each for each in paragraphs.strip().split("\n\n") if "\n" in each]


def test_exit_codes() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \| ", REFERENCE, re.MULTILINE)}
    assert documented == {*map(int, Exit), 130}
