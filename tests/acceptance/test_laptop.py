"""From a market's key to outputs at home, on a laptop that only dials out: two commands, at real speed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import DaemonAddress
from autopilot_lab.demo.theatre import Theatre
from tests import wheels
from tests.acceptance.laptop import PROXIES, Laptop, a_laptop
from tests.acceptance.stage import until
from tests.locks import ROOT
from tests.patience import PATIENCE_S

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own for the laptop takes root"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="iproute2 is not installed"),
]

TRAIN = """
import pathlib, time
for step in range(1, 41):
    time.sleep(1)
    print("step", step, flush=True)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs/result").write_text(f"{step} steps")
"""
"""Less than the interval until a first checkpoint: another machine begins again."""
LONG_S = 86_400
"""For which the customer who pays more keeps the machine."""


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ap-") as scratch:
        root = Path(scratch)
        (root / "dist").mkdir()
        built = wheels.build(ROOT, root / "dist")
        yield wheels.python_beside(built, root=root / "venv")


@pytest.fixture
def laptop(python: Path) -> Iterator[Laptop]:
    with tempfile.TemporaryDirectory(prefix="ap-") as root:
        try:
            with a_laptop(Path(root), python) as made:
                yield made
        except (PermissionError, subprocess.CalledProcessError) as refused:
            pytest.skip(f"no network of its own is to be had here: {refused}")


@pytest.fixture
def market(laptop: Laptop) -> Iterator[Theatre]:
    options = ("--host", laptop.far, "--ssh", "--ssh-names")
    made = Theatre(laptop.root / "t", seed=1, speed=1, market_options=options)
    made.start_market()
    made.market_url = f"http://{laptop.far}:{made.market_url.rpartition(':')[2]}"
    try:
        yield made
    finally:
        made.stop()


class Watched:
    """What the laptop's daemon says of its only job, over its socket."""

    def __init__(self, laptop: Laptop) -> None:
        self._client = JsonClient(
            DaemonAddress(laptop.home / ".local/state/autopilot/run/autopilot.sock"), timeout_s=30
        )

    def job(self) -> Any:
        try:
            found = self._client.get("/v1/jobs", all=1)["jobs"]
            return self._client.get(f"/v1/jobs/{found[0]['id']}")["job"] if found else None
        except DaemonError:
            return None

    def at_work(self) -> Any:
        """The machine, once the command runs there."""
        job = self.job()
        main = job["main"] if job and job["status"] == "running" else None
        return main if main and main["agent_state"] == "running" else None


def test_two_commands_bring_the_outputs_home_through_a_loss_of_the_machine(
    laptop: Laptop, market: Theatre, record_property: Callable[[str, object], None]
) -> None:
    environment = laptop.environment(int(market.market_url.rpartition(":")[2]))
    project = laptop.home / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    began = time.monotonic()
    shown = laptop.answer(environment, {"vast.ai": "sandbox-key"}, "init")
    assert "autopilot doctor reports" in shown

    run = ("run", "--gpu", "4090", "--budget", "2", "-y", "--", "python3", "train.py")
    running = laptop.start(project, environment, *run)
    daemon = Watched(laptop)
    first = until(lambda: running.poll() is not None or daemon.at_work(), "a machine at work", 2 * PATIENCE_S, 0.5)
    assert first is not True, running.communicate()[0]
    before = address_of(market, first["instance_id"])
    assert laptop.open_ports() == [], "it can be dialled"
    market.emu("on_demand_arrival", {"instance_id": int(first["instance_id"]), "duration_s": LONG_S})
    out, _ = running.communicate(timeout=2 * PATIENCE_S)
    took_s = time.monotonic() - began
    assert running.returncode == 0, out
    assert (project / "project-outputs/outputs/result").read_text() == "40 steps"
    assert "interrupted once" in out, out
    second = market.emu("instances")["instances"][-1]
    after = address_of(market, second["id"])
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert {before[0], after[0]} <= set(PROXIES)
    assert len(market.emu("instances")["instances"]) == 2
    record_property("seconds", round(took_s))
    print(f"\nfrom init to outputs at home: {took_s:.0f} s\n{out}", market.emu("instances"))


def address_of(market: Theatre, instance_id: object) -> tuple[str, int]:
    """As the market has shown it last."""
    found = next(each for each in market.emu("instances")["instances"] if each["id"] == int(str(instance_id)))
    return found["ssh"]["host"], found["ssh"]["port"]
