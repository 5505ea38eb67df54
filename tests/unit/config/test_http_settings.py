"""``[http]``: what would be open without TLS, or has no name, is refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autopilot.config.http import HttpSettings
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError

FILES = {"cert_file": "c", "key_file": "k"}
NAMES = {"names": ("autopilot.example.org",)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"listen": "127.0.0.1:0"},
        {"listen": "localhost:8482"},
        {"listen": "[::1]:8482"},
        {"listen": "127.0.0.1:8482"} | NAMES,
        {"listen": "192.0.2.7:8482"} | FILES,
        {"listen": "0.0.0.0:8482"} | FILES | NAMES,
        {"listen": "[::]:8482"} | FILES | NAMES,
    ],
)
def test_what_is_safe_is_taken(given: dict[str, Any]) -> None:
    HttpSettings(**given).check()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listen": "0.0.0.0:8482"} | NAMES, "without TLS tokens could be read"),
        ({"listen": "192.0.2.7:8482"}, "without TLS tokens could be read"),
        ({"listen": "autopilot.example.org:8482"}, "without TLS tokens could be read"),
        ({"listen": "0.0.0.0:8482"} | FILES, "does not list the names"),
        ({"listen": "[::]:8482"} | FILES, "does not list the names"),
        ({"listen": "127.0.0.1:0", "cert_file": "c"}, "go together"),
        ({"key_file": "k"}, "go together"),
    ],
)
def test_what_is_not_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        HttpSettings(**given).check()


@pytest.mark.parametrize("name", ["", "a b", "https://a", "a:8482", "a/b", "[::1]", "ä"])
def test_a_name_is_a_host_alone(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a host"):
        HttpSettings(names=(name,))


def test_it_is_read_from_files_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path))
    file = tmp_path / "autopilot.toml"
    file.write_text('[http]\nlisten = "127.0.0.1:8482"\nnames = ["Autopilot.example.org"]\n')
    assert load_settings(file).http.names == ("autopilot.example.org",)
    monkeypatch.setenv("AUTOPILOT_HTTP__LISTEN", "0.0.0.0:8482")
    with pytest.raises(UserError, match="without TLS"):
        load_settings(file)
    monkeypatch.setenv("AUTOPILOT_HTTP__LISTEN", "127.0.0.1:8482")
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / ("d" * 100)))
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(tmp_path / "s"))
    with pytest.raises(UserError, match="the socket for the listener"):
        load_settings(file)


def test_on_paper_the_port_stays_the_other_s() -> None:
    assert Settings(http=HttpSettings(listen="127.0.0.1:8482")).on_paper().http.listen is None
