"""The machine's SSH server: whether there can be one, where, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.agent.shipped import markets, ssh
from autopilot.agent.shipped.child import Child
from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.offspring import list_beneath, list_processes
from autopilot.agent.shipped.ssh import Ssh
from autopilot.mailbox import wire
from tests.patience import until

VAST = {"PUBLIC_IPADDR": "203.0.113.7", "VAST_TCP_PORT_70022": "41234"}
RUNPOD = {"RUNPOD_PUBLIC_IP": "203.0.113.8", "RUNPOD_TCP_PORT_70022": "10022"}
KEY = {"AUTOPILOT_SSH_KEY": "ssh-ed25519 AAAA"}


def door(tmp_path: Path, env: dict[str, str]) -> Ssh:
    return Ssh(str(tmp_path / "ssh"), Child("0" * 32, lambda _: None), Log(1), lambda: ("/", {}, None), env)


def settle(made: Ssh) -> None:
    made.mind(True)
    if made.thread is not None:
        made.thread.join()


def test_the_agent_and_the_daemon_mean_the_same_port_and_variable() -> None:
    assert (markets.PUBLIC_PORT, ssh.KEY_VARIABLE) == (wire.SSH_PORT, wire.SSH_KEY_VARIABLE)


@pytest.mark.parametrize(
    ("env", "address"),
    [
        (VAST, ("203.0.113.7", 41234)),
        (RUNPOD, ("203.0.113.8", 10022)),
        ({**VAST, "PUBLIC_IPADDR": " 203.0.113.7\n"}, ("203.0.113.7", 41234)),
        ({}, None),
        ({**RUNPOD, "RUNPOD_PUBLIC_IP": ""}, None),
        ({**VAST, "VAST_TCP_PORT_70022": "70022"}, None),
        ({**VAST, "VAST_TCP_PORT_70022": "x"}, None),
    ],
)
def test_the_market_says_where_the_machine_is_reached(env: dict[str, str], address: tuple[str, int] | None) -> None:
    assert markets.public_address(env) == address


def test_without_a_key_nothing_is_opened_or_said(tmp_path: Path) -> None:
    made = door(tmp_path, VAST)
    settle(made)
    assert made.thread is None
    assert made.report() is None
    assert not (tmp_path / "ssh").exists()


def test_an_image_without_sshd_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "PLACES", str(tmp_path))
    made = door(tmp_path, {**VAST, **KEY, "PATH": str(tmp_path)})
    settle(made)
    assert made.report() == {"fault": "the image has no sshd (openssh-server)"}


def a_server(tmp_path: Path, body: str) -> dict[str, str]:
    """An image whose ``sshd`` is that script."""
    for name, text in (("sshd", body), ("ssh-keygen", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return {**KEY, "PATH": f"{tmp_path}:/usr/bin:/bin"}


def test_a_market_without_a_public_port_is_said(tmp_path: Path) -> None:
    made = door(tmp_path, a_server(tmp_path, "sleep 1000"))
    settle(made)
    assert made.report() == {"fault": "the market gave this machine no port that can be reached from outside"}


def test_a_server_that_ends_at_once_is_said_with_its_last_words(tmp_path: Path) -> None:
    made = door(tmp_path, {**a_server(tmp_path, "echo cannot bind >&2; exit 255"), **VAST})
    settle(made)
    assert made.report() == {"fault": "sshd does not start: cannot bind"}
    began = made.thread
    settle(made)
    assert made.thread is began, "it is tried again only after a while"


def test_the_door_is_shut_with_all_that_was_started_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "STARTS_WITHIN_S", 0.05)
    made = door(tmp_path, {**a_server(tmp_path, "sleep 1000 & wait"), **VAST})
    settle(made)
    report = made.report()
    assert report is not None
    assert (report["host"], report["port"]) == ("203.0.113.7", 41234)
    assert made.server is not None
    pid = made.server.pid
    until(lambda: bool(list_beneath(pid, list_processes())))
    beneath = list_beneath(pid, list_processes())
    assert beneath
    made.mind(False)
    assert not Path(f"/proc/{pid}").exists()
    until(lambda: not any(map(is_alive, beneath)))  # they are no children of this process: none waits for them
    assert not any(map(is_alive, beneath))
    assert made.report() is None
    config = (tmp_path / "ssh/config").read_text()
    assert "PasswordAuthentication no" in config
    assert "Port 41234" in config
    assert (tmp_path / "ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA\n"
    assert (tmp_path / "ssh").stat().st_mode & 0o077 == 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
