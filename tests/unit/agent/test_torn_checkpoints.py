"""No run fails of what was restored as good, however its program writes; and what can be whole is saved soon.

In virtual time: the keeper, its watch and its copies are the real ones, on a real disk; the programs that save write
and wait by the clock of the test, also in the middle of a copy.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import disk
from autopilot.agent.shipped import snapshots as module
from autopilot.agent.shipped.keeper import Keeper
from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.memory import Memory
from autopilot.agent.shipped.snapshots import Moved
from autopilot.agent.shipped.transfer import Abandoned
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.shipped.web import Web
from tests.savers import SAVERS, Saver, Torn
from tests.variants import first_of

INTERVAL_S = 30.0
UPLOAD_S = 2.0
TICK_S, REAL_SLEEP = 0.005, time.sleep
"""The clock by which a disk dates files goes in steps: what is written at two times must bear two."""
ORDERS: dict[str, Any] = {
    "checkpoint_interval_s": INTERVAL_S,
    "restore": None,
    "lease": "a",
    "put_urls": {"ckpt": []},
    "grant": None,
}


class Lost(BaseException):
    """The host is gone."""


class Host:
    """One machine's life, until ``ends_at`` of its clock. What it has sent is in ``sent``, newest last."""

    def __init__(self, home: Path, saver: Saver, rng: random.Random, epoch: int, ends_at: float) -> None:
        self.saver, self.rng, self.epoch, self.ends_at, self.now = saver, rng, epoch, ends_at, 0.0
        self.files = home / "files" / "out"
        self.files.parent.mkdir(parents=True)
        self.path = str(self.files / saver.pattern) if saver.pattern else str(self.files)
        (home / "agent").mkdir()
        self.keeper = VirtualKeeper(self, str(home / "agent"))
        self.sent: list[dict[str, Any]] = []
        self.whole_at: float | None = None
        self.program: Iterator[float] = iter(())
        self.writes_at = self.looks_at = 0.0
        self.began_from = 0
        self.slow_copy: Any = disk.keep_copy

    def live(self, before: tuple[Path, dict[str, Any]] | None) -> None:
        """``before``: a checkpoint that an earlier host has sent. Raises ``Torn``."""
        if before is not None:
            copy, record = before
            shutil.copytree(copy, self.keeper.snapshots.place(record), symlinks=True)
            self.keeper.snapshots.save({**record, "uploaded": True})
            self.keeper.restore(self.path)
        self.began_from = step = self.saver.read(self.files)
        self.program = self.saver.save(self.files, self.rng, step)
        due_at = INTERVAL_S
        self.use_copy(self.slow_copy)
        try:
            while True:
                self.advance(due_at - self.now)
                due_at = self.now + self.save()
        except Lost:
            self.program.close()  # type: ignore[attr-defined]

    def use_copy(self, copy: Any) -> None:
        module.__dict__["keep_copy"] = copy

    def save(self) -> float:
        try:
            self.keeper.checkpoint(self.path, self.epoch, None)
        except (Moved, Abandoned):
            return 5.0
        return INTERVAL_S

    def advance(self, seconds: float) -> None:
        """Time passes; the program writes when it is to, and the agent looks."""
        until = self.now + seconds
        while self.now < until:
            self.pass_time(min(self.looks_at, until) - self.now)
            if self.now >= self.looks_at:
                self.looks_at = self.now + self.keeper.pace().look_s
                self.keeper.look(self.path)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.writes_at <= until:
            self.now = max(self.now, self.writes_at)
            REAL_SLEEP(TICK_S)
            self.writes_at = self.now + next(self.program)
            if self.whole_at is None and self.is_whole():
                self.whole_at = self.now
        self.now = until
        if self.now >= self.ends_at:
            raise Lost

    def is_whole(self) -> bool:
        try:
            return self.saver.read(self.files) > self.began_from
        except (Torn, OSError):
            return False


