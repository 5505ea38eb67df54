"""A schedule of a real daemon, which is killed between two firings: each due instant becomes one job."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.acceptance.stage import command, first_tick, job_text, until
from tests.integration.service.service_world import a_patient_theatre

AGAIN = '[schedule]\ncron = "*/10 * * * *"\noverlap = "queue"\ncatch_up = true\ncount = 2\n'


@pytest.mark.slow
def test_a_schedule_goes_on_where_a_killed_daemon_left_it() -> None:
    with a_patient_theatre() as theatre:
        theatre.start_market()
        daemon = theatre.launch_daemon()
        first_tick(theatre.client)
        file = theatre.root / "nightly.toml"
        file.write_text(job_text(20) + AGAIN)
        submitted = command(theatre, "submit", str(file))
        assert submitted.returncode == 0, submitted.stderr
        assert "scheduled train" in submitted.stdout
        assert theatre.client.get("/v1/jobs")["jobs"] == []

        def fired(count: int) -> bool:
            (schedule,) = theatre.client.get("/v1/schedules", all=1)["schedules"]
            return bool(schedule["fired"] >= count)

        until(lambda: fired(1), "the first firing")
        daemon.kill()
        daemon.wait()
        theatre.start_daemon()
        until(lambda: fired(2), "the second firing")
        until(lambda: not theatre.client.get("/v1/jobs")["jobs"], "the end of both")
        jobs = theatre.client.get("/v1/jobs", all=1)["jobs"]
        assert [job["status"] for job in jobs] == ["succeeded"] * 2
        due = sorted(datetime.fromisoformat(job["due_at"]) for job in jobs)
        assert due[0] < due[1]
        assert all(each.minute % 10 == each.second == 0 for each in due)
        listed = command(theatre, "schedules", "--all")
        assert "2 of 2 fired" in listed.stdout
        assert "ended (count reached)" in listed.stdout
