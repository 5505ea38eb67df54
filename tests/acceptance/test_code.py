"""A directory with a script and no image of its own: on a first machine, outbid for good, and on a second one."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, command, show, until

pytestmark = pytest.mark.slow

TRAIN = """\
import hashlib, pathlib, sys, time

code = b"".join(pathlib.Path(name).read_bytes() for name in ("train.py", "lib/model.py"))
state = pathlib.Path("ckpt/state")
starts = int(state.read_text()) if state.exists() else 0
print("start", starts, "of", hashlib.sha256(code).hexdigest(), flush=True)
state.parent.mkdir(exist_ok=True)
state.write_text(str(starts + 1))
if starts:
    pathlib.Path("result.txt").write_text("done")
    sys.exit(0)
while True:
    time.sleep(0.05)
"""
JOB = """\
name = "own"
image = "python:3.12-slim"
run = "python3 train.py"

[code]

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$3.00"

[spot]
max_price = "$0.80"

[checkpoint]
path = "ckpt"
interval = "1m"

[outputs]
paths = ["result.txt"]
"""


def a_project(root: Path) -> Path:
    (root / "lib").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "lib/model.py").write_text("layers = 3\n")
    (root / "lib/run.sh").write_text("#!/bin/sh\n")
    (root / "lib/run.sh").chmod(0o700)
    (root / "job.toml").write_text(JOB)
    return root


def says(theatre: Theatre, line: str) -> bool:
    return line in command(theatre, "logs", "own").stdout


def test_the_same_code_runs_on_the_next_machine_and_comes_back(tmp_path: Path) -> None:
    project = a_project(tmp_path / "project")
    own = hashlib.sha256((project / "train.py").read_bytes() + (project / "lib/model.py").read_bytes()).hexdigest()
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        sent = command(theatre, "submit", str(project / "job.toml"), "--json")
        assert sent.returncode == 0, sent.stderr
        job = json.loads(sent.stdout)["job"]
        (project / "train.py").write_text("raise SystemExit('changed since')")

        def is_saved() -> bool:
            job_now = show(theatre, job["id"])["job"]
            return bool(job_now["status"] == "running" and job_now["checkpoint"])

        until(is_saved, "a checkpoint on the first machine")
        first = show(theatre, job["id"])["job"]["main"]
        theatre.emu("rival", {"instance_id": int(first["instance_id"]), "bid": "50"})
        until(lambda: show(theatre, job["id"])["job"]["status"] == "succeeded", "the end on the second machine")
        body = show(theatre, job["id"])
        assert len({lease["machine_id"] for lease in body["leases"]}) == 2
        for start in (0, 1):
            until(partial(says, theatre, f"start {start} of {own}"), f"start {start}")

        shown = " ".join(command(theatre, "show", "own").stdout.split())
        assert body["job"]["code"] == job["code"]
        assert f"code {job['code']['sha256']}, 4 files" in shown
        pulled = command(theatre, "pull", "own", str(tmp_path / "results"))
        assert (pulled.returncode, (tmp_path / "results/result.txt").read_text()) == (0, "done")
        pulled = command(theatre, "pull", "own", str(tmp_path / "ran"), "--code")
        assert pulled.returncode == 0, pulled.stderr
        names = sorted(str(path.relative_to(tmp_path / "ran")) for path in (tmp_path / "ran").rglob("*"))
        assert names == ["job.toml", "lib", "lib/model.py", "lib/run.sh", "train.py"]
        assert (tmp_path / "ran/train.py").read_text() == TRAIN
        assert (tmp_path / "ran/lib/run.sh").stat().st_mode & 0o100
