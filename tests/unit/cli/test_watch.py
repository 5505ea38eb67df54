"""What ``ps -w`` tells below the list while a job is outbid, comes back and ends."""

from __future__ import annotations

import time
from typing import Any

import pytest
from rich.console import Console

from autopilot.cli import watch
from autopilot.client.json_client import JsonClient
from tests.unit.cli.sample_daemon import Daemon, sample, sample_job

JOB = "01KDZ3V8XQ7M2N4P6R8T0V1W2X"


def event(seq: int, at: str, name: str, lease: str | None = "L1", job: str = JOB, **fields: Any) -> dict[str, Any]:
    stamp = f"2026-01-01T{at}+00:00"
    return {"seq": seq, "at": stamp, "name": name, "job_id": job, "lease_id": lease, "fields": fields}


def shown(client: JsonClient, news: watch.News) -> str:
    out = Console(width=80, record=True, file=None)
    with out.capture() as captured:
        out.print(watch.render(client, news, None))
    return captured.get()


def test_a_line_grows_as_more_of_it_happens(daemon: Daemon) -> None:
    listed = sample("jobs")["jobs"][:1]
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": listed})
    before = [event(3, "06:30:00", "job.submitted", None)]
    daemon.answers[f"GET /v1/jobs/{JOB}"] = (200, {"job": listed[0], "events": before})
    pages = [
        [],
        [event(7, "06:36:02", "lease.paused", cause="outbid", bid="0.278"),
         event(8, "06:36:02", "work.lost", seconds=15),
         event(9, "06:36:02", "job.paused", None, reason="outbid")],
        [],
        [event(10, "06:36:03", "bid.intended", bid="0.306", **{"from": "0.278"}),
         event(11, "06:36:04", "job.submitted", None, job="another")],
        [event(12, "06:36:04", "bid.changed", bid="0.306")],
        [],
        [event(13, "06:36:21", "lease.resumed", bid="0.306"), event(14, "06:40:00", "job.succeeded", None)],
        [],
    ]  # fmt: skip
    daemon.answers["GET /v1/events"] = (200, [{"events": page} for page in pages])
    client = JsonClient()
    news = watch.News(client)
    assert shown(client, news).splitlines()[-1] == "06:30 bert-qa: submitted"
    assert shown(client, news).splitlines()[-1] == "06:30 bert-qa: submitted"
    outbid = "06:36 bert-qa: outbid at $0.278/h"
    assert shown(client, news).splitlines()[-1] == f"{outbid}; 15 s of work lost"
    assert shown(client, news).splitlines()[-1] == f"{outbid}; raised to $0.306/h; 15 s of work lost"
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": []})
    text = " ".join(shown(client, news).split())
    assert f"{outbid}; raised to $0.306/h; back after 19 s; 15 s of work lost" in text
    assert text.endswith("06:40 bert-qa: the job succeeded"), "told although it is off the list"
    assert "another" not in text
    assert [query for path, query, _ in daemon.requests if path == "GET /v1/events"][-1] == "after=14"


def test_the_newest_lines_alone_are_on_the_screen(daemon: Daemon) -> None:
    many = [event(seq, f"07:{seq:02d}:00", "lease.offline", f"L{seq}") for seq in range(1, 20)]
    daemon.answers[f"GET /v1/jobs/{JOB}"] = (200, {"events": many})
    lines = watch.News(JsonClient()).read([sample_job(id=JOB, name="x")])
    assert [line[:5] for line in lines] == [f"07:{minute}" for minute in range(12, 20)]


def test_watch_shows_until_it_is_ended(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", end)
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": []})
    watch.watch(JsonClient(), None)
    assert "no open jobs" in capsys.readouterr().out
