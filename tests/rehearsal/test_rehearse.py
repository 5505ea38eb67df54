"""Programs of tenth-of-a-second steps, each rehearsed by the real command, in real seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MINUTES = "6"
"""As many as a busy computer needs: it is over with its losses."""

pytestmark = pytest.mark.slow


def rehearse(directory: Path, checkpoint: str, *words: str) -> tuple[int, dict[str, object]]:
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, directory)
    temporary = directory.parent / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(directory.parent / "state")}
    command = [sys.executable, "-m", "autopilot.cli.main", "rehearse", "--json", "--minutes", MINUTES]
    done = subprocess.run(
        [*command, "--checkpoint", checkpoint, "--", sys.executable, *words],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    assert list(temporary.iterdir()) == []
    assert list_processes_of(temporary) == []
    body: dict[str, object] = json.loads(done.stdout)
    return done.returncode, body


def list_processes_of(directory: Path) -> list[str]:
    """Those that know of it by their environment: agents and programs have their machine's root in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if bytes(directory) in place.read_bytes():
                found.append(place.parent.name)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [
        ("ckpt.json", ("train.py", "sound")),
        ("ckpt.json", ("by_epoch.py", "sound")),
        ("ckpt.json", ("on_sigterm.py", "sound")),
        ("ckpt.json", ("on_sigterm.py", "goes_on")),
        ("ckpt.json", ("ends_on_sigterm.py",)),
        *(("ckpt", ("styles.py", style)) for style in ("keep_three", "in_turn", "best_and_last", "rows")),
    ],
)
def test_a_sound_program_passes(directory: Path, checkpoint: str, words: tuple[str, ...]) -> None:
    code, body = rehearse(directory, checkpoint, *words)
    assert (code, body["findings"]) == (0, []), body
    assert sorted(path.name for path in directory.iterdir()) == sorted(path.name for path in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("train.py", "from_zero"), "does_not_resume"),
        (("train.py", "never"), "does_not_resume"),
        (("train.py", "fails_on_resume"), "torn"),
        (("train.py", "in_place"), "torn"),
        (("by_epoch.py", "twice"), "work_done_twice"),
        (("on_sigterm.py", "silent"), "sigterm_save"),
        (("on_sigterm.py", "slow"), "sigterm_save"),
        (("train.py", "doubled"), "outputs_overwritten"),
        (("train.py", "overwritten"), "outputs_overwritten"),
        (("train.py", "jump"), "jump_at_the_seam"),
    ],
)
def test_a_planted_fault_is_named(directory: Path, words: tuple[str, ...], kind: str) -> None:
    code, body = rehearse(directory, "ckpt.json", *words)
    findings = body["findings"]
    assert isinstance(findings, list)
    assert kind in [each["kind"] for each in findings]
    assert code == 1
