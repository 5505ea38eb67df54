"""The wheel of the product, without the laboratory: its daemon serves, and its commands rent, show and pay."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autopilot.cli.exits import Exit
from autopilot_lab.demo.theatre import Theatre
from tests import wheels
from tests.acceptance.stage import a_theatre, first_tick, job_text, without_settings
from tests.locks import ROOT
from tests.patience import PATIENCE_S

FOUND = "import autopilot, importlib.util as util; print(autopilot.__file__, util.find_spec('autopilot_lab'))"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("alone")
    return wheels.python_beside(wheels.build(ROOT, root / "dist"), root=root / "venv")


def command(python: Path, theatre: Theatre, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-P", "-m", "autopilot.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=theatre.root,
        env=without_settings() | theatre.daemon_environment(),
    )


@contextmanager
def serving(python: Path, theatre: Theatre) -> Iterator[None]:
    with open(theatre.root / "alone.log", "ab") as log:
        daemon = subprocess.Popen(
            [python, "-P", "-m", "autopilot.cli.main", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=theatre.root,
            env=without_settings() | theatre.daemon_environment(),
        )
    try:
        first_tick(theatre.client)
        yield
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0, (theatre.root / "alone.log").read_text()
    finally:
        daemon.kill()
        daemon.wait()


def test_the_daemon_and_the_client_commands_need_no_laboratory(python: Path) -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        found = subprocess.check_output([python, "-P", "-c", FOUND], text=True, cwd=theatre.root).split()
        assert found[0].startswith(str(python.parents[1]))
        assert found[1] == "None"
        (theatre.root / "job.toml").write_text(job_text(30))
        with serving(python, theatre):
            waited = command(python, theatre, "submit", "job.toml", "--wait")
            assert waited.returncode == Exit.OK, waited.stdout + waited.stderr
            for line in (
                "ps --all",
                "show train",
                "why train",
                "receipt train",
                "spend",
                "budget",
                "offers --gpu 4090:1",
            ):
                said = command(python, theatre, *line.split())
                assert said.returncode == Exit.OK, said.stdout + said.stderr
                assert said.stdout
        refused = command(python, theatre, "demo")
        assert (refused.returncode, refused.stdout) == (Exit.USAGE, "")
        assert "gpu-autopilot-lab" in refused.stderr


def test_one_line_in_an_empty_home_rehearses_the_example_without_a_daemon(python: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said = subprocess.run(
        [python, "-P", "-m", "autopilot.cli.main", "rehearse", "--example", "--losses", "1", "--json"],
        capture_output=True,
        text=True,
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
    )
    assert said.returncode == Exit.OK, said.stdout + said.stderr
    body = json.loads(said.stdout)
    assert (body["sound"], len(body["losses"])) == (True, 1)
    assert list(home.iterdir()) == []
