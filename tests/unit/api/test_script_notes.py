"""A command whose program nothing brings to the machine: said in the plan, with the way to bring it."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.api.submissions import _script_notes
from autopilot.domain.code import CodeSpec
from tests.builders import a_spec


@pytest.mark.parametrize(
    ("run", "scripts"),
    [
        ("python train.py --lr 3e-4", ["train.py"]),
        ("cd x && python3 src/train.py; bash run.sh", ["src/train.py", "run.sh"]),
        ("torchrun train.py", ["train.py"]),
        ("python /opt/train.py", []),
        ('python3 "$AUTOPILOT_ROOT/opt/train.py"', []),
        ("python -m train", []),
    ],
)
def test_a_script_that_nothing_brings_is_named(run: str, scripts: list[str]) -> None:
    notes = _script_notes(a_spec(run=run))
    assert [note.split()[6] for note in notes] == scripts
    assert all('[code] path = "." sends your directory along' in note for note in notes)


@pytest.mark.parametrize(
    "brings", [{"code": CodeSpec()}, {"setup": "git clone x"}, {"inputs": (("train.py", "https://h/train.py"),)}]
)
def test_what_the_job_file_brings_is_not_doubted(brings: dict[str, Any]) -> None:
    assert _script_notes(a_spec(run="python train.py", **brings)) == []
