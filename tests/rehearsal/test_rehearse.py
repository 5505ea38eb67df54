"""Programs of tenth-of-a-second steps, each rehearsed by the real command, in real seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MINUTES = "6"
"""As many as a busy computer needs: it is over with its losses."""

BESIDE_S = 60.0

pytestmark = pytest.mark.slow


def rehearse(place: Path, programs: Path, command: tuple[str, ...], *options: str) -> tuple[int, dict[str, object]]:
    """The exit code and what it printed. Nothing of it is left, and the directory of the programs is as it was."""
    directory, temporary = place / "code", place / "temporary"
    shutil.copytree(programs, directory, ignore=shutil.ignore_patterns("__pycache__"))
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(place / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "autopilot.cli.main", "rehearse", "--json", *options, "--", *command],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    assert list(temporary.iterdir()) == []
    assert list_processes_of(temporary) == []
    assert names_in(directory) == names_in(programs)
    body: dict[str, object] = json.loads(done.stdout)
    return done.returncode, body


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != "__pycache__")


def list_processes_of(directory: Path) -> list[str]:
    """Those that know of it by their environment: agents and programs have their machine's root in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if bytes(directory) in place.read_bytes():
                found.append(place.parent.name)
    return found


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
def test_a_sound_program_passes(tmp_path: Path, checkpoint: str, words: tuple[str, ...]) -> None:
    code, body = rehearse(
        tmp_path, PROGRAMS, (sys.executable, *words), "--checkpoint", checkpoint, "--minutes", MINUTES
    )
    assert (code, body["findings"]) == (0, []), body


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
def test_a_planted_fault_is_named(tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    code, body = rehearse(
        tmp_path, PROGRAMS, (sys.executable, *words), "--checkpoint", "ckpt.json", "--minutes", MINUTES
    )
    findings = body["findings"]
    assert isinstance(findings, list)
    assert kind in [each["kind"] for each in findings]
    assert code == 1


def test_a_program_of_thirty_seconds_ends_in_the_minutes_and_says_what_it_did_not_get_to(tmp_path: Path) -> None:
    """``rehearse`` holds that nothing is left behind. Beside the minutes are the start of the command and its end."""
    began = time.monotonic()
    code, body = rehearse(
        tmp_path, PROGRAMS, (sys.executable, "train.py", "sound", "300"),
        "--checkpoint", "ckpt.json", "--minutes", "0.7",
    )  # fmt: skip
    took_s = time.monotonic() - began
    assert took_s < 0.7 * 60 + BESIDE_S
    assert (code == 0, body["findings"]) == (body["sound"], [])
    missed = body["not_reached"]
    assert isinstance(missed, list)
    assert "the end of an uninterrupted run" in missed
    assert "the end of a run that had lost machines" in missed
