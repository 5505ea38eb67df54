"""``autopilot token``, and whose name the other commands ask in."""

from __future__ import annotations

import re

import pytest

from autopilot.cli.main import run
from autopilot.client.connections import make_login
from autopilot.config.daemon_address import find_daemon_address
from tests.unit.cli.sample_daemon import Daemon

SECRET = "aptk_" + "x" * 43
MADE = {
    "number": 3,
    "name": "ci",
    "scope": "submit",
    "sees_all": True,
    "secrets": ["hf"],
    "created_at": "2026-11-20T09:30:00+00:00",
    "expires_at": "2026-12-20T09:30:00+00:00",
    "revoked_at": None,
    "in_force": True,
    "allowance": "20",
    "is_monthly": True,
    "ask_above": None,
    "made_by": "token:boss",
}


def test_the_value_alone_is_on_stdout(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["POST /v1/tokens"] = (201, {"token": MADE, "secret": SECRET})
    assert (
        run(
            [
                "token",
                "create",
                "ci",
                "--scope",
                "submit",
                "--all",
                "--expires",
                "30d",
                "--secret",
                "hf",
                "--allow",
                "$20/month",
            ]
        )
        == 0
    )
    out, err = capsys.readouterr()
    assert out == SECRET + "\n"
    assert "2026-12-20 09:30 UTC" in err
    wish = {
        "name": "ci",
        "scope": "submit",
        "sees_all": True,
        "expires": "30d",
        "ask_above": "",
        "secrets": ["hf"],
        "allow": "$20/month",
    }
    assert daemon.requests[-1][2] == wish


def test_the_list_and_the_end(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    over = MADE | {"number": 4, "name": "old", "in_force": False, "revoked_at": "2026-11-21T09:30:00+00:00"}
    over |= {"made_by": None}
    daemon.answers["GET /v1/tokens"] = (200, {"tokens": [MADE, over]})
    assert run(["token", "ls"]) == 0
    head, first, second = re.split(r"\n *(?=[34] )", capsys.readouterr().out)
    assert "$20.00/month" in first
    assert ("submit, all" in first, "in force" in first, "revoked" in second) == (True, True, True)
    assert ("MADE BY" in head, "token:boss" in first, "a user" in second) == (True, True, True)
    daemon.answers["POST /v1/tokens/ci/revoke"] = (200, {"token": MADE, "parked": ["01J"]})
    assert run(["token", "revoke", "ci", "--park"]) == 0
    assert capsys.readouterr().out == "revoked ci; 1 of its jobs is being parked\n"
    assert daemon.requests[-1][2] == {"park": True}
    ended = {"token": MADE, "parked": ["01J", "01K"], "ended": ["second", "third"]}
    daemon.answers["POST /v1/tokens/ci/revoke"] = (200, ended)
    assert run(["token", "revoke", "ci"]) == 0
    assert capsys.readouterr().out == "revoked ci, and what it made: second, third; 2 of their jobs are being parked\n"
    assert run(["token", "revoke"]) == 2


def test_a_token_in_the_environment_is_sent_and_never_printed(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_login(find_daemon_address()) == {}
    monkeypatch.setenv("AUTOPILOT_TOKEN", f" {SECRET}\n")
    assert make_login(find_daemon_address()) == {"Authorization": f"Bearer {SECRET}"}
    daemon.answers["GET /v1/spend"] = (401, {"detail": "the token is not known", "hint": ""})
    assert run(["spend"]) == 4
    monkeypatch.setenv("AUTOPILOT_TOKEN", "two words")
    assert run(["spend"]) == 2
    assert "two words" not in capsys.readouterr().err
