"""``serve --print-unit``: what starts a user's daemon at each login."""

from __future__ import annotations

import configparser
import plistlib

import pytest

from autopilot.cli.login_item import write_unit
from autopilot.cli.main import run


def test_a_unit_for_systemd(capsys: pytest.CaptureFixture[str]) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(write_unit("/log", macos=False, python="/opt/my env/50%/bin/python"))
    assert unit["Service"]["ExecStart"] == '"/opt/my env/50%%/bin/python" -P -m autopilot.cli.main serve'
    assert unit["Service"]["Type"] == "notify"
    assert unit["Install"]["WantedBy"] == "default.target"
    assert run(["serve", "--print-unit"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("[Unit]")
    assert "systemctl --user enable --now autopilot" in err


def test_an_agent_for_launchd() -> None:
    agent = plistlib.loads(write_unit("/a & b/daemon.log", macos=True, python="/opt/<env>/python").encode())
    assert agent["ProgramArguments"] == ["/opt/<env>/python", "-P", "-m", "autopilot.cli.main", "serve"]
    assert agent["StandardErrorPath"] == "/a & b/daemon.log"
    assert agent["KeepAlive"] is True
