"""Two daemons never share a ledger."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from autopilot.domain.errors import UserError
from autopilot.store.leader import leading
from autopilot.store.lock import single_writer
from autopilot.store.schema import leader

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


LEADER = """
import asyncio, sys
from autopilot.store.leader import leading

async def lead():
    async with leading(sys.argv[1], on_standby=print):
        print("leads", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(lead())
"""


@contextmanager
def a_daemon(ledger: Path) -> Iterator[subprocess.Popen[bytes]]:
    """That leads, as a process of its own, until it is killed."""
    command = [sys.executable, "-c", LEADER, str(ledger)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"leads\n"
        yield daemon
        daemon.kill()


async def lead_too(ledger: Path) -> None:
    async with leading(str(ledger), on_standby=pytest.fail):
        pytest.fail("two daemons lead one ledger")


@pytest.mark.slow
async def test_a_link_is_no_second_ledger(tmp_path: Path) -> None:
    ledger, elsewhere = tmp_path / "ledger.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with a_daemon(ledger) as daemon:
        (elsewhere / "linked.db").symlink_to(ledger)
        (tmp_path / "directory").symlink_to(tmp_path)
        for other in (elsewhere / "linked.db", tmp_path / "directory" / "ledger.db"):
            with pytest.raises(UserError, match=rf"another autopilot daemon \(pid {daemon.pid}\) holds {ledger}"):
                await lead_too(other)
        assert not (elsewhere / "linked.db.lock").exists()


@pytest.mark.slow
async def test_a_ledger_of_two_names_is_refused_with_and_without_a_leader(tmp_path: Path) -> None:
    """What was committed last lies beside the name by which it was opened: under another one machines are forgotten."""
    ledger, second = tmp_path / "ledger.db", tmp_path / "second.db"
    with a_daemon(ledger):
        second.hardlink_to(ledger)
        with pytest.raises(UserError, match="has 2 names"):
            await lead_too(second)
    for name in (ledger, second):
        with pytest.raises(UserError, match="has 2 names"):
            await lead_too(name)
    second.unlink()
    async with leading(str(ledger), on_standby=pytest.fail):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="this system has no locks of a file's opening")
async def test_a_ledger_that_got_another_name_is_still_held_and_says_by_whom(tmp_path: Path) -> None:
    """As by a mount of the file alone, or by mv."""
    ledger, renamed = tmp_path / "ledger.db", tmp_path / "renamed.db"
    with a_daemon(ledger) as daemon:
        ledger.rename(renamed)
        with pytest.raises(
            UserError, match=rf"autopilot .*:{daemon.pid}:[0-9a-f]+, under another name of the file, holds"
        ):
            await lead_too(renamed)


async def test_the_ledger_names_its_leader_and_counts_them(tmp_path: Path) -> None:
    for epoch in (1, 2):
        async with leading(str(tmp_path / "ledger.db"), on_standby=pytest.fail) as lead:
            async with lead.store.reading() as connection:
                row = (await connection.execute(select(leader))).one()
            assert (row.epoch, f":{os.getpid()}:" in row.holder) == (epoch, True)
            assert row.renewed_at is not None
