"""How ``show`` names the code of a job, and which paths a pack leaves to the machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from autopilot.answers.jobs import TakenCode
from autopilot.cli.views import _code
from autopilot.code.bundle import _apart
from autopilot.config.job_file import parse_job

CODE = TakenCode(sha256="ab" * 32, files=1204, size_bytes=3_400_000, commit=None, is_dirty=False)
JOB = """name = "x"
image = "i"
run = "r"
workdir = "/workspace/src"
[resources]
gpu = "RTX 4090"
[inputs]
"data/a.bin" = "https://h/a.bin"
[code]
[checkpoint]
path = "%s"
"""


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({}, ", 1,204 files, 3.4 MB"),
        ({"commit": "cd" * 20}, ", 1,204 files, 3.4 MB, commit cdcdcdcdcdcd"),
        ({"commit": "cd" * 20, "is_dirty": True}, ", 1,204 files, 3.4 MB, commit cdcdcdcdcdcd with changes"),
    ],
)
def test_hash_files_size_commit_and_changes_are_shown(changes: dict[str, Any], end: str) -> None:
    assert _code(replace(CODE, **changes)) == "ab" * 32 + end


@pytest.mark.parametrize(
    ("path", "apart"),
    [
        ("ckpt", ("data/a.bin", "ckpt")),
        ("out/*.pt", ("data/a.bin", "out/*.pt")),
        ("/workspace/src/ckpt", ("data/a.bin", "ckpt")),
        ("/workspace/ckpt", ("data/a.bin",)),
    ],
)
def test_the_machine_s_own_places_are_seen_from_the_work_directory(path: str, apart: tuple[str, ...]) -> None:
    assert _apart(parse_job(JOB % path, source="job.toml", now=datetime(2026, 1, 1, tzinfo=UTC))) == apart
