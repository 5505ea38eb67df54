"""Sinks and pings in the settings: what is refused, in which words, and what the log must not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config.notices import NoticesSettings
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.service.notices import check_named, scrub_of, sinks_of, subscriptions_of, switch_of

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
HOOK = 'type = "webhook"\nurl = "https://hooks.example.org/x"\nsecret_file = "FILES/key"\n'
MAIL = 'type = "mail"\nhost = "mail.example.org"\nsender = "a@example.org"\nto = ["b@example.org"]\n'
CHAT = 'type = "service"\nurl_file = "FILES/chat"\n'


@pytest.fixture
def files(home: Path) -> Path:
    for name, text in (
        ("key", KEY),
        ("chat", "slack://TokenA123/TokenB123/TokenC1234567890"),
        ("password", "hunter22"),
    ):
        path = home / name
        path.touch(mode=0o600)
        path.write_text(text)
    return home


def load(files: Path, text: str) -> Settings:
    path = files / "own.toml"
    path.write_text(text.replace("FILES", str(files)))
    return load_settings(path)


def sink(keys: str) -> str:
    return f"[notices.sinks.team]\n{keys}"


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (sink('type = "pigeon"\n'), "notices.sinks.team.type"),
        (sink(HOOK + 'colour = "red"\n'), 'unknown key "colour" in [notices.sinks.team]'),
        (sink(HOOK.replace("https", "http")), "not an https address"),
        (sink(HOOK + 'url_file = "FILES/chat"\n'), "either url or url_file"),
        (sink(HOOK.replace("secret_file", "#")), 'type = "webhook" needs secret_file'),
        (sink(HOOK + 'host = "x"\n'), 'host means nothing for type = "webhook"'),
        (sink(HOOK + 'kinds = ["job_faild"]\n'), 'no notice is called "job_faild"'),
        (sink(MAIL.replace("b@", "B <b@")), "not a mail address"),
        (sink(MAIL.replace("b@example.org", "b@example.org\\nBcc: c@example.org")), "not a mail address"),
        (sink(MAIL + 'security = "none"\n'), "needs local = true"),
        (sink(MAIL + 'user = "me"\n'), "user and password_file belong together"),
        (sink(CHAT + 'url = "slack://a/b/c"\n'), 'url means nothing for type = "service"'),
        ('[notices.sinks."a b"]\n' + HOOK, "not a sink's name"),
        ('[notices.ping]\nurl = "http://example.org"\n', "not an https address"),
        ("[notices.ping]\nevery = 3\n", "either url or url_file"),
    ],
)
def test_what_is_refused(files: Path, text: str, phrase: str) -> None:
    with pytest.raises(UserError) as caught:
        load(files, text)
    assert phrase in str(caught.value)
    assert "own.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "phrase"),
    [
        ("key", "whsec_abc", "not a webhook key"),
        ("chat", "json://127.0.0.1/", "not a supported notice service"),
        ("chat", "ntfy://ntfy.example.org/topic", "ntfy"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(files: Path, name: str, text: str, phrase: str) -> None:
    (files / name).write_text(text)
    settings = load(files, sink(HOOK) + "[notices.sinks.chat]\n" + CHAT)
    with pytest.raises(UserError, match=r"notices\.sinks\.") as caught:
        sinks_of(settings.notices)
    assert phrase in str(caught.value)


def test_a_key_that_others_can_read_is_refused(files: Path) -> None:
    (files / "key").chmod(0o644)
    with pytest.raises(UserError, match="others can read"):
        sinks_of(load(files, sink(HOOK)).notices)


def test_the_three_types_and_whom_they_serve(files: Path) -> None:
    text = sink(HOOK + 'default = false\nkinds = ["job_failed"]\n')
    text += "[notices.sinks.chat]\n" + CHAT + "[notices.sinks.ops]\n" + MAIL
    settings = load(files, text + '[notices.ping]\nurl = "https://hc.example.org/uuid"\n')
    assert {name: made.place for name, made in sinks_of(settings.notices).items()} == {
        "team": "webhook at hooks.example.org",
        "chat": "Slack",
        "ops": "mail to b@example.org by mail.example.org",
    }
    wanted = subscriptions_of(settings.notices)
    assert (wanted["team"].is_default, wanted["team"].kinds) == (False, frozenset({"job_failed"}))
    assert switch_of(settings.notices) is not None
    assert settings.on_paper().notices.ping is None, "its pings would hide the silence of the daemon that spends"
    check_named(settings.notices.sinks, ["ops"])
    with pytest.raises(UserError, match="no sink named 'Ops'"):
        check_named(settings.notices.sinks, ["Ops"])


def test_the_log_hides_every_key_and_address(files: Path) -> None:
    text = sink(HOOK) + "[notices.sinks.chat]\n" + CHAT
    text += "[notices.sinks.ops]\n" + MAIL + 'user = "me"\npassword_file = "FILES/password"\n'
    settings = load(files, text + '[notices.ping]\nurl = "https://hc.example.org/uuid"\n')
    scrub = scrub_of(settings)
    for secret in (KEY, "hunter22", "https://hc.example.org/uuid", (files / "chat").read_text()):
        assert secret not in scrub(f"it said: {secret}")


def test_without_settings_there_is_nothing() -> None:
    assert sinks_of(NoticesSettings()) == {}
    assert switch_of(NoticesSettings()) is None
