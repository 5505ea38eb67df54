"""Settings: which source wins, what an error says, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config import paths
from autopilot.config.settings import MarketClock, ProviderSettings, Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.service.certificates import certify_rules
from tests.permissions import kept_out


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(path: Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        load_settings(path)
    return str(caught.value)


def test_later_files_win_key_by_key_and_the_environment_beats_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "etc/autopilot.toml", '[limits]\nday = "$1"\nmonth = "$2"\nmax_hourly = "$3"\nmax_instances = 4\n')
    write(
        home / ".config/autopilot/autopilot.toml", '[limits]\nmonth = "$20"\nmax_hourly = "$30"\nmax_instances = 40\n'
    )
    write(home / "own.toml", '[limits]\nmax_hourly = "$300"\nmax_instances = 400\n')
    monkeypatch.setenv("AUTOPILOT_CONFIG", str(home / "own.toml"))
    monkeypatch.setenv("AUTOPILOT_LIMITS__MAX_INSTANCES", "5")
    limits = load_settings().limits
    assert (limits.day, limits.month) == (Decimal(1), Decimal(20))
    assert (limits.max_hourly, limits.max_instances) == (Decimal(300), 5)
    write(home / "named.toml", '[limits]\nmax_hourly = "$7"\n')
    assert load_settings(home / "named.toml").limits.max_hourly == 7


def test_a_named_file_that_does_not_exist_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such configuration file" in refusal(home / "gone.toml")
    monkeypatch.setenv("AUTOPILOT_CONFIG", str(home / "gone.toml"))
    assert "gone.toml" in refusal()


def test_a_file_that_may_not_be_looked_at_is_not_left_out(home: Path) -> None:
    config = write(home / "etc/autopilot.toml", '[limits]\nmonth = "$20"\n')
    home.chmod(0o755)
    assert load_settings().limits.month == 20
    with kept_out(config.parent):
        assert paths.config_files() == [config]
        assert refusal().startswith(f"cannot read the configuration file {config}: Permission denied")
    config.unlink()
    assert paths.config_files() == []


def test_places_follow_the_service_manager_then_xdg_then_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = home / ".local/state/autopilot"
    assert load_settings().state_dir == state
    assert load_settings().socket_path == state / "run/autopilot.sock"
    assert load_settings().ledger_url == f"sqlite+aiosqlite:///{state}/ledger.db"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert load_settings().socket_path == Path("/run/user/7/autopilot/autopilot.sock")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/autopilot:/var/lib/other")
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/autopilot")
    assert load_settings().ledger_url == "sqlite+aiosqlite:////var/lib/autopilot/ledger.db"
    assert load_settings().socket_path == Path("/run/autopilot/autopilot.sock")
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", "~/elsewhere")
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", "/tmp/a.sock")
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", "postgresql://db")
    settings = load_settings()
    assert (settings.state_dir, settings.socket_path) == (home / "elsewhere", Path("/tmp/a.sock"))
    assert settings.ledger_url == "postgresql://db"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits]\n\nmax_hourlly = 3", ':3: unknown key "max_hourlly" in [limits] (did you mean "max_hourly"?)'),
        ("\n[limit]\n", ':2: unknown key "limit" (did you mean "limits"?)'),
        ("[limits]\nday = 5", ":2: limits.day: not an amount of money: 5"),
        ('[limits]\nday = "-5"', ":2: limits.day: must be positive"),
        ('[limits]\nday = "1e40"', ":2: limits.day: "),
        ("[permit]\nttl = 15", ":2: permit.ttl: not a duration: 15"),
        ("[permit]\nttl = '0s'", ":2: permit.ttl: must be longer than nothing"),
        ("limits = 3", ":1: limits: must be a table"),
        ("[clock]\nspeed = 0", ":2: clock.speed: "),
        ("[clock]\nspeed = inf", ":2: clock.speed: "),
        ("[log]\nformat = 'xml'", ":2: log.format: "),
        ("[blobs]\nlisten = '8080'", ":2: blobs.listen: not a host and port"),
        ("[providers.vastai]\nbase_url = 'vast'", ":2: providers.vastai.base_url: not an address"),
        ("[providers.vastai]\napi_key = 'k'", ":2: an API key is not allowed in the settings"),
        ("[limits\n", ":1: not valid TOML"),
        ("a = 1\nb = \n", ":2: not valid TOML"),
    ],
)
def test_an_error_names_file_line_and_key(home: Path, text: str, message: str) -> None:
    path = write(home / "own.toml", text)
    assert f"{path}{message}" in refusal(path)


def test_an_error_from_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, message in [
        ("AUTOPILOT_LIMITS__DAY", "5 euro", "AUTOPILOT_LIMITS__DAY: limits.day: not an amount of money"),
        ("AUTOPILOT_LIMITS__DAYS", "$5", 'AUTOPILOT_LIMITS__DAYS: unknown key "days" in [limits]'),
        ("AUTOPILOT_LIMITS_DAY", "$5", "AUTOPILOT_LIMITS__DAY"),
        ("AUTOPILOT_LIMIT__DAY", "$5", 'did you mean "limits"?'),
        ("AUTOPILOT_LIMITS", "{", "environment: "),
    ]:
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert message in refusal()


def test_variables_that_are_no_settings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPILOT_ROOT", "/x")
    monkeypatch.setenv("AUTOPILOT_PROVIDER_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AUTOPILOT_CLOCK_SPEED", "60")
    assert load_settings().clock.speed == 60
    monkeypatch.setenv("AUTOPILOT_CLOCK__SPEED", "30")
    assert load_settings().clock.speed == 30


def test_a_market_keeps_its_own_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(home / "own.toml", "[providers.vastai]\nsearch_limit = 9\npoll_interval_s = 3\n")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__BASE_URL", "http://127.0.0.1:9/")
    vastai = load_settings(path).markets["vastai"]
    assert vastai.options == {"base_url": "http://127.0.0.1:9", "search_limit": 9}
    assert vastai.poll_interval_s == 3


def test_a_stored_key_turns_a_market_on_and_stronger_sources_replace_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().markets == {}
    stored = write(home / ".config/autopilot/credentials/vastai_api_key", "stored\n")
    key = load_settings().key_for("vastai")
    assert key is not None
    assert key.get_secret_value() == "stored"
    named = write(home / "named", "named")
    config = write(home / "own.toml", f"[providers.vastai]\napi_key_file = '{named}'\n")
    assert load_settings(config).secret_values() == ("named",)
    # The service manager's credentials show group bits that are an ACL's mask.
    write(home / "credentials/vastai_api_key", "credential", 0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(home / "credentials"))
    assert load_settings(config).secret_values() == ("credential",)
    from_env = write(home / "env", "env")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE", str(from_env))
    assert load_settings(config).secret_values() == ("env",)
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__ENABLED", "false")
    assert load_settings(config).markets == {}
    assert load_settings(config).secret_values() == ()
    assert stored.exists()


def test_keys_never_show_and_loose_key_files_are_refused(home: Path) -> None:
    key = write(home / "key", "hush\n")
    settings = Settings(providers={"vastai": ProviderSettings(api_key_file=key)})
    assert "hush" not in repr(settings) + repr(settings.key_for("vastai"))
    key.chmod(0o640)
    with pytest.raises(UserError, match=f"chmod 600 {key}"):
        settings.key_for("vastai")
    key.chmod(0o600)
    for content in ("", "two keys"):
        key.write_text(content)
        with pytest.raises(UserError, match="does not contain exactly one API key"):
            settings.key_for("vastai")
    key.unlink()
    with pytest.raises(UserError, match="cannot read the key file"):
        settings.key_for("vastai")
    assert settings.key_for("runpod") is None


def test_a_service_account_s_credentials_are_a_key_and_its_private_part_is_hidden(home: Path) -> None:
    private = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"
    account = json.dumps({"subject-credentials": {"private-key": private, "kid": "k"}}, indent=2)
    settings = Settings(providers={"nebius": ProviderSettings(api_key_file=write(home / "key", account))})
    key = settings.key_for("nebius")
    assert key is not None
    assert json.loads(key.get_secret_value())["subject-credentials"]["private-key"] == private
    assert set(settings.secret_values()) == {private, json.dumps(private)[1:-1]}


def test_a_market_on_this_machine_may_speak_grpc() -> None:
    market("grpc://127.0.0.1:7000", speed=60).check_clock()
    for url in ("grpc://", "ftp://x", "grpc"):
        with pytest.raises(ValueError, match="not an address"):
            market(url)


def market(base_url: str | None, *, speed: float = 1, enabled: bool = True) -> Settings:
    provider = ProviderSettings(base_url=base_url, enabled=enabled)
    return Settings(clock=MarketClock(speed=speed), providers={"vastai": provider})


@pytest.mark.parametrize(
    "url",
    [None, "https://console.vast.ai", "https://VAST.ai/api", "https://rest.runpod.io", "https://api.nebius.cloud"],
)
def test_real_markets_need_a_true_clock_and_a_certificate(url: str | None) -> None:
    with pytest.raises(UserError, match="real market"):
        market(url, speed=60).check_clock()
    assert certify_rules(market(url)).needed_on == {"vastai"}
    without = certify_rules(market(url), accept_unproven=True)
    assert (without.needed_on, without.weighed_on) == (frozenset(), frozenset({"vastai"}))
    market(url).check_clock()
    market(url, speed=60, enabled=False).check_clock()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://emulator.example", "https://notvast.ai"])
def test_an_emulator_may_be_anywhere(url: str) -> None:
    market(url, speed=60).check_clock()
    assert certify_rules(market(url)).needed_on == frozenset()


def test_a_socket_path_that_the_system_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", "/tmp/" + "x" * 120)
    assert "longer than 107 bytes" in refusal()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PERMIT__TTL": "60s"}, "permit.ttl is 60 s: with a tick every 15 s machines need at least 180 s"),
        ({"PERMIT__TTL": "179s"}, "at least 180 s (raise permit.ttl, or lower engine.tick_s)"),
        ({"PERMIT__TTL": "13h"}, "permit.ttl is 13 h: 12 h is the most"),
        (
            {"PERMIT__TTL": "2h", "BLOBS__OVER_SSH": "true"},
            "with storage over SSH machines can save nothing while the daemon sleeps, and 1 h is the most",
        ),
        ({"ENGINE__TICK_S": "1200"}, "permit.ttl is 900 s: with a tick every 1200 s machines need at least 4800 s"),
        ({"ENGINE__TICK_S": "60", "PERMIT__TTL": "200s"}, "with a tick every 60 s machines need at least 240 s"),
    ],
)
def test_a_permit_that_ends_before_it_is_renewed_or_is_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"AUTOPILOT_{name}", value)
    assert message in refusal()


@pytest.mark.parametrize("variables", [{}, {"PERMIT__TTL": "180s"}, {"ENGINE__TICK_S": "225"}])
def test_a_permit_that_outlasts_its_renewals_is_good(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"AUTOPILOT_{name}", value)
    settings = load_settings()
    assert settings.permit.ttl.total_seconds() >= 4 * settings.engine.tick_s


def test_the_defaults_are_conservative() -> None:
    settings = Settings()
    assert settings.limits.month == 500
    assert settings.permit.ttl == timedelta(minutes=15)
