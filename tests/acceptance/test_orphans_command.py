"""``autopilot orphans`` and ``autopilot sweep`` as processes of their own, beside a daemon and after its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.stage import a_theatre, assert_one_error, command, job_text, show, submit, until

pytestmark = pytest.mark.slow


def test_orphans_beside_the_daemon_and_a_sweep_after_its_end() -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        job_id = submit(theatre, job_text(100_000))
        until(lambda: show(theatre, job_id)["job"]["status"] == "running", "the job runs")
        done = command(theatre, "orphans")
        assert (done.returncode, done.stdout) == (0, "1 machines are wanted by jobs\n"), done.stderr
        assert_one_error(command(theatre, "sweep"), 2, "sweeps by itself", "--from-elsewhere")
        install_id = theatre.client.get("/v1/status")["install_id"]
        (machine,) = theatre.emu("instances")["instances"]

        theatre.kill_daemon()
        # Another host: another state directory, the same market and its key.
        elsewhere: dict[str, Any] = {"AUTOPILOT_STATE_DIR": str(theatre.root / "elsewhere")}
        (Path(theatre.root) / "elsewhere").mkdir()
        listed = command(theatre, "sweep", "--from-elsewhere", "--json", **elsewhere)
        assert listed.returncode == 0, listed.stderr
        (row,) = json.loads(listed.stdout)["machines"]
        assert (row["install_id"], row["label"], row["due"]) == (install_id, machine["label"], False)
        assert_one_error(command(theatre, "sweep", "--from-elsewhere", "--kill", **elsewhere), 2, "--install-id")
        words = ("--install-id", install_id, "--kill")
        spared = command(theatre, "sweep", "--from-elsewhere", *words, **elsewhere)
        assert "0 destroyed and seen gone" in spared.stdout, spared.stderr
        swept = command(theatre, "sweep", "--from-elsewhere", *words, "--older-than", "0s", **elsewhere)
        assert swept.returncode == 0, swept.stderr
        assert "1 destroyed and seen gone, 0 not gone yet" in swept.stdout
        assert all(row["destroyed_at"] for row in theatre.emu("instances")["instances"])
