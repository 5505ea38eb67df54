"""A job on a machine of one's own: a daemon, the command line and OpenSSH, each a process, at real speed."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import ForkedTheatre, command, is_settled, show, submit, until
from tests.ssh_machines import OwnMachines, needs_openssh, own_machines

pytestmark = [pytest.mark.slow, needs_openssh]

STEPS = 1500
TRAIN = f"""
import json, os, pathlib, time
saved = pathlib.Path("ckpt/state.json")
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
print("begins at", step, flush=True)
while step < {STEPS}:
    time.sleep(0.1)
    step += 1
    if step % 20:
        continue
    saved.parent.mkdir(exist_ok=True)
    saved.with_suffix(".new").write_text(json.dumps({{"step": step}}))
    os.replace(saved.with_suffix(".new"), saved)
print("secrets", sorted(name for name in os.environ if "KEY" in name or "SECRET" in name), flush=True)
"""
JOB = f"""name = "train"
image = "none/none"
run = '''python3 -c '{TRAIN}' '''
workdir = "/workspace"

[resources]
gpu = "RTX 4090:1"
disk = "1GB"

[work]
estimate = "3m"

[budget]
total = "$1.00"

[checkpoint]
path = "ckpt"
interval = "10s"
"""


@dataclass
class Home:
    theatre: Theatre
    machines: OwnMachines


@pytest.fixture
def home() -> Iterator[Home]:
    """One machine that costs nothing, and a daemon whose mailbox it reaches by an address on loopback."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    (root / "ssh").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        mailbox = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {"AUTOPILOT_BLOBS__LISTEN": mailbox, "AUTOPILOT_BLOBS__PUBLIC_URL": f"http://{mailbox}"}
    theatre = ForkedTheatre(root, seed=1, speed=1, tick_s=1, markets=(), settings=settings)
    try:
        with own_machines(root / "ssh", "attic") as machines:
            (root / "autopilot.toml").write_text(
                f'[providers.ssh]\nconfig_file = "{machines.config_file}"\n'
                f'[providers.ssh.machines.attic]\nhost = "attic"\ndirectory = "{machines.directory("attic")}"\n'
                'gpus = "RTX 4090:1"\nvram_gb = 24\nowner_may_take_back = true\n'
            )
            yield Home(theatre, machines)
            theatre.stop()
    finally:
        theatre.stop()
        shutil.rmtree(root, ignore_errors=True)


def at_work(home: Home, job_id: str) -> bool:
    job = show(home.theatre, job_id)["job"]
    return job["status"] == "running" and job["main"] is not None and job["main"]["agent_state"] == "running"


def test_a_job_goes_on_after_a_reboot_and_costs_nothing(home: Home) -> None:
    theatre, machines = home.theatre, home.machines
    told = command(theatre, "doctor").stdout
    assert "on-demand (no spot)" in told
    assert "jobs at once 0 of 1 in attic" in told
    theatre.start_daemon()
    job_id = submit(theatre, JOB)
    until(lambda: at_work(home, job_id), "a machine at work", every_s=0.2)
    until(lambda: show(theatre, job_id)["job"].get("checkpoint"), "a checkpoint", every_s=0.2)
    machines.reboot("attic")
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job", every_s=0.2)
    body = show(theatre, job_id)
    assert body["job"]["status"] == "succeeded", body
    assert len(body["leases"]) == 1, "it started again where it was"
    logs = command(theatre, "logs", job_id).stdout
    begun = [int(line.split()[-1]) for line in logs.splitlines() if "begins at" in line]
    assert begun[0] == 0, logs
    assert begun[-1] > 0, logs
    assert "secrets []" in logs
    assert machines.leases("attic") == {}
    spent = command(theatre, "spend").stdout
    assert "$0.00" in spent, spent


def test_its_owner_takes_it_back_and_gives_it_again(home: Home) -> None:
    theatre, machines = home.theatre, home.machines
    theatre.start_daemon()
    job_id = submit(theatre, JOB)
    until(lambda: at_work(home, job_id), "a machine at work", every_s=0.2)
    until(lambda: show(theatre, job_id)["job"].get("checkpoint"), "a checkpoint", every_s=0.2)
    mark = machines.directory("attic") / "taken-back"
    mark.touch()
    until(lambda: show(theatre, job_id)["job"]["status"] == "paused", "the machine is taken back", every_s=0.2)
    assert machines.processes("attic") == {}
    mark.unlink()
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job", every_s=0.2)
    body = show(theatre, job_id)
    assert body["job"]["status"] == "succeeded", body
    assert len(body["leases"]) == 1, "it goes on where it was"
    logs = command(theatre, "logs", job_id).stdout
    assert int([line for line in logs.splitlines() if "begins at" in line][-1].split()[-1]) > 0, logs
