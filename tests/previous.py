"""The version before: its own wheel, run as processes of its own, and what it leaves behind when it is killed.

``python -m tests.previous REVISION`` keeps the wheel of that git revision, and a ledger that it has written.
"""

from __future__ import annotations

import io
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autopilot.client.answer import Json
from autopilot.client.errors import DaemonError
from autopilot_lab.demo.theatre import Theatre
from tests import wheels
from tests.acceptance.stage import a_theatre, is_settled, show, submit, until, without_settings
from tests.patience import PATIENCE_S

KEPT = Path(__file__).parent / "assets/previous"
NOT_KEPT = "the wheel of the version before is not here: it is kept in git, and the sdist leaves it out"
LEDGER = KEPT / "ledger.sql"
TRAINING = Path(__file__).parent / "assets/training/numpy_training.py"
MARKETS = ("vastai", "runpod")
STEPS, STEP_S = 300, 0.02

JOB = """name = "{name}"
image = "autopilot/demo:1"
run = 'exec {python} {training} {steps} {step_s} {witness}'
workdir = "/workspace"

[resources]
gpu = "{gpu}:1"
disk = "20GB"

[budget]
total = "$20.00"

[checkpoint]
path = "ckpt"
interval = "30s"
"""
TOO_LOW = """
[spot]
policy = "spot"
max_price = "$0.10"
"""
GPUS = {
    "finished": "RTX 3090",
    "running": "RTX A4000",
    "paused": "RTX 4090",
    "moved": "RTX 4090",
    "waiting": "H100 SXM",
}
"""Of each job. Only RunPod rents out an A4000."""


def kept_wheel() -> Path | None:
    return next(KEPT.glob("*.whl"), None)


class Previous:
    """The kept wheel, unpacked into a directory. It runs with the libraries that the tests run with."""

    def __init__(self, directory: Path) -> None:
        wheel = kept_wheel()
        if wheel is None:
            pytest.skip(NOT_KEPT)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
        # Not the working directory but the wheel, before this checkout.
        self.environment = {"PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}

    @contextmanager
    def serving(self, theatre: Theatre, **settings: str) -> Iterator[None]:
        """Its daemon, killed with SIGKILL when the block ends."""
        log_path = theatre.root / "previous.log"
        with open(log_path, "ab") as log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "autopilot.cli.main", "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_settings() | theatre.daemon_environment() | self.environment | settings,
                start_new_session=True,
            )
        try:
            until(lambda: daemon.poll() is not None or _has_ticked(theatre), "an answer of the previous daemon")
            assert daemon.poll() is None, log_path.read_text()
            yield
        finally:
            daemon.kill()
            daemon.wait()

    def command(self, theatre: Theatre, *words: str) -> str:
        """Its own command line; returns what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "autopilot.cli.main", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=without_settings() | theatre.daemon_environment() | self.environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _has_ticked(theatre: Theatre) -> bool:
    try:
        return theatre.client.get("/v1/status")["last_tick_at"] is not None
    except DaemonError:
        return False


@dataclass(frozen=True)
class Witness:
    """What a training saw of itself, outside of every machine. It ends once it ``may_finish``."""

    path: Path

    def rows(self, kind: str) -> list[str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [words[3] for line in lines if (words := line.split())[2] == kind]

    def may_finish(self) -> None:
        Path(f"{self.path}.may-finish").touch()


@dataclass(frozen=True)
class LeftBehind:
    """What the killed daemon leaves: one job that is over and settled, and three machines that still bill.

    ``running`` goes on, ``paused`` is outbid, and the machine of ``moved`` has vanished. All three have a checkpoint.
    A fifth job waits: it pays less than anything costs.
    """

    ids: dict[str, str]
    shown: dict[str, Json]
    witnesses: dict[str, Witness]
    reports: dict[str, Any]


def start_market(theatre: Theatre) -> None:
    """A market whose machines set the clock's speed: the daemon of the version before does not tell it to them."""
    programs, path = theatre.root / "bin", os.environ["PATH"]
    programs.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nAUTOPILOT_CLOCK_SPEED={theatre.speed:g} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    os.environ["PATH"] = f"{programs}:{path}"
    try:
        theatre.start_market()
    finally:
        os.environ["PATH"] = path


