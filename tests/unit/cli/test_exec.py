"""``autopilot exec``: the command as one line, its output made harmless on a terminal, its exit code ours."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon

ANSWER: dict[str, Any] = {"exit_code": 3, "output": "a\x1b]0;b\x07\x1b[31mred\x1b[0m\n", "is_cut": False}
ENDED = {"ended": "exited"}


def answering(daemon: Daemon, **more: Any) -> None:
    daemon.answers["POST /v1/jobs/bert-qa/exec"] = (200, ANSWER | ENDED | more)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ls -l | wc -l"], "ls -l | wc -l"),
        (["ls", "-l", "my file"], "ls -l 'my file'"),
        (["nvidia-smi", "--query-gpu=name", "--help"], "nvidia-smi --query-gpu=name --help"),
    ],
)
def test_words_are_quoted_and_one_word_is_a_line(daemon: Daemon, words: list[str], line: str) -> None:
    answering(daemon)
    assert run(["exec", "bert-qa", "--", *words]) == 3
    assert daemon.requests[-1][2] == {"command": line, "timeout_s": 60}


def test_a_longer_time_is_asked_for(daemon: Daemon) -> None:
    answering(daemon)
    assert run(["exec", "bert-qa", "--timeout", "10m", "--", "true"]) == 3
    assert daemon.requests[-1][2] == {"command": "true", "timeout_s": 600}


def test_off_a_terminal_the_output_is_as_it_came(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    answering(daemon)
    run(["exec", "bert-qa", "--", "true"])
    assert capsys.readouterr() == (ANSWER["output"], "")


def test_on_a_terminal_it_has_no_control_but_colours(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(daemon)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run(["exec", "bert-qa", "--", "true"])
    assert capsys.readouterr().out == "a\x1b[31mred\x1b[0m\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"is_cut": True}, "1 MB is kept"),
        ({"ended": "timed_out", "exit_code": 124}, "ended after 1 min"),
        ({"ended": "stopped", "exit_code": 137}, "no longer to run the job"),
    ],
)
def test_what_cut_it_short_is_said_beside_it(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], more: dict[str, Any], said: str
) -> None:
    answering(daemon, **more)
    assert run(["exec", "bert-qa", "--", "true"]) == more.get("exit_code", 3)
    assert said in capsys.readouterr().err


def test_without_a_command_it_says_how(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["exec", "bert-qa"]) == 2
    assert "autopilot exec bert-qa -- nvidia-smi" in capsys.readouterr().err
    assert daemon.requests == []


@pytest.mark.parametrize(("status", "code"), [(409, 1), (422, 2), (504, 3)])
def test_errors_of_ours_have_our_codes(daemon: Daemon, status: int, code: int) -> None:
    daemon.answers["POST /v1/jobs/bert-qa/exec"] = (status, {"detail": "no", "hint": ""})
    assert run(["exec", "bert-qa", "--", "true"]) == code
