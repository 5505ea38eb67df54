"""Trainings of half-second steps with the real packages, each rehearsed for three minutes by the real command.

They need a computer that does nothing else: a program that takes half a minute to import its packages has no time left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.rehearsal.test_rehearse import rehearse

PROGRAMS = Path(__file__).parent / "frameworks"
MINUTES = "3"
REPEATS = int(os.environ.get("REHEARSALS", "1"))
"""Of a program whose fault shows at random, each with its own seed."""
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 400 * REPEATS)]


class Planted(NamedTuple):
    kind: str
    package: str
    checkpoint: str
    words: tuple[str, ...]
    is_random: bool = False
    """Whether it shows depends on the moment of the loss."""


PLANTED = (
    Planted("does_not_resume", "torch", "ckpt", ("plain.py", "weights_alone")),
    Planted("does_not_resume", "transformers", "out", ("hf.py", "anew")),
    Planted("does_not_resume", "lightning", "ckpt", ("light.py", "anew")),
    Planted("work_done_twice", "torch", "ckpt", ("plain.py", "from_epoch"), is_random=True),
    Planted("work_done_twice", "transformers", "out", ("hf.py", "by_name")),
    Planted("work_done_twice", "lightning", "ckpt", ("light.py", "twice")),
    Planted("torn", "torch", "ckpt", ("plain.py", "in_place")),
    Planted("torn", "torch", "ckpt", ("plain.py", "removed_first"), is_random=True),
    Planted("sigterm_save", "torch", "ckpt.pt", ("plain_flag.py", "epoch"), is_random=True),
    Planted("sigterm_save", "transformers", "out", ("hf_stops.py", "silent")),
    Planted("outputs_overwritten", "torch", "ckpt", ("plain.py", "rows_lost")),
    Planted("outputs_overwritten", "transformers", "out", ("hf.py", "doubled"), is_random=True),
    Planted("jump_at_the_seam", "torch", "ckpt", ("plain.py", "no_optimizer")),
    Planted("jump_at_the_seam", "lightning", "ckpt", ("light.py", "layers_anew")),
)
SOUND = (
    ("torch", "ckpt", ("plain.py", "whole")),
    ("torch", "ckpt", ("plain.py", "two_kept")),
    ("torch", "ckpt", ("plain.py", "rows")),
    ("torch", "ckpt", ("plain.py", "ignores_sigterm")),
    ("torch", "ckpt.pt", ("plain_flag.py", "step")),
    ("torch", "ckpt", ("plain_steps.py",)),
    ("torch", "ckpt", ("wrapped.py",)),
    ("safetensors", "state", ("plain_dirs.py",)),
    ("transformers", "out", ("hf.py", "newest")),
    ("transformers", "out", ("hf.py", "one_kept")),
    ("transformers", "out", ("hf_asked.py",)),
    ("transformers", "out", ("hf_defaults.py",)),
    ("transformers", "out", ("hf_stops.py", "saves")),
    ("lightning", "ckpt", ("light.py", "last")),
    ("lightning", "ckpt", ("light_asked.py",)),
)


@cache
def has(package: str) -> bool:
    found = [PYTHON, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"]
    return subprocess.run(found, check=False).returncode == 0


def need(package: str) -> None:
    if not has(package):
        pytest.skip(f"{package} is not installed (TORCH_PYTHON names a Python that has it)")


@pytest.mark.parametrize(("package", "checkpoint", "words"), SOUND, ids=lambda each: "-".join(each) if each else "")
def test_a_sound_training_passes(tmp_path: Path, package: str, checkpoint: str, words: tuple[str, ...]) -> None:
    need(package)
    code, body = rehearse(tmp_path, PROGRAMS, (PYTHON, *words), "--checkpoint", checkpoint, "--minutes", MINUTES)
    assert (code, body["findings"]) == (0, []), body


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: "-".join((each.kind, *each.words)))
def test_a_planted_fault_is_named(tmp_path: Path, planted: Planted) -> None:
    """In nine of ten rehearsals where it shows at random."""
    need(planted.package)
    named: Counter[str] = Counter()
    repeats = REPEATS if planted.is_random else 1
    for seed in range(repeats):
        place = tmp_path / str(seed)
        place.mkdir()
        words = ("--checkpoint", planted.checkpoint, "--minutes", MINUTES, "--seed", str(seed))
        code, body = rehearse(place, PROGRAMS, (PYTHON, *planted.words), *words)
        assert code == 1
        findings = body["findings"]
        assert isinstance(findings, list)
        named.update({each["kind"] for each in findings})
    assert named[planted.kind] >= repeats * 9 // 10, named
    assert set(named) == {planted.kind}
