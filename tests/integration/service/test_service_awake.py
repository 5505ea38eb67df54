"""The computer is kept awake exactly while a job has a machine, by a child that ends with the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from autopilot.service.sleep import Awake
from autopilot.system import find_awake_command
from tests.patience import eventually


def put_tool(place: Path, name: str, text: str) -> None:
    """In the place of the system's own: it runs the command that it is given, as that does."""
    tool = place / name
    tool.write_text(f"#!/bin/sh\n{text}\n")
    tool.chmod(0o755)


@pytest.mark.parametrize("is_mac", [False, True])
async def test_it_runs_while_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_mac: bool) -> None:
    name = "caffeinate" if is_mac else "systemd-inhibit"
    put_tool(tmp_path, name, 'for last; do :; done; exec "$last"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    command = find_awake_command(macos=is_mac)
    assert command is not None
    needed = [False]
    awake = Awake(lambda: needed[0], command, apart_s=0.01)
    async with awake.hold():
        assert awake.process is None
        needed[0] = True
        process = await eventually(lambda: awake.process, "it is needed")
        needed[0] = False
        await eventually(lambda: awake.process is None, "it is needed no more")
        await eventually(lambda: process.returncode is not None, "it has ended")
        needed[0] = True
        last = await eventually(lambda: awake.process, "it is needed again")
    assert last.returncode is not None


async def test_a_tool_that_refuses_is_told_once(tmp_path: Path) -> None:
    put_tool(tmp_path, "refuses", "exit 1")
    with structlog.testing.capture_logs() as logs:
        awake = Awake(lambda: True, (str(tmp_path / "refuses"),), apart_s=0.001)
        async with awake.hold():
            await eventually(lambda: logs, "it is said")
            for _ in range(5):
                await eventually(lambda: awake.process is None, "it is not asked again at once")
    assert [entry["event"] for entry in logs] == ["awake.not_kept"]
    assert "ended with 1" in logs[0]["reason"]


async def test_where_there_is_no_tool_that_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_awake_command() is None
    with structlog.testing.capture_logs() as logs:
        async with Awake(lambda: True, None, apart_s=0.001).hold():
            await eventually(lambda: logs, "it is said")
    assert len(logs) == 1
    assert "neither" in logs[0]["reason"]
