"""``autopilot hosts`` against a real server: what is asked, and what is printed."""

from __future__ import annotations

import json

import pytest

from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon, sample
from tests.unit.cli.test_commands import printed

Capture = pytest.CaptureFixture[str]


def test_each_machine_is_a_line_for_people(daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = [" ".join(line.split()) for line in printed(capsys, "hosts").splitlines()]
    assert lines == [
        "MARKET ID GPU LAUNCHES FAILED LAST FAULT PACE LOADS IN LAST SEEN (UTC)",
        "vastai 43971 RTX 4090 1.7 0.9 stuck loading 12% 95 s 2026-02-01 11:20",
        "runpod NVIDIA L4 - 0.0 0.0 - - - 2026-01-31 10:00 blocked",
    ]


def test_json_is_the_daemon_s_answer(daemon: Daemon, capsys: Capture) -> None:
    assert json.loads(printed(capsys, "hosts", "--json")) == sample("hosts")


def test_nothing_is_remembered(daemon: Daemon, capsys: Capture) -> None:
    daemon.answers["GET /v1/hosts"] = (200, {"hosts": []})
    assert printed(capsys, "hosts", "--provider", "runpod").startswith("nothing is remembered")
    assert daemon.requests == [("GET /v1/hosts", "provider=runpod", None)]


@pytest.mark.parametrize("action", ["block", "forgive"])
def test_a_machine_is_blocked_and_forgiven(daemon: Daemon, capsys: Capture, action: str) -> None:
    daemon.answers[f"POST /v1/hosts/vastai/43971/{action}"] = (200, {"host": sample("hosts")["hosts"][0]})
    told = printed(capsys, "hosts", action, "vastai", "43971")
    assert told.startswith(f"vastai 43971 is {'blocked' if action == 'block' else 'forgiven'}: ")
    assert daemon.requests == [(f"POST /v1/hosts/vastai/43971/{action}", "", {})]


@pytest.mark.parametrize("words", [("block",), ("forgive", "vastai"), ("ls", "vastai")])
def test_other_words_ask_nothing(daemon: Daemon, capsys: Capture, words: tuple[str, ...]) -> None:
    assert run(("hosts", *words)) != 0
    assert daemon.requests == []
