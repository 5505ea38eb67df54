"""``autopilot secret``: kept for their owner alone, listed by name, never shown."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from autopilot.cli.main import run
from autopilot.config import secret_files
from autopilot.domain.errors import UserError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", str(tmp_path / "etc"))
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    return tmp_path / "autopilot" / "credentials"


def test_set_list_remove(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sentinel-value\n"))
    assert run(["secret", "set", "hf"]) == 0
    (home.parent / "file").write_text("two words")
    assert run(["secret", "set", "other", "--file", str(home.parent / "file")]) == 0
    assert stat.S_IMODE((home / "secret_hf").stat().st_mode) == 0o600
    assert (secret_files.read_secret("hf"), secret_files.read_secret("other")) == ("sentinel-value", "two words")
    assert run(["secret", "list"]) == 0
    assert run(["secret", "remove", "hf"]) == 0
    output = capsys.readouterr()
    assert "hf\nother\n" in output.out
    assert "sentinel-value" not in output.out + output.err
    with pytest.raises(UserError, match="no secret named 'hf'"):
        secret_files.read_secret("hf")


@pytest.mark.parametrize("words", [["set"], ["set", "../x"], ["set", ""], ["remove", "none"], ["remove", "../x"]])
def test_what_names_no_secret_is_refused(words: list[str], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x"))
    assert run(["secret", *words]) == 2
    assert not home.exists()


def test_a_secret_that_others_can_read_is_refused(home: Path) -> None:
    secret_files.store_secret("hf", "x").chmod(0o644)
    with pytest.raises(UserError, match="others can read"):
        secret_files.read_secret("hf")


def test_what_the_service_manager_hands_over_wins(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret_files.store_secret("hf", "mine")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "secret_hf").write_text("handed over")
    assert secret_files.read_secret("hf") == "handed over"


def test_the_system_s_daemon_has_a_place_of_its_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("value"))
    assert run(["secret", "set", "hf", "--system"]) == 0
    stored = tmp_path / "etc" / "credentials" / "secret_hf"
    assert stored.read_text() == "value\n"
    assert (stat.S_IMODE(stored.stat().st_mode), stat.S_IMODE(stored.parent.stat().st_mode)) == (0o600, 0o700)
    assert f"LoadCredential=secret_hf:{stored}" in capsys.readouterr().out
    assert not home.exists()
    assert run(["secret", "remove", "hf"]) == 2
    assert run(["secret", "remove", "hf", "--system"]) == 0
    assert not stored.exists()


def test_without_root_the_system_s_place_asks_for_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("value"))
    monkeypatch.setattr(secret_files, "store_private", forbidden)
    assert run(["secret", "set", "hf", "--system"]) == 1
    assert "hint: run it with sudo" in capsys.readouterr().err


def forbidden(path: object, *_: object) -> NoReturn:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_place_that_may_not_be_entered_holds_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under systemd, where the daemon's dynamic user may not look into root's directory."""
    monkeypatch.setattr("sys.stdin", io.StringIO("value"))
    assert run(["secret", "set", "hf", "--system"]) == 0
    system = tmp_path / "etc" / "credentials"
    handed_over = tmp_path / "handed-over"
    handed_over.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(handed_over))
    real_stat, real_list, real_is_file = Path.stat, os.listdir, os.path.isfile

    def stat_of(path: Path, **how: bool) -> os.stat_result:
        return forbidden(path) if path.parent == system else real_stat(path, **how)

    def listed(path: Path) -> list[str]:
        return forbidden(path) if path == system else real_list(path)

    def is_file(path: Path) -> bool:  # what ``Path.is_file`` asks from Python 3.14 on, and it never raises
        return Path(path).parent != system and real_is_file(path)

    monkeypatch.setattr(Path, "stat", stat_of)
    monkeypatch.setattr(os.path, "isfile", is_file)
    monkeypatch.setattr(os, "listdir", listed)
    assert secret_files.names() == []
    with pytest.raises(UserError, match="no secret named 'hf'") as refused:
        secret_files.read_secret("hf")
    assert all(str(place) in refused.value.message for place in (handed_over, system, home))
    assert f"LoadCredential=secret_hf:{system / 'secret_hf'}" in refused.value.hint
    assert "sudo autopilot secret set hf --system" in refused.value.hint
    (handed_over / "secret_hf").write_text("handed over")
    assert secret_files.read_secret("hf") == "handed over"


def test_a_registry_s_secret_is_kept_with_its_server_and_refused_with_another(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sentinel-value\n"))
    assert run(["secret", "set", "ghcr", "--server", "ghcr.io"]) == 0
    assert stat.S_IMODE((home / "registry_ghcr").stat().st_mode) == 0o600
    assert secret_files.registry_password("ghcr", "ghcr.io") == "sentinel-value"
    with pytest.raises(UserError, match=r"is for ghcr\.io, and is not sent to docker\.io"):
        secret_files.registry_password("ghcr", "docker.io")
    with pytest.raises(UserError, match="no secret named 'ghcr'"):
        secret_files.read_secret("ghcr")
    assert secret_files.readable_values() == ["sentinel-value"], "hidden in the log"
    assert run(["secret", "list"]) == 0
    assert run(["secret", "remove", "ghcr"]) == 0
    output = capsys.readouterr()
    assert "ghcr (registry ghcr.io)\n" in output.out
    assert "sentinel-value" not in output.out + output.err
    with pytest.raises(UserError, match="no registry secret named 'ghcr'"):
        secret_files.registry_password("ghcr", "ghcr.io")


@pytest.mark.parametrize(("server", "value"), [("https://ghcr.io", "x"), ("", "x"), ("ghcr.io", "two words")])
def test_what_no_registry_takes_is_refused_without_showing_it(
    server: str, value: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(value))
    assert run(["secret", "set", "ghcr", "--server", server]) == 2
    assert value == "x" or value not in capsys.readouterr().err
    assert not home.exists()
