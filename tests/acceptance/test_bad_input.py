"""For each fault, one clear error states who must act, and nothing is lost: the ledger stays as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autopilot.blobs.listener import KEPT_FREE_BYTES
from autopilot.blobs.shares import SMALL_ROOM_BYTES
from autopilot.cli.exits import Exit
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import DaemonAddress
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import (
    a_theatre,
    assert_one_error,
    command,
    first_tick,
    is_settled,
    job_text,
    ledger_rows,
    show,
    submit,
    until,
    without_settings,
)
from tests.patience import PATIENCE_S

GOOD = job_text(300)
LOGIN = '[registry]\nserver = "{}"\nuser = "me"\npassword = "none"\n'
REAL = "https://console.vast.ai"
ROOM_BYTES = SMALL_ROOM_BYTES + (32 << 20)
"""On the small disk, for ledger and checkpoints, beyond what the mailbox keeps free."""


@pytest.fixture(scope="module")
def running() -> Iterator[Theatre]:
    """A market and a daemon that all these mistakes leave unharmed."""
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        yield theatre


@contextmanager
def unchanged(theatre: Theatre) -> Iterator[None]:
    ledger = theatre.root / "daemon" / "ledger.db"
    before = ledger_rows(ledger)
    yield
    assert ledger_rows(ledger) == before
    assert theatre.emu("instances")["instances"] == []
    assert theatre.client.get("/v1/jobs", all=1)["jobs"] == []


# --- job files

JOB_FILES = [
    pytest.param('name = "train\nrun = 3', 2, (":1:", "not valid TOML"), id="malformed"),
    pytest.param("", 2, ("name is missing",), id="empty"),
    pytest.param(job_text(300, disk='disk = "20 parsecs"'), 2, (":8:", "disk", "20 parsecs"), id="unit"),
    pytest.param(job_text(300, total="total = 3"), 2, ("budget.total", "3"), id="budget-without-unit"),
    pytest.param(job_text(300, disk='dsik = "20GB"'), 2, (":8:", '"dsik"', '"disk"'), id="unknown-key"),
    pytest.param(GOOD + '[deadline]\nat = "2020-01-01T00:00:00Z"\n', 2, ("deadline", "ago"), id="deadline-past"),
    pytest.param(
        GOOD + '[deadline]\nwithin = "5m"\n', 4, ("does not fit before the deadline",), id="deadline-too-near"
    ),
    pytest.param(job_text(300, total='total = "$0.05"'), 4, ("budget of $0.05", "one hour"), id="budget-too-small"),
    pytest.param(GOOD + "# " + "x" * 300_000, 2, ("larger",), id="too-large"),
    pytest.param(
        job_text(300, gpu='gpu = "RTX 4900"'),
        2,
        ("no market lists a GPU called 'RTX 4900'", "the nearest is RTX 4090"),
        id="no-such-gpu",
    ),
    pytest.param(
        job_text(300, gpu='gpu = "A100 160GB"'), 2, ("'A100 160GB'", "40 or 80 GB"), id="no-such-size-of-a-gpu"
    ),
    pytest.param(
        job_text(300, disk='vram = "800GB"'),
        4,
        ("resources.vram: no RTX 4090 has 800 GB", "the most is 48 GB", "B300 has the most, 288 GB"),
        id="no-such-vram",
    ),
    pytest.param(
        job_text(300, disk='disk = "500TB"'), 4, ("no machine has 500000 GB", "the largest seen is"), id="no-such-disk"
    ),
    pytest.param(
        job_text(300, disk='max_hourly = "$0.01"'),
        4,
        ("$0.010 is below every price of the last 7 days", "the lowest was $0."),
        id="no-such-price",
    ),
    pytest.param(
        job_text(300, image='image = "ghcr.io/me/train:1"') + LOGIN.format("quay.io"),
        2,
        ("the image comes from ghcr.io, not from quay.io",),
        id="registry-of-another-image",
    ),
    pytest.param(
        job_text(300, image='image = "ghcr.io/me/train:1"') + LOGIN.format("ghcr.io"),
        2,
        ("no registry secret named 'none'", "autopilot secret set none --server SERVER"),
        id="no-registry-secret",
    ),
]


@pytest.mark.parametrize(("text", "exit_code", "phrases"), JOB_FILES)
def test_a_bad_job_file(running: Theatre, text: str, exit_code: int, phrases: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(text)
    with unchanged(running):
        assert_one_error(command(running, "submit", str(path)), exit_code, *phrases)


def test_a_job_file_that_is_not_there(running: Theatre, tmp_path: Path) -> None:
    with unchanged(running):
        assert_one_error(command(running, "submit", str(tmp_path / "none.toml")), 2, "none.toml")


def test_a_job_file_that_is_no_text(running: Theatre, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b'name = "\xff\xfe"')
    with unchanged(running):
        assert_one_error(command(running, "submit", str(path)), 2, "job.toml")


@pytest.mark.parametrize("words", [("cancel", "nothing"), ("show", "nothing"), ("logs", "nothing"), ("resume", "x")])
def test_a_job_that_does_not_exist(running: Theatre, words: tuple[str, ...]) -> None:
    with unchanged(running):
        assert_one_error(command(running, *words), 2, "no job", "autopilot ps -a")


def test_a_command_that_does_not_exist(running: Theatre) -> None:
    assert_one_error(command(running, "sbumit"), 2, "sbumit")


# --- the daemon's start

SERVE: list[Any] = [
    pytest.param((), {}, ("another autopilot daemon",), id="second-daemon-on-one-ledger"),
    pytest.param(("--config", "/nowhere/autopilot.toml"), {}, ("no such configuration file",), id="missing-config"),
    pytest.param(
        (), {"AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE": "/nowhere/key"}, ("/nowhere/key",), id="missing-key-file"
    ),
    pytest.param((), {"AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE": ""}, ("API key", "autopilot init"), id="no-key"),
    pytest.param(
        (),
        {"AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": REAL, "AUTOPILOT_BLOBS__PUBLIC_URL": "https://box.example"},
        ("clock's speed is 60", "real market"),
        id="scaled-clock-on-a-real-market",
    ),
    pytest.param(
        ("--i-accept-unproven",),
        {
            "AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": REAL,
            "AUTOPILOT_CLOCK__SPEED": "1",
            "AUTOPILOT_BLOBS__OVER_SSH": "false",
        },
        ("mailbox", "blobs.public_url"),
        id="real-market-without-a-reachable-mailbox",
    ),
]


@pytest.mark.parametrize(("words", "environment", "phrases"), SERVE)
def test_a_daemon_that_must_not_start(
    running: Theatre, words: tuple[str, ...], environment: dict[str, Any], phrases: tuple[str, ...]
) -> None:
    is_second = "another autopilot daemon" in phrases
    apart = {} if is_second else {"AUTOPILOT_STATE_DIR": str(running.root / "apart")}
    with unchanged(running):
        done = command(running, "serve", *words, **{**apart, **environment})
        assert_one_error(done, Exit.OTHER_DAEMON if is_second else Exit.USAGE, *phrases)


def test_no_market_at_all(running: Theatre) -> None:
    none: dict[str, Any] = {
        name: "" for name in running.daemon_environment() if name.startswith("AUTOPILOT_PROVIDERS__")
    }
    apart = {"AUTOPILOT_STATE_DIR": str(running.root / "apart"), "AUTOPILOT_CLOCK__SPEED": "1"}
    done = command(running, "serve", **(none | apart))
    assert_one_error(done, 2, "no market is configured", "autopilot init")


def test_a_ledger_that_is_no_database(running: Theatre, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    ledger.write_bytes(b"a letter to a friend, long enough to be no header of a database at all" * 20)
    apart: dict[str, Any] = {"AUTOPILOT_STATE_DIR": str(running.root / "apart")}
    apart["AUTOPILOT_LEDGER__URL"] = str(ledger)
    assert_one_error(command(running, "serve", **apart), 2, "not a SQLite database", "backup")
    assert ledger.read_bytes().startswith(b"a letter")


def test_a_key_that_others_can_read(running: Theatre, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sandbox-key")
    key.chmod(0o644)
    done = command(running, "serve", AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE=str(key))
    assert_one_error(done, 2, "others can read the key file", "chmod 600")


def test_no_daemon_says_how_to_start_one(running: Theatre, tmp_path: Path) -> None:
    done = command(running, "ps", AUTOPILOT_API__SOCKET=str(tmp_path / "s"))
    assert_one_error(done, 3, "not running", "autopilot serve")


# --- the market


def test_a_wrong_key_is_named_at_submit_and_nothing_is_accepted(tmp_path: Path) -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.daemon_environment()
        (theatre.root / "vastai-key").write_text("a-key-of-no-account")
        theatre.start_daemon()
        path = tmp_path / "job.toml"
        path.write_text(GOOD)
        with unchanged(theatre):
            done = command(theatre, "submit", str(path))
            assert_one_error(done, 2, "vastai", "key", "401", "autopilot init")
            assert "a-key-of-no-account" not in done.stdout + done.stderr
        log = (theatre.root / "daemon.log").read_text()
        assert "a-key-of-no-account" not in log
        assert "Traceback" not in log


@pytest.mark.slow
def test_an_unreachable_market_delays_a_job_and_loses_nothing(tmp_path: Path) -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        theatre.stop_market()
        until(lambda: not theatre.client.get("/v1/status")["providers"][0]["known"], "the market is unknown")
        assert_one_error(command(theatre, "offers", "--gpu", "RTX 4090:1"), 3, "no market could be read")
        path = tmp_path / "job.toml"
        path.write_text(GOOD)
        done = command(theatre, "submit", str(path))
        assert done.returncode == 0, done.stderr
        assert "vastai cannot be read now" in " ".join(done.stdout.split())
        job = theatre.client.get("/v1/jobs")["jobs"][0]
        assert (job["status"], job["reason"]) == ("pending", "market_unknown")
        theatre.start_market()
        until(lambda: is_settled(theatre, show(theatre, job["id"])), "the job's end and its bill")
        assert show(theatre, job["id"])["job"]["status"] == "succeeded"


# --- the disk


def serve_on_a_disk_of(size: int, directory: str) -> list[str]:
    """The command that mounts a disk at ``directory``, in a mount namespace that only it sees, and serves there."""
    private = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
    if shutil.which("unshare") is None or subprocess.run([*private, "true"], capture_output=True).returncode:
        pytest.skip("no private disk can be mounted on this machine")
    mount_and_serve = 'mount -t tmpfs -o size="$0" tmpfs "$1" && exec "$2" -m autopilot.cli.main serve'
    return [*private, "sh", "-c", mount_and_serve, str(size), directory, sys.executable]


@contextmanager
def daemon_on_a_small_disk(theatre: Theatre) -> Iterator[Path]:
    """A daemon whose state lies on a disk of its own; yields that disk."""
    environment = theatre.daemon_environment() | {"AUTOPILOT_API__SOCKET": str(theatre.root / "s")}
    state = environment["AUTOPILOT_STATE_DIR"]
    with (theatre.root / "daemon.log").open("ab") as log:
        process = subprocess.Popen(
            serve_on_a_disk_of(KEPT_FREE_BYTES + ROOM_BYTES, state),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=without_settings() | environment,
        )
    theatre.client = JsonClient(DaemonAddress(theatre.root / "s"), timeout_s=PATIENCE_S)
    try:
        first_tick(theatre.client)
        yield Path(f"/proc/{process.pid}/root{state}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def has_settled(theatre: Theatre, job_id: str) -> bool:
    return is_settled(theatre, show(theatre, job_id))


@pytest.mark.slow
def test_a_full_disk_accepts_no_job_keeps_what_there_is_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    # Large enough to need new pages in the ledger.
    path.write_text(job_text(300, name="second") + f'[env]\nFILLER = "{"x" * 90_000}"\n')
    with a_theatre() as theatre:
        theatre.start_market()
        with daemon_on_a_small_disk(theatre) as disk:
            first = submit(theatre, job_text(2500, name="first"))
            until(lambda: show(theatre, first)["job"]["main"], "the first job's machine")
            ballast = fill(disk)
            done = command(theatre, "submit", str(path), AUTOPILOT_API__SOCKET=str(theatre.root / "s"))
            assert_one_error(done, 3, "the disk is full", "nothing was changed")
            assert [job["name"] for job in theatre.client.get("/v1/jobs", all=1)["jobs"]] == ["first"]
            ballast.unlink()
            done = command(theatre, "submit", str(path), AUTOPILOT_API__SOCKET=str(theatre.root / "s"))
            assert done.returncode == 0, done.stderr
            second = theatre.client.get("/v1/jobs/second")["job"]["id"]
            for job_id in (first, second):
                until(partial(has_settled, theatre, job_id), "both jobs' end")
                assert show(theatre, job_id)["job"]["status"] == "succeeded"
        labels = [row["label"] for row in theatre.emu("instances")["instances"]]
        assert len(labels) == len(set(labels))


@pytest.mark.slow
def test_a_first_start_on_a_full_disk_says_so(running: Theatre) -> None:
    state = running.root / "tiny"
    state.mkdir()
    environment = running.daemon_environment() | {"AUTOPILOT_STATE_DIR": str(state)}
    done = subprocess.run(
        serve_on_a_disk_of(8192, str(state)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=without_settings() | environment,
    )
    assert_one_error(done, 2, "full", "free some space")
