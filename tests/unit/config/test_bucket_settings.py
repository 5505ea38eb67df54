"""A bucket in the settings: its address, its key, and what it takes for machines to be let near it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config.keys import BUCKET_KEY, bucket_key_file, store_private
from autopilot.config.settings import BlobsSettings, ProviderSettings, Settings, load_settings
from autopilot.domain.errors import UserError

URL = "s3://bucket/prefix"


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.toml"
    path.write_text(text)
    return path


def test_the_key_is_found_beside_the_markets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    store_private(tmp_path, BUCKET_KEY, "the-id:the-secret")
    settings = load_settings(config(tmp_path, f'[blobs]\nurl = "{URL}"\n'))
    assert settings.bucket_key() == ("the-id", "the-secret")
    assert "the-secret" in settings.secret_values()
    assert "the-secret" not in repr(settings)


def test_without_a_key_it_says_where_to_put_one(tmp_path: Path) -> None:
    settings = load_settings(config(tmp_path, f'[blobs]\nurl = "{URL}"\n'))
    with pytest.raises(UserError, match="no key for the bucket") as raised:
        settings.bucket_key()
    assert BUCKET_KEY in raised.value.hint


@pytest.mark.parametrize("text", ["no-colon", ":secret", "id:", "two words:x"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = store_private(tmp_path, BUCKET_KEY, text)
    with pytest.raises(UserError):
        Settings(blobs=BlobsSettings(url=URL, key_file=path)).bucket_key()


def test_a_blank_file_is_no_key(tmp_path: Path) -> None:
    store_private(tmp_path, BUCKET_KEY, "")
    assert bucket_key_file(tmp_path) is None


@pytest.mark.parametrize("url", ["https://bucket", "s3://", "bucket"])
def test_an_address_that_names_no_bucket_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError, match=r"blobs\.url: not the address of a bucket"):
        load_settings(config(tmp_path, f'[blobs]\nurl = "{url}"\n'))


def test_real_machines_may_use_a_bucket_over_https_only() -> None:
    real = {"vastai": ProviderSettings()}
    Settings(blobs=BlobsSettings(url=URL), providers=real).check_mailbox()
    Settings(blobs=BlobsSettings(url=URL, endpoint="https://s3.example"), providers=real).check_mailbox()
    with pytest.raises(UserError, match="without encryption"):
        Settings(blobs=BlobsSettings(url=URL, endpoint="http://s3.example"), providers=real).check_mailbox()
    emulated = {"vastai": ProviderSettings(base_url="http://127.0.0.1:1")}
    Settings(blobs=BlobsSettings(url=URL, endpoint="http://127.0.0.1:9"), providers=emulated).check_mailbox()
