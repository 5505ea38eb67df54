"""API keys are written whole, and for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from autopilot.config.keys import key_files, read_key, store_key


def test_a_stored_key_is_private_and_reads_back(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        path = store_key(tmp_path / "a" / "credentials", "vastai", " secret \n")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_key(path) == "secret"
    assert store_key(path.parent, "vastai", "other") == path
    assert read_key(path) == "other"
    assert key_files(path.parent) == {"vastai": path}
    assert [entry.name for entry in path.parent.iterdir()] == ["vastai_api_key"]


def test_a_failed_write_leaves_the_old_key_and_no_scraps(tmp_path: Path) -> None:
    path = store_key(tmp_path, "vastai", "old")
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        store_key(tmp_path, "vastai", "new")
    assert list(tmp_path.iterdir()) == [path]


def test_no_directory_holds_no_keys(tmp_path: Path) -> None:
    assert key_files(tmp_path / "none") == {}


def test_a_blank_file_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "runpod_api_key").write_text("\n")
    kept = store_key(tmp_path, "vastai", "secret")
    assert key_files(tmp_path) == {"vastai": kept}
