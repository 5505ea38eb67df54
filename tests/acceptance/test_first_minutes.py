"""No daemon runs: ``run`` and ``submit --wait`` start one, exactly one, and say what a job waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, assert_one_error, command, first_tick, until, without_settings
from tests.patience import PATIENCE_S

TRAIN = (
    "import pathlib\npathlib.Path('outputs').mkdir()\npathlib.Path('outputs/a').write_text('done')\nprint('trained')\n"
)
QUIET = ("--gpu", "4090", "--budget", "3", "-y", "--", "python3", "train.py")


@contextmanager
def a_market() -> Iterator[Theatre]:
    """A market, and no daemon; one that was started meanwhile is ended."""
    with a_theatre() as theatre:
        theatre.start_market()
        try:
            yield theatre
        finally:
            end_daemon(theatre.client)


def end_daemon(client: JsonClient) -> None:
    try:
        pid = client.get("/v1/status")["pid"]
    except DaemonError:
        return
    os.kill(pid, signal.SIGTERM)

    def has_ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    until(has_ended, "the end of the daemon")


def a_project(root: Path, name: str = "project") -> Path:
    (root / name).mkdir()
    (root / name / "train.py").write_text(TRAIN)
    # Imported in the place of the standard library's, it would end the daemon.
    (root / name / "queue.py").write_text("raise SystemExit('the wrong module')\n")
    return root / name


def run_in(directory: Path, theatre: Theatre, *words: str, **environment: str) -> subprocess.Popen[str]:
    settings = theatre.daemon_environment() | {"XDG_CONFIG_HOME": str(directory.parent / "config")} | environment
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "autopilot.cli.main", *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=without_settings() | settings,
    )


def ledgers_daemons(theatre: Theatre) -> list[str]:
    """Of each daemon that ever led here, a line of its log."""
    logs = (
        path.read_text() for path in (theatre.root / "daemon/daemon.log", theatre.root / "daemon.log") if path.exists()
    )
    return [line for log in logs for line in log.splitlines() if '"daemon.started"' in line]


@pytest.mark.slow
def test_run_starts_a_daemon_and_says_what_the_job_waits_for(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    with a_market() as theatre:
        running = run_in(project, theatre, "run", *QUIET)
        out, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, out + err
        assert (project / "project-outputs/outputs/a").read_text() == "done"
        pid = theatre.client.get("/v1/status")["pid"]
        assert f"the daemon runs (pid {pid})" in err
        assert "serve --print-unit" in err
        waits = [line for line in err.splitlines() if line.startswith("project: ")]
        assert waits, "which of them, and how many, is up to the speed of this machine: see unit/cli/test_waiting.py"
        assert len(waits) == len(set(waits)), waits
        assert err.index("project: ") < err.index("started on vastai machine")
        # The next one finds it.
        again = run_in(project, theatre, "run", "--again", *QUIET)
        out, err = again.communicate(timeout=PATIENCE_S)
        assert again.returncode == 0, out + err
        assert "no daemon runs" not in err
        assert len(ledgers_daemons(theatre)) == 1
        assert ((theatre.root / "daemon/daemon.log").stat().st_mode & 0o777) == 0o600


@pytest.mark.slow
def test_of_two_at_once_one_daemon_stays(tmp_path: Path) -> None:
    projects = [a_project(tmp_path, name) for name in ("one", "two")]
    with a_market() as theatre:
        both = [run_in(project, theatre, "run", "-d", *QUIET) for project in projects]
        for running in both:
            out, err = running.communicate(timeout=PATIENCE_S)
            assert running.returncode == 0, out + err
        first_tick(theatre.client)
        assert len(ledgers_daemons(theatre)) == 1
        assert len(theatre.client.get("/v1/jobs", all=1)["jobs"]) == 2


def test_a_daemon_that_starts_is_waited_for(tmp_path: Path) -> None:
    """As in ``autopilot serve & autopilot run …``: whichever of the two daemons leads, one does."""
    project = a_project(tmp_path)
    with a_market() as theatre:
        theatre.launch_daemon()
        running = run_in(project, theatre, "run", "-d", *QUIET)
        out, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, out + err
        first_tick(theatre.client)
        assert len(ledgers_daemons(theatre)) == 1


@pytest.mark.slow
def test_submit_waits_with_a_daemon_of_its_own(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    job = 'name = "train"\nimage = "autopilot/demo:1"\nrun = "python3 train.py"\n[code]\n'
    (project / "job.toml").write_text(job + '[resources]\ngpu = "RTX 4090:1"\n[budget]\ntotal = "$3"\n')
    with a_market() as theatre:
        assert_one_error(command(theatre, "submit", str(project / "job.toml")), 3, "is not running")
        assert_one_error(command(theatre, "ps"), 3, "is not running")
        submitting = run_in(project, theatre, "submit", "job.toml", "--wait")
        out, err = submitting.communicate(timeout=PATIENCE_S)
        assert submitting.returncode == 0, out + err
        assert "\ntrain: " in err


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", ["url", "login", "token", "system"])
def test_where_another_daemon_is_meant_none_is_started(tmp_path: Path, elsewhere: str) -> None:
    project = a_project(tmp_path)
    with a_theatre() as theatre:
        theatre.market_url = "http://127.0.0.1:9"
        environment = {}
        match elsewhere:
            case "url":
                environment["AUTOPILOT_URL"] = "http://127.0.0.1:9"
            case "token":
                environment["AUTOPILOT_TOKEN"] = "ap_none"
            case "system":
                (tmp_path / "etc").mkdir()
                (tmp_path / "etc/autopilot.toml").touch()
                environment["CONFIGURATION_DIRECTORY"] = str(tmp_path / "etc")
            case "login":
                environment["AUTOPILOT_API__SOCKET"] = ""
                (tmp_path / "config/autopilot").mkdir(parents=True)
                login = tmp_path / "config/autopilot/login.json"
                login.write_text('{"url": "http://127.0.0.1:9", "token": "ap_none", "ca_file": ""}')
                login.chmod(0o600)
        running = run_in(project, theatre, "run", *QUIET, **environment)
        out, err = running.communicate(timeout=PATIENCE_S)
        assert_one_error(subprocess.CompletedProcess((), running.returncode, out, err), 3)
        assert not (theatre.root / "daemon/daemon.log").exists()


@pytest.mark.slow
def test_why_a_daemon_cannot_start_is_said_at_once(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    with a_theatre(markets=()) as theatre:
        running = run_in(project, theatre, "run", *QUIET)
        out, err = running.communicate(timeout=PATIENCE_S)
        done = subprocess.CompletedProcess((), running.returncode, out, err)
        assert_one_error(done, 2, "the daemon cannot start: no market is configured", "autopilot init")
