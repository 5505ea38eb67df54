"""In a terminal of 60 columns no word of a table is broken and no amount is cut; what has no room is named."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from autopilot.cli.main import run
from autopilot.cli.output import table
from tests.unit.cli.sample_daemon import Daemon

NARROW = 60
COMMANDS = (["ps"], ["show", "bert-qa"], ["spend"], ["budget"], ["reconcile"], ["offers", "--gpu", "RTX 4090:1"])


def words_of(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[0])
def test_no_word_is_broken(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    shown = {}
    for width in (400, NARROW):
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(argv) == 0
        shown[width] = capsys.readouterr().out
    assert max(map(len, shown[NARROW].splitlines())) <= NARROW
    narrow = re.sub(r"\(too narrow for [^)]*\)", "", shown[NARROW])
    assert words_of(narrow) <= words_of(shown[400]), "each word is one of the wide table"


def render(width: int, **options: tuple[str, ...]) -> list[str]:
    rows = [("research", "waits for an offer", "$1.20"), ("bert", "runs", "$0.05")]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table(("NAME", "STATE", "COST"), rows, right=("COST",), **options))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_columns_wrap_first_and_then_leave_in_their_order() -> None:
    assert render(40)[1] == "research waits for an offer $1.20"
    assert render(22)[1:3] == ["research waits  $1.20", "         for an"]
    assert render(15, drop=("STATE", "NAME")) == [
        "NAME      COST",
        "research $1.20",
        "bert     $0.05",
        "(too narrow for",
        "STATE; -o json",
        "has all)",
    ]
    assert render(9, drop=("STATE", "NAME"))[:2] == [" COST", "$1.20"]
