from __future__ import annotations

import pytest

from autopilot.cli.main import COMMANDS, app
from tools.references import CLI, HEAD, with_arguments

NAMES = [command.name for command in COMMANDS]


def test_a_stale_table_is_rewritten() -> None:
    page = CLI.read_text()
    stale = page.replace(HEAD, HEAD + "| `--gone` |  | An argument of an older version. |\n")
    assert stale != page
    assert with_arguments(stale, app(), NAMES) == page


def test_a_command_without_a_section_is_an_error() -> None:
    with pytest.raises(ValueError, match="no section serve"):
        with_arguments("# The command line\n", app(), ["serve"])