def leave_behind(theatre: Theatre, previous: Previous) -> LeftBehind:
    """Play the previous daemon's part on a market that runs already. Its daemon is dead at the end."""
    witnesses = {name: Witness(theatre.root / f"{name}.witness") for name in GPUS}
    witnesses["finished"].may_finish()
    for machine in theatre.emu("runpod/machines")["machines"]:
        if "4090" in machine["gpu_type_id"]:  # dearer than at vast.ai, where a machine that is outbid is only paused
            theatre.emu("runpod/floor", {"machine_id": machine["machine_id"], "price": "0.45"})
    with previous.serving(theatre):
        ids = {name: submit(theatre, _job_text(name, gpu, witnesses[name])) for name, gpu in GPUS.items()}
        for name in ("running", "paused", "moved"):
            until(partial(_has_checkpoint, theatre, ids[name]), f"a checkpoint of {name}")
        until(lambda: is_settled(theatre, show(theatre, ids["finished"])), "the bill of the finished job")
        reports = reports_on(theatre, ids["finished"])
        own = show(theatre, ids["paused"])["leases"][-1]["machine_id"]
        for machine in theatre.emu("machines")["machines"]:
            # A raise costs less than a new start elsewhere.
            if "4090" in machine["gpu_name"] and str(machine["machine_id"]) != own:
                theatre.emu("floor", {"machine_id": machine["machine_id"], "price": "0.60"})
        outbid(theatre, show(theatre, ids["paused"])["leases"][-1])
        vanish(theatre, show(theatre, ids["moved"])["leases"][-1])
        until(lambda: _has_fields(theatre, ids["paused"], state="paused"), "the paused machine")
        until(lambda: _has_fields(theatre, ids["moved"], status="offline"), "the lost machine")
        for _ in range(2):  # what it had sent by then is verified
            until(partial(_ticked_since, theatre, _last_tick(theatre)), "the next tick")
        shown = {name: show(theatre, job_id) for name, job_id in ids.items()}
    assert [len(shown[name]["leases"]) for name in ids] == [1, 1, 1, 1, 0], shown
    return LeftBehind(ids, shown, witnesses, reports)


def reports_on(theatre: Theatre, job_id: str) -> dict[str, Any]:
    """What the daemon that serves now says of a job that is over, and what has happened to all jobs so far."""
    ask = theatre.client.get
    body = ask(f"/v1/jobs/{job_id}")
    (lease,) = body["leases"]
    spend = {by: ask("/v1/spend", by=by)["rows"] for by in ("job", "label", "instance")}
    month = {"month": lease["gone_at"][:7]}
    all_jobs = ask("/v1/jobs", all=1)["jobs"]
    return {
        "show": body,
        "show the machine": ask(f"/v1/instances/{lease['instance_id']}"),
        "ps": _only(all_jobs, "id", job_id),
        "why": {job["id"]: ask(f"/v1/jobs/{job['id']}/why", limit=1000) for job in all_jobs},
        "events": ask("/v1/events"),
        "reconcile": _only(ask("/v1/reconcile", **month)["rows"], "job_id", job_id),
        "spend by job": _only(spend["job"], "key", job_id),
        "spend by label": _only(spend["label"], "key", body["job"]["name"]),
        "spend by instance": _only(spend["instance"], "key", lease["instance_id"]),
        "spend of the month": _only(ask("/v1/spend", by="job", **month)["rows"], "key", job_id),
    }


def _only(rows: list[Json], key: str, value: str) -> list[Json]:
    found = [row for row in rows if row[key] == value]
    assert found, f"no row where {key} is {value}: {rows}"
    return found


