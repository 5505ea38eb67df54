"""``autopilot resume --from-store``: what the store holds is told, and asked about."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import FoundInStore
from autopilot.answers.status import Status
from autopilot.cli import actions
from autopilot.cli.exits import CommandError
from autopilot.cli.store_return import tell
from autopilot.cli.trouble import tell as tell_trouble
from autopilot.domain.errors import UserError
from tests.unit.cli.sample_daemon import Daemon, sample

LEASE = "01KDVDNS7G6S7TBT0FY0SCN6QT"
STORE: dict[str, Any] = {
    "checkpoint": {
        "lease_id": LEASE,
        "number": 7,
        "step": 4100,
        "run_epoch": 3,
        "size_bytes": 1_500_000_000,
        "age_s": 7800.0,
    },
    "machines": [
        {
            "lease_id": LEASE,
            "provider": "vastai",
            "instance_id": "47848147",
            "state": "active",
            "rented_at": "2026-01-30T08:15:00+00:00",
            "per_hour": "0.31",
        }
    ],
    "passed_over": [
        {"lease_id": LEASE, "number": 8, "why": "not whole"},
        {"lease_id": "x\x1b[2J", "number": None, "why": "none of ours"},
    ],
}


@pytest.fixture
def asked(daemon: Daemon) -> Daemon:
    """One that has read the store."""
    _, body = daemon.answers["POST /v1/jobs/bert-qa/resume"]
    daemon.answers["POST /v1/jobs/bert-qa/resume"] = (200, body | {"store": STORE})
    return daemon


def test_each_thing_that_was_found_has_a_line_and_nothing_of_a_machine_moves_the_cursor() -> None:
    assert list(tell(from_json(FoundInStore, STORE))) == [
        f"checkpoint: {LEASE}.7, step 4100, 1.5 GB, verified 2 h 10 min ago",
        f"machine: {LEASE}, vastai 47848147, since 2026-01-30 08:15 UTC, $0.31/h, its last word was that it is active",
        f"passed over: {LEASE}.8: not whole",
        "passed over: x[2J: none of ours",
    ]
    assert list(tell(FoundInStore(checkpoint=None, machines=[], passed_over=[]))) == [
        "checkpoint: the store has none that is newer than the ledger's"
    ]


def test_a_dry_run_changes_nothing(asked: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert actions.resume("bert-qa", from_store=True, dry_run=True) == 0
    assert capsys.readouterr().out.startswith(f"checkpoint: {LEASE}.7")


def test_without_a_terminal_it_does_not_prompt(asked: Daemon) -> None:
    with pytest.raises(CommandError, match="cannot ask for confirmation"):
        actions.resume("bert-qa", from_store=True)


def test_with_yes_it_goes_on(asked: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert actions.resume("bert-qa", from_store=True, yes=True) == 0
    assert "resumes from the store in the next ticks" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wish",
    [{"from_store": True, "from_checkpoint": "3"}, {"dry_run": True}, {"yes": True}, {"yes": True, "dry_run": True}],
)
def test_wishes_that_exclude_each_other_are_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        actions.resume("bert-qa", **wish)


def test_ps_names_the_job_and_the_command() -> None:
    (told,) = tell_trouble(from_json(Status, sample("status") | {"behind_store": ["train"]}))
    assert "machines of train that the ledger does not know" in told
    assert "autopilot resume train --from-store" in told
