"""What the daemon keeps is for its user alone, for any umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from autopilot.domain.errors import UserError
from autopilot.service.identity import close_to_others, prepare_state_dir


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [0o755, 0o777, 0o750, 0o700])
def test_an_open_state_directory_is_closed(tmp_path: Path, before: int) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(before)
    prepare_state_dir(path)
    assert mode(path) == 0o700


def test_one_that_cannot_be_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(0o755)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(UserError, match="other users can read") as refusal:
        prepare_state_dir(path)
    assert "chmod 700" in str(refusal.value.hint)


def test_what_daemon_and_listener_share_stays_open_to_their_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    close_to_others(tmp_path, 0o007)
    assert mode(tmp_path) == 0o770
