"""Two jobs submitted at once, of which the second takes what the first leaves, over both markets and a dead daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.stage import a_theatre, command, show, until

pytestmark = pytest.mark.slow

JOB = """
name = "{name}"
image = "autopilot/demo:1"
run = '{run}'
[resources]
gpu = "RTX 4090:1"
[budget]
total = "$2.00"
[outputs]
paths = ["out"]
"""
PREPARE = JOB.format(
    name="prepare",
    run="mkdir -p out/deep && head -c 9000000 /dev/urandom > out/deep/data && sha256sum < out/deep/data > out/sum",
)
TRAIN = JOB.format(
    name="train", run="mkdir out && sha256sum < in/data | cmp - sum.txt && ls > out/names && ls -A in >> out/names"
)
TAKES = """
[inputs]
"in" = "job:prepare/out/deep"
"sum.txt" = { url = "job:prepare/out/sum", size = "1MB" }
"""


@pytest.mark.parametrize("market", ["vastai", "runpod"])
def test_the_second_begins_with_what_the_first_left(market: str, tmp_path: Path) -> None:
    with a_theatre((market,)) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        (tmp_path / "prepare.toml").write_text(PREPARE)
        (tmp_path / "train.toml").write_text(TRAIN + TAKES)
        done = command(theatre, "submit", str(tmp_path / "train.toml"), str(tmp_path / "prepare.toml"))
        assert done.returncode == 0, done.stderr
        until(lambda: show(theatre, "prepare")["job"]["status"] == "succeeded", "the first has ended")
        theatre.kill_daemon()
        theatre.start_daemon()
        until(lambda: show(theatre, "train")["job"]["status"] == "succeeded", "the second has ended")
        pulled = command(theatre, "pull", "train", str(tmp_path / "got"))
        assert pulled.returncode == 0, pulled.stderr
        assert (tmp_path / "got/out/names").read_text().split() == ["in", "out", "sum.txt", "data"]
