"""``autopilot run`` as a newcomer types it: a directory with three files, no job file, an outbid, a second machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, assert_one_error, command, show, until, without_settings
from tests.patience import PATIENCE_S

TRAIN = """\
import pathlib, time

from model import LAYERS

state = pathlib.Path("ckpt/state")
step = int(state.read_text()) if state.exists() else 0
state.parent.mkdir(exist_ok=True)
print("begin at step", step, "with", LAYERS, "layers", flush=True)
for step in range(step, 400):
    time.sleep(0.02)
    state.write_text(str(step))
while not pathlib.Path("ckpt/second").exists() and step < 400:
    pathlib.Path("ckpt/second").write_text("")
    while True:
        time.sleep(0.05)
pathlib.Path("outputs").mkdir()
pathlib.Path("outputs/model.txt").write_text("trained")
"""


def a_project(root: Path) -> Path:
    root.mkdir()
    (root / "train.py").write_text(TRAIN)
    (root / "model.py").write_text("LAYERS = 3\n")
    (root / "notes.md").write_text("# a project\n")
    return root


def run_in(directory: Path, theatre: Theatre, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "autopilot.cli.main", "run", *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=without_settings() | theatre.daemon_environment() | {"XDG_CONFIG_HOME": str(directory.parent / "config")},
    )


def test_a_directory_is_run_moved_and_brought_back(tmp_path: Path) -> None:
    project = a_project(tmp_path / "project")
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        running = run_in(project, theatre, "--gpu", "4090", "--budget", "3", "-y", "--", "python3", "train.py")

        def first_machine() -> str | None:
            jobs = theatre.client.get("/v1/jobs")["jobs"]
            saved = [job for job in jobs if job["status"] == "running" and job["checkpoint"]]
            return str(saved[0]["main"]["instance_id"]) if saved else None

        theatre.emu("rival", {"instance_id": int(until(first_machine, "a checkpoint")), "bid": "50"})
        out, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, out + err
        assert "checkpoint: ckpt, which train.py names" in out
        assert "begin at step 0 with 3 layers" in out
        assert "moved to" in err
        assert "project (" in err
        assert (project / "project-outputs/outputs/model.txt").read_text() == "trained"
        job = theatre.client.get("/v1/jobs", all=1)["jobs"][0]
        body = show(theatre, job["id"])
        assert len({lease["machine_id"] for lease in body["leases"]}) == 2
        assert body["job"]["code"]["files"] == 3


@pytest.mark.slow
def test_what_run_refuses_before_anything_is_sent(tmp_path: Path) -> None:
    project = a_project(tmp_path / "project")
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()

        def refused(code: int, *words: str) -> str:
            process = run_in(project, theatre, *words)
            out, err = process.communicate(timeout=PATIENCE_S)
            done = subprocess.CompletedProcess(words, process.returncode, out, err)
            assert_one_error(done, code)
            return err

        program = ("--", "python3", "train.py")
        assert "run needs a command" in refused(2)
        assert "-y without a budget" in refused(2, "-y", *program)
        assert "no terminal to confirm this spending" in refused(2, "--budget", "3", *program)
        assert "is not NAME=VALUE" in refused(2, "--env", "X", "--budget", "3", "-y", *program)
        key = refused(2, "--env", "HF_TOKEN=hf_abcdefghijklmnop", "--budget", "3", "-y", *program)
        assert "--secret HF_TOKEN=hf-token" in key
        (project / "id_rsa").write_text("secret")
        assert "id_rsa" in refused(2, "--budget", "3", "-y", *program)
        assert command(theatre, "ps", "-q", "--all").stdout == ""
