"""The directory that daemon and listener share, as two users that a group joins, or as one."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace

GROUP = 54_321
User = tuple[int, int, list[int]]
DAEMON: User = (50_001, 50_001, [GROUP])
LISTENER: User = (50_002, GROUP, [])
STRANGER: User = (50_003, 50_003, [])

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def place() -> Iterator[MailboxPlace]:
    """A directory as tmpfiles makes it. Pytest's own are closed to other users."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    os.chown(root, 0, GROUP)
    root.chmod(0o770)
    yield MailboxPlace(root)
    shutil.rmtree(root)


def act(user: User, work: Callable[[], None]) -> None:
    """``work`` as that user, with a umask that keeps everything from others."""
    uid, gid, groups = user
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            os.umask(0o077)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def store(place: MailboxPlace) -> LocalBlobStore:
    return LocalBlobStore(place.objects, place.read_key(), "http://x")


@needs_root
def test_two_users_of_one_group_work_on_the_same_objects(place: MailboxPlace) -> None:
    def begin() -> None:
        place.read_or_make_key()
        place.announce()
        asyncio.run(store(place).put("jobs/j/l/orders.json", b"orders"))

    def serve() -> None:
        assert place.is_served_for(None)
        place.keep_port(8480)
        mailbox = store(place)
        assert asyncio.run(mailbox.get("jobs/j/l/orders.json")) == b"orders"
        for key in ("jobs/j/l/heartbeat.json", "jobs/j/l/ckpt/0/part-0"):
            asyncio.run(mailbox.put(key, b"put"))

    def go_on() -> None:
        mailbox = store(place)
        assert place.port() == 8480
        assert asyncio.run(mailbox.get("jobs/j/l/ckpt/0/part-0")) == b"put"
        asyncio.run(mailbox.put("jobs/j/l/ckpt/0/part-1", b"verified"))
        place.announce()
        asyncio.run(mailbox.delete_prefix("jobs"))
        assert asyncio.run(mailbox.sizes("jobs")) == {}

    def look() -> None:
        for path in (place.root, place.key_path, place.objects):
            with pytest.raises(PermissionError):
                os.stat(path / "x")

    for user, work in ((DAEMON, begin), (LISTENER, serve), (DAEMON, go_on), (STRANGER, look)):
        act(user, work)
    modes = {path.stat().st_mode & 0o007 for path in place.root.rglob("*")}
    assert modes == {0}


def test_for_one_user_all_of_it_is_closed_to_the_group(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    place = MailboxPlace(root)
    was = os.umask(0o077)
    try:
        place.read_or_make_key()
        place.announce()
        place.keep_port(1)
        asyncio.run(store(place).put("jobs/j/l/orders.json", b"orders"))
    finally:
        os.umask(was)
    assert {path.stat().st_mode & 0o077 for path in root.rglob("*")} == {0}


def test_a_listener_serves_for_its_own_daemon_or_for_this_host(place: MailboxPlace) -> None:
    assert not place.is_served_for(None)
    first = place.announce()
    assert place.is_served_for(first)
    assert place.is_served_for(None)
    second = place.announce()
    assert not place.is_served_for(first)
    assert place.is_served_for(second)
    (place.root / "mailbox-daemon").write_text('{"host": "another", "token": "x"}')
    assert not place.is_served_for(None)
    for junk in ("", "[]", '{"host": 1}', "[" * 100_000):
        (place.root / "mailbox-daemon").write_text(junk)
        assert not place.is_served_for(None)
