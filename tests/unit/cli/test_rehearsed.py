"""A command that saves and was never rehearsed is named once; what is remembered of that is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.cli import rehearsed

JOB = """run = "python train.py"
[code]
path = "."
[checkpoint]
path = "ckpt"
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    return tmp_path / "state/autopilot/rehearsed"


def test_a_job_that_was_never_rehearsed_is_named_once(tmp_path: Path) -> None:
    (said,) = rehearsed.name_once(JOB, "job.toml", tmp_path)
    assert "autopilot rehearse job.toml" in said
    assert rehearsed.name_once(JOB, "job.toml", tmp_path) == []
    (of_another,) = rehearsed.name_once(JOB.replace("train", "tune"), "autopilot run", tmp_path)
    assert "autopilot rehearse -- COMMAND" in of_another


def test_one_that_was_rehearsed_as_a_command_is_not_named(tmp_path: Path) -> None:
    rehearsed.remember(rehearsed.key_of(tmp_path, "python train.py"))
    assert rehearsed.name_once(JOB, "job.toml", tmp_path) == []


@pytest.mark.parametrize("toml", [JOB.replace('path = "ckpt"', ""), JOB.replace('[code]\npath = "."', ""), "run = "])
def test_nothing_is_said_of_one_that_saves_nothing_or_has_no_code_here(tmp_path: Path, toml: str) -> None:
    assert rehearsed.name_once(toml, "job.toml", tmp_path) == []


def test_the_oldest_are_forgotten(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsed, "MOST", 3)
    for n in range(5):
        rehearsed.remember(f"key-{n}")
    assert state.read_text().split() == ["key-2", "key-3", "key-4"]


def test_where_nothing_can_be_remembered_it_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert rehearsed.name_once(JOB, "job.toml", tmp_path) == rehearsed.name_once(JOB, "job.toml", tmp_path) != []
