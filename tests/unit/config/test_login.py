"""The login to a daemon elsewhere: its address, its file, and what goes before what."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config.daemon_address import DaemonAddress, find_daemon_address
from autopilot.config.login import DaemonLogin, check_daemon_url, forget_login, login_path, read_login, store_login
from autopilot.domain.errors import UserError

URL = "https://autopilot.example.org:8482"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTOPILOT_URL", "AUTOPILOT_TOKEN", "AUTOPILOT_CA_FILE", "AUTOPILOT_API__SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (URL, URL),
        (URL + "/", URL),
        ("https://Autopilot.example.org", "https://autopilot.example.org"),
        ("https://[2001:db8::1]:8482", "https://[2001:db8::1]:8482"),
        ("http://127.0.0.1:8482", "http://127.0.0.1:8482"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_an_address(given: str, kept: str) -> None:
    assert check_daemon_url(given) == kept


@pytest.mark.parametrize(
    "given", ["", "autopilot.example.org", "https://", "https://a:b@c", "https://a/v1", "https://a:x", "ftp://a"]
)
def test_what_is_none(given: str) -> None:
    with pytest.raises(UserError, match="not the address of a daemon"):
        check_daemon_url(given)


def test_an_address_elsewhere_needs_tls() -> None:
    with pytest.raises(UserError, match="has no TLS"):
        check_daemon_url("http://autopilot.example.org")


def test_it_is_kept_for_its_user_alone_and_forgotten() -> None:
    assert read_login() is None
    path = store_login(DaemonLogin(URL, "aptk_x", "/ca.pem"))
    assert path == login_path()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_login() == DaemonLogin(URL, "aptk_x", "/ca.pem")
    path.chmod(0o644)
    with pytest.raises(UserError, match="others can read"):
        read_login()
    path.chmod(0o600)
    for broken in ("{}", "x", '{"url": "ftp://a", "token": "", "ca_file": ""}'):
        path.write_text(broken)
        with pytest.raises(UserError):
            read_login()
    assert (forget_login(), forget_login()) == (True, False)


def test_a_variable_precedes_the_login_and_the_login_the_default_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find_daemon_address().socket is not None
    store_login(DaemonLogin(URL, "aptk_kept", "/ca.pem"))
    assert find_daemon_address() == DaemonAddress(None, URL, "/ca.pem", token="aptk_kept")
    monkeypatch.setenv("AUTOPILOT_TOKEN", "aptk_mine")
    assert find_daemon_address() == DaemonAddress(None, URL, "/ca.pem", token="aptk_mine")
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", "/run/s")
    assert find_daemon_address() == DaemonAddress(Path("/run/s"), token="aptk_mine")
    monkeypatch.setenv("AUTOPILOT_URL", "https://other.example.org")
    assert find_daemon_address() == DaemonAddress(None, "https://other.example.org", token="aptk_mine")
