"""``autopilot secret``: kept for their owner alone, listed by name, never shown."""

from __future__ import annotations

import io
import stat
from pathlib import Path

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
