"""``autopilot init`` writes what the daemon then reads, and keeps what is there."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.api.key_hint import replace_keys
from autopilot.cli import meeting_place, setup
from autopilot.cli.main import run
from autopilot.config.keys import read_key, store_key
from autopilot.config.meeting import SERVICES
from autopilot.config.paths import packaged_config
from autopilot.config.settings import load_settings
from autopilot.markets.installed import every_market


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


def test_under_a_strict_umask_the_system_s_daemon_reads_the_limits_and_only_root_the_key(
    home: Path, key_file: Path
) -> None:
    old_mask = os.umask(0o077)
    try:
        assert run(["init", "--system", "--vast-key-file", str(key_file)]) == 0
    finally:
        os.umask(old_mask)
    directory = home / "etc"
    written = [directory, directory / "autopilot.toml", directory / "credentials"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o755, 0o644, 0o700]
    assert stat.S_IMODE((directory / "credentials/vastai_api_key").stat().st_mode) == 0o600


def test_a_new_key_by_force_leaves_the_limits_alone(
    home: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--vast-key-file", str(key_file)]) == 0
    config = home / ".config/autopilot/autopilot.toml"
    config.write_text("# mine\n")
    key_file.write_text("other-key")
    capsys.readouterr()
    assert run(["init", "--vast-key-file", str(key_file)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["kept", "kept"]
    assert config.read_text() == "# mine\n"
    assert load_settings().secret_values() == ("secret-key",)
    other_market = store_key(config.parent / "credentials", "runpod", "runpod-key")
    assert run(["init", "--force", "--vast-key-file", str(key_file)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["kept", "wrote"]
    assert config.read_text() == "# mine\n"
    assert sorted(load_settings().secret_values()) == ["other-key", "runpod-key"]
    assert sorted(path.name for path in config.parent.iterdir()) == ["autopilot.toml", "credentials"]
    assert other_market.read_text() == "runpod-key\n"


def test_force_without_a_key_replaces_the_settings_and_saves_the_former(
    home: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--vast-key-file", str(key_file)]) == 0
    config = home / ".config/autopilot/autopilot.toml"
    config.write_text("# mine\n")
    config.chmod(0o640)
    capsys.readouterr()
    assert run(["init", "--force"]) == 0
    former = config.with_name("autopilot.toml.bak")
    assert (former.read_text(), stat.S_IMODE(former.stat().st_mode)) == ("# mine\n", 0o640)
    assert config.read_text() == packaged_config().read_text()
    assert load_settings().secret_values() == ("secret-key",)
    out = capsys.readouterr().out
    assert str(former) in out
    assert "no vast.ai key stored" not in out


@pytest.mark.parametrize(
    ("market", "option"), [(name, facts.key_option) for name, facts in every_market().items() if facts.key_option]
)
def test_the_command_for_a_refused_key_replaces_it(home: Path, key_file: Path, market: str, option: str) -> None:
    stored = store_key(home / ".config/autopilot/credentials", market, "refused-key")
    advised = re.search(r"autopilot (init[^()]*) FILE", replace_keys([market]))
    assert advised is not None
    assert option in advised[1]
    assert run([*advised[1].split(), str(key_file)]) == 0
    assert read_key(stored) == "secret-key"


def test_the_advice_names_every_market_it_can() -> None:
    both = replace_keys(["paper-vastai", "runpod", "another"])
    assert "--force --vast-key-file FILE --runpod-key-file FILE" in both
    assert "api_key_file" in replace_keys(["another"])


def test_runpod_s_key_is_stored_beside_it(home: Path, key_file: Path) -> None:
    assert run(["init", "--runpod-key-file", str(key_file)]) == 0
    assert (home / ".config/autopilot/credentials/runpod_api_key").read_text().strip() == "secret-key"
    assert list(load_settings().markets) == ["runpod"]


def test_without_a_terminal_no_key_is_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    out = capsys.readouterr().out
    assert "no vast.ai key stored" in out
    assert "no RunPod key stored" in out
    assert "no Mithril key stored; later: autopilot init --mithril-key-file FILE" in out
    assert "no Nebius key stored; later: autopilot init --nebius-key-file FILE" in out
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


def test_limits_and_a_bucket_from_the_command_line(
    home: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = ["--bucket", "s3://b/autopilot", "--region", "auto", "--bucket-key-file", str(key_file)]
    key_file.write_text("id:secret")
    assert run(["init", "--day", "20", "--month", "$300", *bucket, "--endpoint", "https://r2.example"]) == 0
    settings = load_settings()
    assert (settings.limits.day, settings.limits.month) == (Decimal(20), Decimal(300))
    assert (settings.blobs.url, settings.blobs.endpoint) == ("s3://b/autopilot", "https://r2.example")
    assert settings.bucket_key() == ("id", "secret")
    out, err = capsys.readouterr()
    assert "secret" not in out + err
    assert run(["init", "--day", "25"]) == 0
    assert "kept limits.day, which autopilot.toml sets already" in capsys.readouterr().out
    assert run(["init", "--day", "much"]) == 2


@pytest.mark.parametrize("answer", ["1", "r2"])
def test_on_a_terminal_it_asks_and_the_daemon_reads_the_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    answers = iter(["20", "", "3", answer, "my-bucket", "0a1b2c"])
    hidden = iter(["vast-key", "", "", "", "id:hidden-secret"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    monkeypatch.setattr("getpass.getpass", lambda _: next(hidden))
    monkeypatch.setattr(setup, "_check", lambda: 0)
    assert run(["init"]) == 0
    settings = load_settings()
    assert settings.limits.day == 20
    assert settings.limits.month == 500
    assert settings.limits.uncertified == 3
    assert settings.blobs.url == "s3://my-bucket/autopilot"
    assert settings.blobs.endpoint == "https://0a1b2c.r2.cloudflarestorage.com"
    assert settings.bucket_key() == ("id", "hidden-secret")
    out, err = capsys.readouterr()
    assert "Object Read & Write for the bucket my-bucket alone" in out
    assert "hidden-secret" not in out + err
    assert next(answers, None) is None


def test_a_key_and_enter_is_enough(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, hidden = iter(["", "", "", ""]), iter(["vast-key", "", "", ""])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    monkeypatch.setattr("getpass.getpass", lambda _: next(hidden))
    monkeypatch.setattr(setup, "_check", lambda: 0)
    assert run(["init"]) == 0
    settings = load_settings()
    assert (list(settings.markets), settings.limits.day) == (["vastai"], Decimal(50))
    assert next(answers, None) is None


def test_an_address_of_one_s_own_has_a_fixed_port(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--public-url", "https://mailbox.example"]) == 0
    blobs = load_settings().blobs
    assert (blobs.public_url, blobs.listen) == ("https://mailbox.example", "127.0.0.1:8787")
    (home / ".config/autopilot/autopilot.toml").unlink()
    assert run(["init", "--public-url", "https://mailbox.example", "--listen", "127.0.0.1:9000"]) == 0
    assert load_settings().blobs.listen == "127.0.0.1:9000"
    capsys.readouterr()


def test_an_address_of_one_s_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["", "", "0", "6", "https://mailbox.example", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    values, key = meeting_place.ask()
    assert key is None
    assert values == {("blobs", "public_url"): "https://mailbox.example", ("blobs", "listen"): "127.0.0.1:8787"}


@pytest.mark.parametrize(("answer", "set_to"), [("", "$5"), ("2.50", "$2.50"), ("0", None)])
def test_what_may_be_spent_without_a_certificate_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, answer: str, set_to: str | None
) -> None:
    answers = iter(["", "", answer, ""])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert meeting_place.ask()[0].get(("limits", "uncertified")) == set_to


@pytest.mark.parametrize(("mbps", "set_to"), [("", {}), ("40", {("blobs", "home_mbps"): "40"})])
def test_it_offers_to_dial_machines_from_here(
    monkeypatch: pytest.MonkeyPatch, mbps: str, set_to: dict[tuple[str, str], str]
) -> None:
    answers = iter(["", "", "0", str(len(SERVICES) + 2), mbps])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert meeting_place.ask() == (set_to, None)
    assert next(answers, None) is None
