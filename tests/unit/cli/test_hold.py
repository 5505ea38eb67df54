"""A machine that is held: where it is shown, and that it is given back by name."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.answers.jobs import Note
from autopilot.cli.main import run
from autopilot.words import reasons
from tests.unit.cli.sample_daemon import Daemon, sample

SAID = "kept until 11-20 14:20, $0.31/h; autopilot release bert-qa releases it"


def held() -> dict[str, Any]:
    body: dict[str, Any] = sample("job")
    main = body["job"]["main"] | {"bid": "0.306", "storage_rate": "0.004"}
    body["job"] |= {"status": "failed", "held_until": "2026-11-20T14:20:00+00:00", "main": main}
    return body


def test_ps_and_show_say_until_when_and_at_what_price(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["GET /v1/jobs"] = (200, {"jobs": [held()["job"]]})
    daemon.answers["GET /v1/jobs/bert-qa"] = (200, held())
    assert run(["ps", "-a"]) == 0
    assert f"bert-qa: {SAID}" in " ".join(capsys.readouterr().out.split())
    assert run(["show", "bert-qa"]) == 0
    assert SAID in " ".join(capsys.readouterr().out.split())


def test_release_gives_it_back(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["POST /v1/jobs/bert-qa/release"] = (200, {"job": held()["job"] | {"held_until": None}})
    assert run(["release", "bert-qa"]) == 0
    assert "the machine of bert-qa" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("topic", "numbers", "said"),
    [
        ("hold", {"until": "2026-11-20T14:20:00+00:00", "reason": "command_failed"}, "until 11-20 14:20"),
        (
            "not_held",
            {"because": "budget_exhausted", "reserve": "0.31", "left": "0.2"},
            "would need $0.31, and the job",
        ),
        ("not_held", {"because": "over_day_limit", "reserve": "0.31", "left": None}, "(over day limit)"),
    ],
)
def test_decisions_about_it_are_told(topic: str, numbers: dict[str, Any], said: str) -> None:
    assert said in reasons.tell(Note(topic=topic, numbers=numbers))
