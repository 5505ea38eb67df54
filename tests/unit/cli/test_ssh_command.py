"""``autopilot ssh`` and ``ssh-config``: what is given to the system's ssh, and what is refused before."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.shells import SshAnswer
from autopilot.cli.main import run
from autopilot.cli.ssh import arguments
from tests.unit.cli.sample_daemon import Daemon

WHERE = {"host": "203.0.113.7", "port": 41234, "user": "root", "lease": "01LEASE"}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of ssh: it writes down its words, and ends with 9."""
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\nexit 9\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def words(place: Path) -> list[str]:
    return (place / "words").read_text().splitlines()


def test_a_shell(daemon: Daemon, program: Path) -> None:
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE)
    assert run(["ssh", "bert-qa"]) == 9
    assert words(program)[-4:] == ["-p", "41234", "--", "root@203.0.113.7"]
    assert "HostKeyAlias=autopilot-01LEASE" in words(program)


def test_a_command_is_one_word_for_the_shell_of_the_machine(daemon: Daemon, program: Path) -> None:
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE)
    run(["ssh", "bert-qa", "--", "ls", "-l", "my file"])
    assert words(program)[-2:] == ["root@203.0.113.7", "ls -l 'my file'"]
    run(["ssh", "bert-qa", "--", "ls | wc"])
    assert words(program)[-1] == "ls | wc"


def test_the_private_key_beside_the_public_one_of_client_toml_is_used(daemon: Daemon, program: Path) -> None:
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE)
    (program / "autopilot").mkdir(exist_ok=True)
    (program / "autopilot/client.toml").write_text(f'[ssh]\nkey = "{program}/id.pub"\n')
    (program / "id").write_text("private")
    run(["ssh", "bert-qa"])
    assert words(program)[words(program).index("-i") + 1] == str(program / "id")


def test_ports_are_forwarded_on_loopback_alone(tmp_path: Path) -> None:
    made = arguments(from_json(SshAnswer, WHERE), None, [6006, 8888], tmp_path)
    assert [made[i + 1] for i, word in enumerate(made) if word == "-L"] == [
        "127.0.0.1:6006:127.0.0.1:6006",
        "127.0.0.1:8888:127.0.0.1:8888",
    ]
    assert "-i" not in made


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_out_of_range_is_refused(
    daemon: Daemon, program: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ssh", "bert-qa", f"--forward={port}"]) == 2
    assert "a port from 1 to 65535" in capsys.readouterr().err
    assert daemon.requests == []


def test_a_job_without_a_key_says_so(daemon: Daemon, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (422, {"detail": "without an SSH key", "hint": "autopilot exec"})
    assert run(["ssh", "bert-qa"]) == 2
    assert "hint: autopilot exec" in capsys.readouterr().err


def test_without_ssh_exec_is_named(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["ssh", "bert-qa"]) == 2
    assert "autopilot exec bert-qa" in capsys.readouterr().err


@pytest.fixture
def home(daemon: Daemon, program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(program / "home"))
    (program / "home").mkdir()
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE)
    return program / "home"


def read_by_openssh(config: Path, host: str) -> dict[str, str]:
    """As the real client understands it."""
    ssh = shutil.which("ssh", path="/usr/bin:/usr/local/bin:/bin")
    assert ssh is not None, "the tests need OpenSSH"
    done = subprocess.run([ssh, "-G", "-F", str(config), host], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_an_entry_is_understood_by_openssh(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = home / "my key"
    assert run(["ssh-config", "bert-qa", "-i", str(key)]) == 0
    (home / "config").write_text(capsys.readouterr().out)
    meant = read_by_openssh(home / "config", "autopilot-bert-qa")
    assert (meant["hostname"], meant["port"], meant["user"]) == ("203.0.113.7", "41234", "root")
    assert (meant["hostkeyalias"], meant["stricthostkeychecking"]) == ("autopilot-01lease", "accept-new")
    assert (meant["identityfile"], meant["identitiesonly"], meant["forwardagent"]) == (str(key), "yes", "no")
    assert read_by_openssh(home / "config", "elsewhere")["hostname"] == "elsewhere"


def test_it_is_written_apart_and_included_once(home: Path, daemon: Daemon) -> None:
    (home / "dotfiles").mkdir()
    (home / ".ssh").mkdir(mode=0o700)
    (home / "dotfiles/config").write_text("Host mine\n    User me\n")
    (home / ".ssh/config").symlink_to(home / "dotfiles/config")
    assert run(["ssh-config", "bert-qa", "--write"]) == 0
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE | {"port": 5})
    assert run(["ssh-config", "bert-qa", "--write"]) == 0
    main = home / ".ssh/config"
    assert main.is_symlink()
    assert main.read_text().count("Include") == 1
    assert stat.S_IMODE(main.stat().st_mode) == 0o600
    assert read_by_openssh(main, "autopilot-bert-qa")["port"] == "5"
    assert read_by_openssh(main, "mine")["user"] == "me"


@pytest.mark.parametrize("host", ["a\n    ProxyCommand touch x", "a b", "", "*"])
def test_a_market_cannot_write_lines_of_its_own(
    home: Path, daemon: Daemon, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["GET /v1/jobs/bert-qa/ssh"] = (200, WHERE | {"host": host})
    assert run(["ssh-config", "bert-qa", "--write"]) == 2
    assert "that ssh cannot use" in capsys.readouterr().err
    assert not (home / ".ssh").exists()