class VirtualKeeper(Keeper):
    def __init__(self, host: Host, home: str) -> None:
        super().__init__(home, Web(), Log(1), Memory(home, home + "/container"), lambda: ORDERS, 1)
        self.host = host

    def now(self) -> float:
        return self.host.now

    def wait(self, seconds: float) -> bool:
        self.host.advance(seconds)
        return False

    def send(self, record: dict[str, Any]) -> None:
        """What was sent lies where it was put together: on a disk that the test keeps."""
        host = self.host
        host.advance(UPLOAD_S)
        host.use_copy(disk.keep_copy)
        kept = Path(self.snapshots.directory).parent / f"sent-{record['n']}"
        restored = kept.with_name(kept.name + "-restored") / "out"
        try:
            self.snapshots.restore(record, str(restored / host.saver.pattern) if host.saver.pattern else str(restored))
            shutil.copytree(self.snapshots.place(record), kept, symlinks=True)
        except Corrupt as error:  # as an upload finds it
            self.snapshots.links = False
            raise Moved("the job wrote into a file that it had saved") from error
        finally:
            host.use_copy(host.slow_copy)
        self.memory.save(next_ckpt_n=record["n"] + 1, last_ckpt_n=record["n"])
        lies = {"lies_at": str(kept), "restored_at": str(restored), "sent_at": host.now}
        host.sent.append({**record, "uploaded": True, **lies})
        self.snapshots.save({**record, "uploaded": True})


@pytest.fixture(autouse=True)
def own_processes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are generators of this process; to look through all others would take the most of the time."""
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path=".": [str(os.getpid())] if path == "/proc" else real(path))


def newest_good(sent: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max(sent, key=module.rank, default=None)


def play(name: str, seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch, lives: int = 3) -> list[Host]:
    """Hosts one after the other, each lost at random; the next one goes on from the newest good checkpoint."""
    saver, rng = SAVERS[name], random.Random(f"{name}-{seed}")
    hosts: list[Host] = []
    sent: list[dict[str, Any]] = []
    real = disk.keep_copy
    for life in range(lives):
        host = Host(directory / f"host-{life}", saver, rng, life + 1, rng.uniform(60, 500))
        hosts.append(host)

        def copy(*args: Any, host: Host = host) -> bool:
            host.advance(rng.choice([0.0, 0.0, 0.0, 0.05, 0.3, 1.5]))
            try:
                return real(*args)
            finally:
                host.advance(rng.choice([0.0, 0.0, 0.05, 0.2]))

        monkeypatch.setattr(module, "keep_copy", real)
        best = newest_good(sent)
        record = {key: value for key, value in (best or {}).items() if not key.endswith("_at")}
        before = None if best is None else (Path(best["lies_at"]), record)
        monkeypatch.setattr(time, "sleep", host.advance)
        host.slow_copy = copy
        try:
            host.live(before)
        except Torn as error:
            if not record.get("suspect"):
                raise AssertionError(f"{name} {seed}: restored as good, and torn") from error
            break
        for record in host.sent:
            check(saver, record)
        sent += host.sent
    monkeypatch.setattr(module, "keep_copy", real)
    return hosts


def check(saver: Saver, record: dict[str, Any]) -> None:
    """Every good one can be gone on from, also those that no host happened to restore."""
    if record.get("suspect"):
        return
    try:
        saver.read(Path(record["restored_at"]))
    except Torn as error:
        raise AssertionError(f"sent at {record['sent_at']:.1f} as good, and torn: {error}") from error


@pytest.mark.parametrize("name", first_of(SAVERS, 5))
@pytest.mark.parametrize("seed", range(int(os.environ.get("TORN_SEEDS", "1"))))
def test_nothing_torn_is_good(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in play(name, seed, tmp_path, monkeypatch):
        good = [record["sent_at"] for record in host.sent if not record.get("suspect")]
        if not SAVERS[name].is_ever_whole:
            continue  # a copy that falls between two of its saves is whole, as ``check`` has seen
        if host.whole_at is not None and host.ends_at > host.whole_at + 3 * INTERVAL_S:
            assert good, f"{name} {seed}: whole at {host.whole_at:.0f}, and not saved until {host.ends_at:.0f}"
            assert min(good) <= host.whole_at + 3 * INTERVAL_S
