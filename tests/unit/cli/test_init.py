"""``autopilot init`` writes what the daemon then reads, and keeps what is there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.config.paths import packaged_config
from autopilot.config.settings import load_settings


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in list(os.environ):
        if name.startswith(("AUTOPILOT_", "XDG_")):
            monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory(prefix="home-") as directory:
        monkeypatch.setenv("HOME", directory)
        monkeypatch.setenv("CONFIGURATION_DIRECTORY", f"{directory}/etc")
        yield Path(directory)


@pytest.fixture
def key_file(home: Path) -> Path:
    path = home / "key"
    path.write_text("secret-key\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("system", [False, True])
def test_the_daemon_reads_what_init_wrote(
    home: Path, key_file: Path, system: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--vast-key-file", str(key_file), *(["--system"] if system else [])]) == 0
    directory = home / ("etc" if system else ".config/autopilot")
    assert (directory / "autopilot.toml").read_text() == packaged_config().read_text()
    stored = directory / "credentials/vastai_api_key"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.parent.stat().st_mode) == 0o700
    assert load_settings().secret_values() == ("secret-key",)
    out, err = capsys.readouterr()
    assert "secret-key" not in out + err


def test_what_exists_is_kept_unless_forced(home: Path, key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--vast-key-file", str(key_file)]) == 0
    config = home / ".config/autopilot/autopilot.toml"
    config.write_text("# mine\n")
    key_file.write_text("other-key")
    capsys.readouterr()
    assert run(["init", "--vast-key-file", str(key_file)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["kept", "kept"]
    assert config.read_text() == "# mine\n"
    assert load_settings().secret_values() == ("secret-key",)
    assert run(["init", "--force", "--vast-key-file", str(key_file)]) == 0
    assert config.read_text() == packaged_config().read_text()
    assert load_settings().secret_values() == ("other-key",)


def test_runpod_s_key_is_stored_beside_it(home: Path, key_file: Path) -> None:
    assert run(["init", "--runpod-key-file", str(key_file)]) == 0
    assert (home / ".config/autopilot/credentials/runpod_api_key").read_text().strip() == "secret-key"
    assert list(load_settings().markets) == ["runpod"]


def test_without_a_terminal_no_key_is_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    out = capsys.readouterr().out
    assert "no vast.ai key stored" in out
    assert "no RunPod key stored" in out
    assert not (home / ".config/autopilot/credentials").exists()


def test_a_loose_key_file_stops_it_before_anything_is_written(
    home: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file.chmod(0o644)
    assert run(["init", "--vast-key-file", str(key_file)]) == 2
    assert f"hint: run: chmod 600 {key_file}" in capsys.readouterr().err
    assert not (home / ".config").exists()


def test_a_place_that_cannot_be_written_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".config").write_text("in the way")
    assert run(["init"]) == 1
    assert "error: cannot write" in capsys.readouterr().err
