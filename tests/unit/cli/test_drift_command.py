"""``autopilot drift`` against a real server: what is asked, and what is printed."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.sample_daemon import Daemon, sample
from tests.unit.cli.test_commands import printed

Capture = pytest.CaptureFixture[str]


def test_json_is_the_daemon_s_answer(daemon: Daemon, capsys: Capture) -> None:
    assert json.loads(printed(capsys, "drift", "--json")) == sample("drift")
    assert [json.loads(line) for line in printed(capsys, "drift", "-o", "jsonl").splitlines()] == sample("drift")[
        "drifts"
    ]


def test_each_difference_is_a_line_for_people(daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = [" ".join(line.split()) for line in printed(capsys, "drift").splitlines()]
    assert lines == [
        "MARKET ANSWER FIELD DIFFERENCE READ ROWS SINCE (UTC) LAST SEEN (UTC)",
        "vastai instance dph_base has another type: text for money 1204 2026-01-30 08:15 2026-02-01 11:58",
        "vastai instance actual_status has an unknown value: hibernating yes 3 2026-01-31 19:00 2026-01-31 19:01",
        "runpod REST pod mounts.persistent is missing yes 1 2026-01-31 10:00 2026-01-31 10:00",
        "vastai offer surcharge is new: number no 88 2026-02-01 09:00 2026-02-01 11:30",
    ]


def test_one_market_and_nothing_to_say(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["GET /v1/drift"] = (200, {"drifts": []})
    assert printed(capsys, "drift", "--provider", "runpod").startswith("no differences")
    assert daemon.requests == [("GET /v1/drift", "provider=runpod", None)]
