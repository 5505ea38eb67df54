"""SIGSTOP of a real daemon, as when a laptop sleeps or its host is moved: a moment, and longer than a permit lasts."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from tests.acceptance.stage import SPEED, a_theatre, is_settled, job_text, market_events, show, submit, until

pytestmark = pytest.mark.slow

PERMIT_REAL_S = 900 / SPEED
"""The real time that a machine goes on without us."""


@pytest.mark.parametrize("is_long", [False, True], ids=["a-moment", "longer-than-a-permit"])
def test_a_daemon_that_was_stopped_takes_up_where_things_are(is_long: bool) -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        job_id = submit(theatre, job_text(9000))

        def at_work() -> bool:
            job = show(theatre, job_id)["job"]
            return job["status"] == "running" and job["checkpoint"] is not None

        def live() -> int:
            return sum(not row["destroyed_at"] for row in theatre.emu("instances")["instances"])

        def newest_step() -> int:
            return int(show(theatre, job_id)["job"]["checkpoint"]["step"])

        until(at_work, "a running job with a checkpoint")
        saved = newest_step()
        daemon = theatre.pids[0]
        os.kill(daemon, signal.SIGSTOP)
        if is_long:
            stopped_at = time.monotonic()
            # The listener goes on: what the job has done arrives, and the machine goes.
            until(lambda: market_events(theatre, "instance.destroyed"), "the end of a machine whose permit ran out")
            assert market_events(theatre, "instance.stopped") == [], "its disk would go on billing"
            # Half of it, for the last permit was renewed before the stop: on a busy machine, well before.
            assert time.monotonic() - stopped_at > PERMIT_REAL_S / 2, "it ended too soon"
        else:
            time.sleep(1)
        os.kill(daemon, signal.SIGCONT)
        if is_long:
            until(lambda: newest_step() > saved, "the last save is found")
        body = until(lambda: (told := show(theatre, job_id)) and is_settled(theatre, told) and told, "the job's end")
        assert body["job"]["status"] == "succeeded"
        assert body["job"]["step"] >= saved
        made = Counter(event["label"] for event in market_events(theatre, "instance.created"))
        assert sum(made.values()) <= (2 if is_long else 1)
        assert max(made.values()) == 1
        assert live() == 0
