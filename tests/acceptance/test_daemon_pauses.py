"""SIGSTOP of a real daemon, as when a laptop sleeps or its host is moved: a moment, and longer than a permit lasts."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from tests.acceptance.stage import SPEED, a_theatre, is_settled, job_text, market_events, show, submit, until

PERMIT_REAL_S = 900 / SPEED
"""The real time that a machine goes on without us."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pause_s", [1.0, PERMIT_REAL_S + 6], ids=["a-moment", "longer-than-a-permit"])
def test_a_daemon_that_was_stopped_takes_up_where_things_are(pause_s: float) -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        job_id = submit(theatre, job_text(9000))

        def at_work() -> bool:
            job = show(theatre, job_id)["job"]
            return job["status"] == "running" and job["checkpoint"] is not None

        until(at_work, "a running job with a checkpoint")
        saved = show(theatre, job_id)["job"]["checkpoint"]["step"]
        daemon = theatre.pids[0]
        os.kill(daemon, signal.SIGSTOP)
        time.sleep(pause_s)
        live = [row for row in theatre.emu("instances")["instances"] if not row["destroyed_at"]]
        assert len(live) == (1 if pause_s < PERMIT_REAL_S else 0), "the permit did not end it, or ended it too soon"
        os.kill(daemon, signal.SIGCONT)
        body = until(
            lambda: (told := show(theatre, job_id)) and is_settled(theatre, told) and told, "the job's end", 200
        )
        assert body["job"]["status"] == "succeeded"
        assert body["job"]["step"] >= saved
        made = Counter(event["label"] for event in market_events(theatre, "instance.created"))
        assert sum(made.values()) == (1 if pause_s < PERMIT_REAL_S else 2)
        assert all(row["destroyed_at"] for row in theatre.emu("instances")["instances"])
