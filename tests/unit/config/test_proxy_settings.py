"""``[http.proxy]``: listeners on which anybody could be anybody are refused, and so are users who cannot be let in."""

from __future__ import annotations

import pwd
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.config.http import HttpSettings
from autopilot.config.owners import MOST
from autopilot.config.proxy import ProxySettings, read_proxy
from autopilot.config.settings import LedgerSettings, Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.domain.proxied import ProxiedUser, is_proxied_name
from autopilot.domain.token import Bounds, Scope
from tests.permissions import OTHER_USER

ALICE: dict[str, Any] = {"users": {"alice": {}}}
SOCKET = {"listen": "unix:/run/p/http.sock"}
SECRET = {"secret_file": "/etc/autopilot/proxy-secret"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        SOCKET | ALICE,
        SOCKET | SECRET | ALICE,
        SOCKET | {"others": {}},
        {"listen": "127.0.0.1:0"} | SECRET | ALICE,
        {"listen": "[::1]:8483"} | SECRET | ALICE,
        ALICE,
    ],
)
def test_what_is_safe_is_taken(given: dict[str, Any]) -> None:
    HttpSettings(proxy=ProxySettings(**given)).check()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listen": "0.0.0.0:8483"} | SECRET | ALICE, "other machines can reach"),
        ({"listen": "192.0.2.7:8483"} | SECRET | ALICE, "other machines can reach"),
        ({"listen": "proxy.example.org:8483"} | SECRET | ALICE, "other machines can reach"),
        ({"listen": "127.0.0.1:8483"} | ALICE, "could claim to be the proxy"),
        (SOCKET, "no users are listed"),
    ],
)
def test_what_is_not_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        HttpSettings(proxy=ProxySettings(**given)).check()


@pytest.mark.parametrize("listen", ["unix:", "unix:http.sock", "unix:~/http.sock", "127.0.0.1", "/run/http.sock", ""])
def test_a_listener_has_an_address_or_the_path_of_a_socket(listen: str) -> None:
    with pytest.raises(ValueError, match="write it as"):
        ProxySettings(listen=listen)


@pytest.mark.parametrize(
    "header",
    [
        *("", "Remote User", "Remote_User", "Remote-User:", "-User", "Rémote-User", "x" * 61),
        *("Authorization", "cookie", "HOST", "Origin", "Sec-Fetch-Site", "Content-Length", "Idempotency-Key"),
        *("Autopilot-Peer", "Autopilot-Proxy-User", "autopilot-proxy-secret", "Transfer-Encoding", "TE"),
    ],
)
def test_a_header_with_another_meaning_names_no_user(header: str) -> None:
    with pytest.raises(ValueError, match="not the header of a proxy's user"):
        ProxySettings(user_header=header)


@pytest.mark.parametrize("header", ["Remote-User", "X-Forwarded-User", "x-auth-request-email", "User"])
def test_headers_of_proxies_do(header: str) -> None:
    assert ProxySettings(user_header=header).user_header == header


def test_who_is_let_in_and_for_what() -> None:
    users = {"alice@example.org": {"scope": "admin"}, "bob": {"owner": OTHER_USER, "all": True}}
    others = {"allow": "$20/month", "ask_above": "$5"}
    rules = read_proxy(ProxySettings.model_validate(SOCKET | {"users": users, "others": others}))
    assert rules.find("alice@example.org") == ProxiedUser(Bounds(Scope.ADMIN))
    uid = pwd.getpwnam(OTHER_USER).pw_uid
    assert rules.find("bob") == ProxiedUser(Bounds(Scope.SUBMIT, sees_all=True), uid)
    rest = Bounds(Scope.READ, allowance=Decimal(20), is_monthly=True, ask_above=Decimal(5))
    assert rules.find("Alice@example.org") == rules.find("carol") == ProxiedUser(rest), "names are as they are spelt"
    assert rules.find("carol, alice@example.org") is None
    closed = read_proxy(ProxySettings.model_validate({"users": users}))
    assert (closed.is_open, closed.find("carol")) == (False, None)


def test_names_are_those_of_users_and_mail_addresses() -> None:
    for name in ("a", "alice", "Alice.B+c@example.org", "auth0|5f7c", "CORP\\alice", "f81d4fae-7dec", "a" * 100):
        assert is_proxied_name(name), name
    for name in (
        "",
        " ",
        "a b",
        "a,b",
        "a\tb",
        "a\n",
        "\x7f",
        "é",
        "a" * 101,
        "@a",
        "<b>",
        'a"',
        "%61",
        "a;b",
        "a\udcff",
    ):
        assert not is_proxied_name(name), name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"users": {"a b": {}}}, "not a valid name for a user of a proxy"),
        ({"users": {"alice": {"owner": "no-such-user"}}}, "this machine has no user 'no-such-user'"),
        ({"users": {"alice": {"owner": OTHER_USER, "allow": "$5"}}}, f"its jobs are {OTHER_USER}'s"),
        ({"users": {"alice": {"allow": "$5/week"}}}, "http.proxy.users.'alice': allow cannot be"),
        ({"others": {"scope": "admin"}}, "would be an admin"),
        ({"others": {"allow": "-$1"}}, "http.proxy.others: "),
        ({"users": {f"u{number}": {} for number in range(MOST + 1)}}, f"{MOST} is the limit"),
    ],
)
def test_who_cannot_be_let_in(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        read_proxy(ProxySettings(**given))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("x" * 32, 0o640, "others can read"),
        ("x" * 31, 0o600, "at least 32"),
        ("x" * 32 + " y", 0o600, "one word"),
        ("é" * 32, 0o600, "one word"),
        ("", 0o600, "one word"),
    ],
)
def test_a_secret_that_is_short_or_that_others_read_is_refused(
    tmp_path: Path, text: str, mode: int, words: str
) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(UserError, match=words):
        read_proxy(ProxySettings(**SOCKET | ALICE, secret_file=file))


def test_the_secret_is_one_that_the_log_hides(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("s" * 40 + "\n")
    given = {"listen": "127.0.0.1:0", "secret_file": file, "users": {"alice": {}}}
    http = HttpSettings.model_validate({"proxy": given})
    ledger = LedgerSettings(url="sqlite+aiosqlite:///x")
    assert "s" * 40 in Settings(http=http, ledger=ledger).secret_values()
    assert Settings(http=http).on_paper().http.proxy.listen is None


def test_it_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path))
    file = tmp_path / "autopilot.toml"
    text = f'[http.proxy]\nlisten = "unix:{tmp_path}/p.sock"\n[http.proxy.users."alice@example.org"]\nscope = "read"\n'
    file.write_text(text)
    proxy = load_settings(file).http.proxy
    assert (proxy.socket, list(proxy.users)) == (tmp_path / "p.sock", ["alice@example.org"])
    file.write_text(text.replace("scope", "scoop"))
    with pytest.raises(UserError, match='unknown key "scoop"'):
        load_settings(file)
    file.write_text(text.replace("p.sock", "p" * 120))
    with pytest.raises(UserError, match="the path of the proxy's socket"):
        load_settings(file)