def outbid(theatre: Theatre, lease: Json) -> None:
    """A rival takes the machine. The market fails to raise our bid, once."""
    theatre.emu("fault", {"on": "bid", "kind": "http_500", "times": 1})
    bid = next(Decimal(row["price"]) for row in theatre.emu("instances")["instances"] if _is(row, lease))
    rival = (bid * Decimal("1.05")).quantize(Decimal("0.001"))
    theatre.emu("rival", {"instance_id": int(lease["instance_id"]), "bid": str(rival)})


def vanish(theatre: Theatre, lease: Json) -> None:
    """The machine and all that runs on it is gone for good."""
    theatre.emu("host", {"machine_id": int(lease["machine_id"]), "state": "vanished"})


def _is(row: Json, lease: Json) -> bool:
    return bool(str(row["id"]) == lease["instance_id"])


def _last_tick(theatre: Theatre) -> str:
    return str(theatre.client.get("/v1/status")["last_tick_at"])


def _ticked_since(theatre: Theatre, seen: str) -> bool:
    return _last_tick(theatre) != seen


def _job_text(name: str, gpu: str, witness: Witness) -> str:
    steps = 30 if name == "finished" else STEPS
    text = JOB.format(
        name=name, gpu=gpu, python=sys.executable, training=TRAINING, steps=steps, step_s=STEP_S, witness=witness.path
    )
    return text + TOO_LOW if name == "waiting" else text


def _has_checkpoint(theatre: Theatre, job_id: str) -> bool:
    return bool(show(theatre, job_id)["checkpoints"])


def _has_fields(theatre: Theatre, job_id: str, **fields: str) -> bool:
    """Whether the job's newest machine is shown with these fields."""
    lease = show(theatre, job_id)["leases"][-1]
    return all(lease[name] == value for name, value in fields.items())


# --- the kept ledger


def restore_ledger(path: Path) -> None:
    """The kept ledger as a SQLite file, its days moved so that the newest one is yesterday."""
    text = LEDGER.read_text()
    newest = max(date.fromisoformat(day) for day in _DAY.findall(text) if day < "2100")
    shift = datetime.now(UTC).date() - timedelta(days=1) - newest
    with closing(sqlite3.connect(path)) as ledger:
        ledger.executescript(_DAY.sub(lambda day: str(date.fromisoformat(day[0]) + shift), text))


_DAY = re.compile(r"\b20\d\d-\d\d-\d\d(?=[T'\"])")


def kept_version(version: str, revision: str) -> str:
    """``version``, as the sources of ``revision`` state it, with the revision: no other program carries the same.

    Without a tag they come before the release of that version.
    """
    commit, tags = (
        subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
        for words in (
            ["rev-parse", "--short=12", f"{revision}^{{commit}}"],
            ["tag", "--points-at", f"{revision}^{{commit}}"],
        )
    )
    is_released = bool(tags) or ".dev" in version
    return f"{version}{'' if is_released else '.dev0'}+g{commit}"


def record(revision: str) -> None:
    """Keep the wheel of ``revision``, and the ledger that it leaves behind."""
    KEPT.mkdir(exist_ok=True)
    for old in KEPT.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        archive = subprocess.run(["git", "archive", revision], stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as sources:
            sources.extractall(root / "sources", filter="data")
        built = wheels.build(root / "sources", root / "built")
        wheels.under_version(built, kept_version(built.name.split("-")[1], revision), KEPT)
        previous = Previous(root / "wheel")
        with a_theatre(MARKETS) as theatre:
            start_market(theatre)
            leave_behind(theatre, previous)
            with closing(sqlite3.connect(theatre.root / "daemon" / "ledger.db")) as ledger:
                text = "\n".join(ledger.iterdump()) + "\n"
            # Paths of the machine that records mean nothing elsewhere.
            for path, name in ((sys.executable, "python3"), (TRAINING.parent, "/srv"), (theatre.root, "/srv")):
                text = text.replace(str(path), str(name))
            LEDGER.write_text(text)


if __name__ == "__main__":
    record(sys.argv[1])
