"""A file that changes while its code is sent: its sender notices, with either transport."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopilot.cli.exit_codes import exit_code_of
from autopilot.cli.exits import Exit
from autopilot.client.errors import CodeChanged
from autopilot.client.sent_part import SentPart
from autopilot.code.bundle import bundle

JOB = 'name = "x"\nimage = "i"\nrun = "r"\n[resources]\ngpu = "RTX 4090"\n[code]\n'


def a_part(directory: Path) -> SentPart:
    (directory / "train.py").write_text("print(1)\n")
    return SentPart(bundle(JOB, "job.toml", directory, datetime(2026, 1, 1, tzinfo=UTC)).packed, 1)


def send(part: SentPart) -> int:
    """Returns how many bytes came before the end, or before what cannot be read."""
    sent = 0
    with contextlib.suppress(OSError):
        while block := part.read(4):
            sent += len(block)
    return sent


@pytest.mark.parametrize("text", ["", "print(2)\n", "print(1)"])
def test_other_content_and_less_of_it_are_a_change(tmp_path: Path, text: str) -> None:
    part = a_part(tmp_path)
    (tmp_path / "train.py").write_text(text)
    send(part)
    with pytest.raises(CodeChanged, match="changed while it was sent") as problem:
        part.refuse_change()
    assert exit_code_of(problem.value) is Exit.FAILED


def test_a_file_that_is_gone_is_a_change(tmp_path: Path) -> None:
    part = a_part(tmp_path)
    (tmp_path / "train.py").unlink()
    assert send(part) == 0
    with pytest.raises(CodeChanged):
        part.refuse_change()


def test_what_was_sent_as_it_was_or_not_to_its_end_is_none(tmp_path: Path) -> None:
    part = a_part(tmp_path)
    part.read(4)
    part.refuse_change()
    assert 4 + send(part) == part.size
    part.refuse_change()
