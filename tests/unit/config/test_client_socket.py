"""A client finds the daemon where the daemon's own settings put it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config import paths
from autopilot.config.settings import load_settings
from autopilot.domain.errors import UserError
from tests.permissions import kept_out


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"XDG_RUNTIME_DIR": "/run/user/1"},
        {"XDG_STATE_HOME": "/srv/state"},
        {"AUTOPILOT_STATE_DIR": "/srv/autopilot"},
        {"AUTOPILOT_API__SOCKET": "/srv/a.sock", "XDG_RUNTIME_DIR": "/run/user/1"},
    ],
)
@pytest.mark.parametrize("config", ["", 'state_dir = "/srv/one"', '[api]\nsocket = "~/b.sock"'])
def test_client_and_daemon_agree(
    home: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], config: str
) -> None:
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", home / "none.sock")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (home / "own.toml").write_text(config)
    monkeypatch.setenv("AUTOPILOT_CONFIG", str(home / "own.toml"))
    assert paths.client_socket() == load_settings().socket_path


def test_without_a_daemon_of_ones_own_the_system_s_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = home / "system.sock"
    system.touch()
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", system)
    assert paths.client_socket() == system
    own = home / ".local/state/autopilot/run/autopilot.sock"
    own.parent.mkdir(parents=True)
    own.touch()
    assert paths.client_socket() == own


def test_a_broken_file_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "own.toml").write_text("[api")
    monkeypatch.setenv("AUTOPILOT_CONFIG", str(home / "own.toml"))
    with pytest.raises(UserError, match=r"own\.toml"):
        paths.client_socket()


def test_a_system_socket_that_may_not_be_looked_at_is_the_daemon_s_to_refuse(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = home / "run/system.sock"
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", system)
    system.parent.mkdir()
    home.chmod(0o755)
    assert paths.client_socket() != system
    with kept_out(system.parent):
        assert paths.client_socket() == system


def test_an_own_socket_that_may_not_be_looked_at_leaves_the_system_s(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, state = home / "system.sock", home / "state"
    system.touch()
    state.mkdir()
    home.chmod(0o755)
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", system)
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(state))
    with kept_out(state):
        assert paths.client_socket() == system
