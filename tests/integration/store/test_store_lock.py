"""Two daemons never share a ledger."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autopilot.domain.errors import UserError
from autopilot.store.lock import single_writer

HOLDER = """
import sys
from pathlib import Path
from autopilot.store.lock import single_writer

with single_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    command = [sys.executable, "-c", HOLDER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refusal = rf"another autopilot daemon \(pid {holder.pid}\) holds {database}"
        with pytest.raises(UserError, match=refusal), single_writer(database):
            pytest.fail("two daemons hold one ledger")
        holder.kill()
    with single_writer(database):
        lock = tmp_path / "ledger.db.lock"
        assert lock.read_text() == f"{os.getpid()}\n"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_the_lock_is_free_again_after_the_block(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    for _ in range(2):
        refused = pytest.raises(UserError, match="another autopilot daemon")
        with single_writer(database), refused, single_writer(database):
            pytest.fail("held twice")


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory"), single_writer(tmp_path / "absent" / "ledger.db"):
        pytest.fail("locked nothing")
