"""What the log is told to hide: every key and every secret that is stored where it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config.secret_files import store_secret
from autopilot.config.settings import load_settings


def test_keys_passwords_and_secrets_are_known_to_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", str(tmp_path / "etc"))
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("sentinel-key")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE", str(key))
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", "postgresql://me:sentinel%2Fpassword@host/db")
    store_secret("hf", "sentinel-token")
    loose = store_secret("loose", "badly kept")
    loose.chmod(0o644)
    assert set(load_settings(None).secret_values()) == {"sentinel-key", "sentinel/password", "sentinel-token"}
