"""Storage over SSH where the line is cut and slow, and where the laptop sleeps: what it costs is what was promised."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autopilot.client.answer import Json
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import match_books
from tests.acceptance.stage import ForkedTheatre, is_settled, job_text, market_events, show, submit, until
from tests.acceptance.test_over_ssh import a_dialling_theatre
from tests.relay import RelayBeside, relay_beside

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own for each machine takes root"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"),
]

PROGRAM = Path(__file__).parents[1] / "assets/training/witnessed.py"
INTERVAL_S = 60
UPLOAD_S = 240
"""Market seconds for taking, sending and verifying a checkpoint on a busy machine, over a line of 1 Mbit/s."""
SLOW_MBPS = 1.0
CUT_REAL_S = 5.0
AWAY_S = 3 * 3600


class Witness:
    """What the program saw of itself."""

    def __init__(self, path: Path, speed: float) -> None:
        self.path = path
        self._speed = speed

    def rows(self) -> list[tuple[float, str, int]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(float(at), kind, int(value)) for at, kind, value in (line.split() for line in lines)]

    def step(self) -> int:
        return max((value for _, _, value in self.rows()), default=0)

    def let_end(self) -> None:
        self.path.with_suffix(".end").touch()

    def starts(self) -> list[int]:
        return [value for _, kind, value in self.rows() if kind == "start"]

    def redone_s(self) -> float:
        """Market seconds of work of the first run on steps after the one that the second began at."""
        rows = self.rows()
        begins = [number for number, (_, kind, _) in enumerate(rows) if kind == "start"]
        first, (_, _, resumed) = rows[: begins[1]], rows[begins[1]]
        again = [at for at, _, step in first if step > resumed]
        return (again[-1] - again[0]) * self._speed if again else 0.0


@pytest.fixture
def theatre(speed: float) -> Iterator[ForkedTheatre]:
    yield from a_dialling_theatre(speed)


@pytest.fixture
def witness(tmp_path: Path, speed: float) -> Witness:
    return Witness(tmp_path / "witness", speed)


def submit_training(theatre: Theatre, witness: Witness) -> str:
    """It saves every 80 market seconds."""
    run = f"run = 'exec {sys.executable} {PROGRAM} {1 / theatre.speed} {witness.path}'"
    return submit(theatre, job_text(0, run=run, interval=f'interval = "{INTERVAL_S}s"'))


def at_work(theatre: Theatre, job_id: str, after: int = 0) -> Json | None:
    """The machine, once a checkpoint of a step after that is at home."""
    job = show(theatre, job_id)["job"]
    main, saved = job["main"], job["checkpoint"]
    is_there = main and main["agent_state"] == "running" and saved and saved["step"] >= 0
    return dict(main) if is_there and newest(theatre, job_id) > after else None


def newest(theatre: Theatre, job_id: str) -> int:
    """How many checkpoints have come home."""
    return len([each for each in show(theatre, job_id)["events"] if each["name"].startswith("checkpoint.")])


def settle(theatre: Theatre, job_id: str, machines: int) -> None:
    body = until(lambda: (told := show(theatre, job_id)) and is_settled(theatre, told) and told, "the end of the job")
    assert body["job"]["status"] == "succeeded"
    created = [event["label"] for event in market_events(theatre, "instance.created")]
    assert len(created) == len(set(created)) == len(body["leases"]) == machines
    assert all(row["destroyed_at"] for row in theatre.emu("instances")["instances"])
    check = match_books(theatre)
    assert check.holds, check.detail


@pytest.mark.parametrize("speed", [20.0])
def test_a_line_that_is_cut_costs_nothing_and_on_a_slow_one_a_loss_costs_an_interval_and_an_upload(
    theatre: ForkedTheatre, witness: Witness
) -> None:
    job_id = submit_training(theatre, witness)
    machine = until(lambda: at_work(theatre, job_id), "a checkpoint at home")
    instance_id = int(machine["instance_id"])
    door = next(each["ssh"] for each in theatre.emu("instances")["instances"] if each["id"] == instance_id)
    with relay_beside(door["host"], door["port"]) as line:
        theatre.emu("login", {"instance_id": instance_id, "port": line.port})
        until(lambda: line.passed, "a connection by the new address")
        come_home_more(theatre, job_id, line)

        line.cut()
        before = witness.step()
        time.sleep(CUT_REAL_S)
        assert witness.step() > before, "the job waits for the line"
        line.mend()
        come_home_more(theatre, job_id, line)
        assert len(witness.starts()) == 1

        line.slow_down(SLOW_MBPS)
        come_home_more(theatre, job_id, line)
        come_home_more(theatre, job_id, line)
        assert len(witness.starts()) == 1, "its permit ended beside what was sent"
        theatre.emu("on_demand_arrival", {"instance_id": instance_id, "duration_s": 86_400})
        until(lambda: len(witness.starts()) == 2, "a run elsewhere")
    assert witness.redone_s() <= INTERVAL_S + UPLOAD_S
    assert witness.starts()[1] > 0
    witness.let_end()
    settle(theatre, job_id, machines=2)


def come_home_more(theatre: Theatre, job_id: str, line: RelayBeside) -> None:
    """Wait for a whole checkpoint that has begun from now on."""
    known, passed = newest(theatre, job_id), line.passed
    until(lambda: newest(theatre, job_id) >= known + 2, "two more checkpoints")
    assert line.passed > passed


@pytest.mark.parametrize("speed", [40.0])
def test_a_laptop_that_sleeps_for_three_hours_loses_what_was_not_at_home(
    theatre: ForkedTheatre, witness: Witness
) -> None:
    job_id = submit_training(theatre, witness)
    until(lambda: at_work(theatre, job_id), "a checkpoint at home")
    known, saved = newest(theatre, job_id), witness.step()
    until(lambda: newest(theatre, job_id) >= known + 2, "what was saved by then is at home")
    with a_sleep(theatre.pids[0]):
        slept_at = time.monotonic()
        until(lambda: market_events(theatre, "instance.destroyed"), "the end of a machine whose permit ran out")
        assert market_events(theatre, "instance.stopped") == [], "its disk would go on billing"
        time.sleep(max(AWAY_S / theatre.speed - (time.monotonic() - slept_at), 0))
        worked_on = witness.step()
        assert len(market_events(theatre, "instance.created")) == 1
    until(lambda: len(witness.starts()) == 2, "a run elsewhere")
    assert saved <= witness.starts()[1] <= worked_on
    witness.let_end()
    settle(theatre, job_id, machines=2)


@contextmanager
def a_sleep(daemon: int) -> Iterator[None]:
    """As a closed lid: nothing of it runs."""
    asleep = descendants(daemon)
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(asleep):
            os.kill(pid, signal.SIGCONT)


def descendants(pid: int) -> list[int]:
    """It and all that it has started, itself first."""
    found, number = [pid], 0
    while number < len(found):
        for children in Path(f"/proc/{found[number]}/task").glob("*/children"):
            found += map(int, children.read_text().split())
        number += 1
    return found
