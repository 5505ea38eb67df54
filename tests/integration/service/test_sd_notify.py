"""The service manager's end of ``$NOTIFY_SOCKET``, a real socket: read, full, gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot.service.sd_notify import notify


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.setblocking(False)
        yield bound


def read_out(manager: socket.socket) -> list[str]:
    heard = []
    while True:
        try:
            heard.append(manager.recv(4096).decode())
        except BlockingIOError:
            return heard


def test_the_lines_of_one_call_are_one_message(manager: socket.socket) -> None:
    notify("READY=1", "STATUS=here")
    assert read_out(manager) == ["READY=1\nSTATUS=here"]


def test_a_manager_that_reads_nothing_does_not_block(manager: socket.socket) -> None:
    queue = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    for number in range(queue + 10):
        notify(f"STATUS={number}")  # a send that waits would never return here
    heard = read_out(manager)
    assert heard == [f"STATUS={number}" for number in range(len(heard))]
    assert queue <= len(heard) < queue + 10
    notify("READY=1")
    assert read_out(manager) == ["READY=1"]


def test_a_missing_manager_is_no_error(manager: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "notify").unlink()
    notify("READY=1")
    assert read_out(manager) == []
