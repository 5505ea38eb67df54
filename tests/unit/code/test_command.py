"""A command whose file is not sent is named before it costs a machine, and nothing is refused that might be there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autopilot.code.bundle import bundle
from autopilot.code.command import SentFiles, check_command
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from tests.builders import START, a_spec

NAMES = ("train.py", "src", "src/app.py", "run.sh")


def check(run: str, root: Path, **changes: object) -> list[str]:
    spec: JobSpec = replace(a_spec(), run=run, setup="", inputs=(), checkpoint_path="ckpt")
    return check_command(replace(spec, **changes), SentFiles(NAMES, root))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("python3 trian.py", "run: trian.py is not among the files that [code] sends; the nearest is train.py"),
        ("python3 -u trian.py --epochs 3", "the nearest is train.py"),
        ("exec python trian.py | tee log", "the nearest is train.py"),
        ("SEED=1 python trian.py > log 2>&1", "the nearest is train.py"),
        ("./src/ap.py", "the nearest is src/app.py"),
        ("python ignored.py", "ignored.py is not among the files that [code] sends: it lies here and is left out"),
    ],
)
def test_what_is_clearly_meant_is_refused(run: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "ignored.py").touch()
    with pytest.raises(UserError) as refused:
        check(run, tmp_path, setup="# libraries\npip install -r requirements.txt && apt-get update")
    assert said in refused.value.message
    assert "/workspace/" in refused.value.hint


@pytest.mark.parametrize(
    ("run", "changes"),
    [
        ("python3 trian.py", {"setup": "git clone https://example.com/x ."}),
        ("python3 elsewhere.py", {}),
        ("pip install -e . && python3 trian.py", {}),
    ],
)
def test_what_may_be_there_is_noted(run: str, changes: dict[str, object], tmp_path: Path) -> None:
    assert len(check(run, tmp_path, **changes)) == 1


@pytest.mark.parametrize(
    "run",
    [
        *("python3 train.py", "bash run.sh", "./run.sh", "python src/app.py", "python src", "python -m trian.py"),
        *("python -c 'import trian.py'", "python $SCRIPT", "python /opt/trian.py", "python ../trian.py", "trian.py"),
        *("cd src && python trian.py", "torchrun trian.py", "python <<EOF\ntrian.py\nEOF", "python 'a b.py'", "bash"),
        *("perl -e print", "python ckpt/trian.py", "python data/x/trian.py", "python linked/trian.py", "python -"),
        'python -c "\nimport trian.py\n"',
    ],
)
def test_what_is_there_or_cannot_be_judged_is_left_alone(run: str, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to("/elsewhere")
    assert check(run, tmp_path, inputs=(("data/x", "https://example.com/x"),)) == []


def test_a_bundle_is_not_made_for_a_command_whose_file_is_not_in_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    text = 'name = "a"\nimage = "i"\nrun = "python3 {}"\n[code]\n[resources]\ngpu = "RTX 4090"\n'
    with pytest.raises(UserError, match=r"trian\.py is not among the files .* the nearest is train\.py"):
        bundle(text.format("trian.py"), "job.toml", tmp_path, START)
    assert bundle(text.format("train.py"), "job.toml", tmp_path, START).notes == []
    assert len(bundle(text.format("elsewhere.py"), "job.toml", tmp_path, START).notes) == 1
