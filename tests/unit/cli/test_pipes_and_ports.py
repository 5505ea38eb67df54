"""A reader that has gone, and ports that cannot be had: one line at most, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

COMMAND = [sys.executable, "-m", "autopilot.cli.main"]


@pytest.mark.parametrize("argv", [["--help"], ["submit", "--help"], ["completion", "bash"], ["version"]])
def test_a_closed_pipe_is_no_error_of_ours(argv: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*COMMAND, *argv], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, env=buffered
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("port", ["99999", "-5", "taken"])
def test_a_port_that_cannot_be_had(port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = str(other.getsockname()[1]) if port == "taken" else port
        done = subprocess.run(
            [*COMMAND, "sandbox", "--port", number], capture_output=True, text=True, timeout=PATIENCE_S
        )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{number}: ")
    assert "Traceback" not in done.stderr
