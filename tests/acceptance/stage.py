"""A sandbox market, a daemon and the command line, each a process of its own, in a directory of their own."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from autopilot.cli.client import Client, Json, job_path
from autopilot.cli.transport import NotRunning
from autopilot_lab.demo.theatre import Theatre
from tests.patience import PATIENCE_S
from tests.processes import ForkedProcess, run_forked

SPEED = 60.0
MARKET_TIMEOUT_S = 120.0
"""Real seconds, for one exchange with a market. Tests of answers that never come kill the daemon that waits."""
FINAL = ("succeeded", "failed", "cancelled")


def job_text(steps: int, name: str = "train", **lines: str) -> str:
    """A job file of the demo's trainer. ``lines`` replace a whole line by its key."""
    text = f"""name = "{name}"
image = "autopilot/demo:1"
run = 'python3 "$AUTOPILOT_ROOT/opt/demo/train.py" --steps {steps} --checkpoint ckpt/model.json'
workdir = "/workspace"

[resources]
gpu = "RTX 4090:1"
disk = "20GB"

[work]
estimate = "30m"

[budget]
total = "$3.00"

[checkpoint]
path = "ckpt"
interval = "1m"
"""
    for key, line in lines.items():
        before = next(row for row in text.splitlines() if row.startswith(f"{key} ="))
        text = text.replace(before, line)
    return text


class ForkedTheatre(Theatre):
    """One whose processes have imported the program already when they begin."""

    start_timeout_s = stop_timeout_s = answer_timeout_s = PATIENCE_S
    market_timeout_s = MARKET_TIMEOUT_S

    @staticmethod
    def start_process(module: str, words: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess:
        return ForkedProcess(module, words, environment, log)


@contextmanager
def a_theatre(
    markets: tuple[str, ...] = ("vastai",), settings: Mapping[str, str] | None = None, speed: float = SPEED
) -> Iterator[Theatre]:
    """Nothing runs yet. The directory's name is short: a unix socket lies in it. ``settings``: the daemon's, as
    environment variables."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    theatre = ForkedTheatre(root, seed=1, speed=speed, markets=markets, settings=settings)
    try:
        yield theatre
    finally:
        theatre.stop()
        shutil.rmtree(root, ignore_errors=True)


def until(look: Callable[[], Any], what: str, within_s: float = PATIENCE_S, every_s: float = 0.05) -> Any:
    """The first true answer of ``look``."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(every_s)
    raise AssertionError(f"not within {within_s} s: {what}")


def first_tick(client: Client, within_s: float = PATIENCE_S) -> None:
    """Wait until the daemon has ticked. Its socket is in the directory a moment before it listens."""

    def has_ticked() -> bool:
        try:
            return client.get("/v1/status")["last_tick_at"] is not None
        except NotRunning:
            return False

    until(has_ticked, "the first tick", within_s)


def submit(theatre: Theatre, text: str) -> str:
    """Returns the job's id."""
    body = theatre.client.post("/v1/jobs", {"toml": text, "source": "job.toml", "dry_run": False})
    return str(body["job"]["id"])


def show(theatre: Theatre, job_id: str) -> Json:
    return theatre.client.get(job_path(job_id))


def is_settled(theatre: Theatre, body: Json) -> bool:
    """The job is over, its machines are gone and their invoices are imported."""
    is_over = body["job"]["status"] in FINAL
    all_gone = all(lease["state"] in ("gone", "abandoned") for lease in body["leases"])
    status = theatre.client.get("/v1/status")
    # The version before has one word for both, and believes a bill at the first look.
    return is_over and all_gone and status.get("unbilled_leases", status["unsettled_leases"]) == 0


def market_events(theatre: Theatre, kind: str) -> list[Json]:
    return [event for event in theatre.emu("events")["events"] if event["kind"] == kind]


def without_settings() -> dict[str, str]:
    """Our own environment, without what would set anything for the program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AUTOPILOT_")}


def command(
    theatre: Theatre, *words: str, stdin: str = "", timeout_s: float = PATIENCE_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``autopilot WORDS`` against the theatre. An environment value of "" takes the variable away."""
    changed = without_settings() | theatre.daemon_environment() | environment
    given = {name: value for name, value in changed.items() if value}
    return run_forked("autopilot.cli.main", words, given, stdin, timeout_s)


def assert_one_error(done: subprocess.CompletedProcess[str], exit_code: int, *phrases: str) -> None:
    """One line that says what is wrong, at most a hint after it, and no traceback."""
    output = done.stdout + done.stderr
    assert done.returncode == exit_code, output
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, output
    assert "Traceback" not in output, output
    told = "\n".join(line for line in done.stderr.splitlines() if line.startswith(("error:", "hint:")))
    for phrase in phrases:
        assert phrase in told, f"{phrase!r} is not in: {told}"


def ledger_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that the ledger holds about jobs and money."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
        names = [row[0] for row in ledger.execute("select name from sqlite_master where type = 'table'")]
        # Prices and notes come with time: what the market asked, and which nightly chore is done.
        kept = [name for name in names if name not in ("price_observations", "notes", "alembic_version")]
        return {name: ledger.execute(f"select * from {name}").fetchall() for name in sorted(kept)}
