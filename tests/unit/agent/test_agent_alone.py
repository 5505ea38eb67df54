"""A machine whose daemon has died: its saves, its last one, and its end. In virtual time, with the agent's own state
machine and keeper, and a store that judges each address by that time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from autopilot.agent.shipped import chunks, transfer
from autopilot.agent.shipped.keeper import Keeper
from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.machine import SAVE_BOUND_S, Machine
from autopilot.agent.shipped.memory import Memory
from autopilot.agent.shipped.orders import parse_orders
from autopilot.agent.shipped.web import BadStatus, Web
from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import URL_PREFIX, LocalBlobStore
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import build_orders
from autopilot.mailbox.reading import parse_heartbeat
from tests.variants import first_of

MINUTE, HOUR = 60, 3600
JOB, LEASE = "job", "lease"
STEP_S = 5
SAVE_S = 10
"""What a save takes."""


@pytest.fixture(autouse=True)
def no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for addresses waits in vain while nothing but the world's time goes on."""
    monkeypatch.setattr(transfer, "RETRY_S", 0.0)
    monkeypatch.setattr(transfer, "LEAST_URL_WAIT_S", 0.0)


class StoreWeb(Web):
    """Puts into the store what an address of it allows at this moment."""

    def __init__(self, store: LocalBlobStore) -> None:
        super().__init__()
        self.store = store
        self.is_down: Callable[[str], bool] = lambda key: False
        self.written: list[str] = []

    def send(self, url: str, body: Callable[[], Any], size: int, within_s: float | None = None) -> None:
        parts = urlsplit(url)
        key, query = parts.path.removeprefix(URL_PREFIX), parse_qs(parts.query)
        expires, most = int(query["expires"][0]), int(query["max_bytes"][0])
        if self.is_down(key):
            raise OSError("the store cannot be reached")
        if not self.store.allows("PUT", key, expires, most, query["signature"][0]):
            raise BadStatus("PUT", "store", 403, b"not signed, or over")
        source = body()
        incoming = self.store.incoming(key)
        incoming.write(source if isinstance(source, bytes) else source.read())
        incoming.publish()
        self.written.append(key)


class Lonely:
    """One machine from its first orders to its end. Its daemon is away from ``dies_at`` to ``back_at``."""

    def __init__(self, place: Path, permit_s: int, interval_s: int, dies_at: float = 10 * MINUTE) -> None:
        self.now = 0.0
        self.permit_s, self.interval_s = permit_s, interval_s
        self.dies_at, self.back_at = dies_at, 1e9
        self.store = LocalBlobStore(place / "store", b"k" * 32, "http://store", unix_time=lambda: 1e9 + self.now)
        self.web = StoreWeb(self.store)
        self.memory = Memory(str(place), str(place / "container"))
        self.machine = Machine(0, self.memory.values)
        self.keeper = Keeper(str(place), self.web, Log(1), self.memory, lambda: self.machine.orders, 1e6)
        self.files = place / "ckpt"
        self.size = 100
        self.seq = 0
        self.renewed_at = -1e9
        self.read: dict[str, Any] | None = None
        """The newest orders: the machine looks at them at every step."""
        self.done: list[tuple[float, str, bool]] = []
        """Tasks under way, with the time of their end."""
        self.saved: list[tuple[float, int]] = []
        """When each save was complete, and its number."""
        self.saved_file = b""
        self.ended_as = ""

    def live(self, until: float = 20 * HOUR) -> None:
        """Until then, or until the machine asks to go."""
        while not self.ended_as and self.now < until:
            self.now += STEP_S
            if self.read is not None:
                self.machine.take_orders(self.read, self.now)
            is_away = self.dies_at <= self.now < self.back_at
            if not is_away and self.now - self.renewed_at >= MINUTE:
                self.renew()
            for task in [each for each in self.done if each[0] <= self.now]:
                self.done.remove(task)
                self.machine.next_number = self.keeper.next_number()
                self.machine.finish_task(task[1], task[2], self.now)
            self.obey(self.machine.decide(self.now))

    def work(self) -> None:
        """The job keeps rewriting its file, which is seen when it is saved; no part of it stays the same."""
        self.files.mkdir(exist_ok=True)
        (self.files / "model").write_bytes(random.Random(self.now).randbytes(self.size))

    def renew(self) -> None:
        self.seq, self.renewed_at = self.seq + 1, self.now
        said = {"v": 1, "boot": 1, "seq": self.seq, "run_epoch": 1, "orders_seq_seen": self.seq, "state": "running"}
        beat = parse_heartbeat(
            json.dumps({**said, "next_ckpt_n": self.memory["next_ckpt_n"], **self.keeper.wants()}).encode()
        )
        built = build_orders(
            self.store,
            job_id=JOB,
            lease_id=LEASE,
            instance_id=None,
            run_epoch=1,
            seq=self.seq,
            permit_ttl_s=self.permit_s,
            role="run",
            checkpoint_interval_s=self.interval_s,
            work=Work(run="train", checkpoint_path="ckpt"),
            restore=None,
            heartbeat=beat,
        )
        orders = parse_orders(built.to_json())
        assert orders is not None
        self.read = orders
        self.machine.take_orders(orders, self.now)

    def obey(self, command: str | None) -> None:
        if command == "run":
            self.machine.begin_process("run", self.now)
        elif command == "term":
            self.files.mkdir(exist_ok=True)
            self.keeper.look(str(self.files))  # as the agent does at its SIGTERM: what is written then is a whole save
            self.work()
            self.keeper.look_last(str(self.files), is_cut=False)
            self.machine.end_process(143, self.now, "then")
        elif command == "destroy":
            self.ended_as = command
        elif command == "checkpoint":
            self.save()
        elif command is not None:
            self.done.append((self.now + 1, command, True))

    def save(self) -> None:
        upload = self.machine.upload
        if not upload.is_final:
            self.work()
        self.keeper.is_alone, self.keeper.kept_slots = upload.is_alone, upload.kept
        number, content = self.memory["last_ckpt_n"], (self.files / "model").read_bytes()
        try:
            self.keeper.checkpoint(str(self.files), 1, int(self.now), take=upload.is_fresh, final=upload.is_final)
        except OSError:
            self.done.append((self.now + SAVE_S, "checkpoint", False))
            return
        self.done.append((self.now + SAVE_S, "checkpoint", True))
        if self.memory["last_ckpt_n"] != number:
            self.saved.append((self.now, self.memory["last_ckpt_n"]))
            self.saved_file = content

    async def check_last_save(self) -> None:
        """All that the job had written is in the store, whole; and nothing in the store was written twice."""
        assert self.ended_as == "destroy"
        assert self.now <= self.machine.permit_until + SAVE_BOUND_S + STEP_S
        assert self.saved[-1][0] >= self.machine.permit_until, "the last save comes after the end of the command"
        assert self.saved_file == (self.files / "model").read_bytes()
        manifest = await verified_manifest(self.store, AgentUnpacker(), JOB, LEASE, self.saved[-1][1])
        assert manifest is not None
        assert len(self.web.written) == len(set(self.web.written))

    def longest_gap(self) -> float:
        """Between two saves, from the death of the daemon on."""
        times = [self.dies_at, *(at for at, _ in self.saved if at >= self.dies_at)]
        return max(after - before for before, after in pairwise(times))


@pytest.mark.slow
@pytest.mark.parametrize("permit_s", first_of((8 * HOUR, 15 * MINUTE, 2 * HOUR, 12 * HOUR)))
@pytest.mark.parametrize("interval_s", [1 * MINUTE, 10 * MINUTE, 60 * MINUTE])
async def test_its_last_save_is_there_and_it_goes(tmp_path: Path, permit_s: int, interval_s: int) -> None:
    world = Lonely(tmp_path, permit_s, interval_s, dies_at=interval_s + 10 * MINUTE)
    world.live()
    await world.check_last_save()
    ordered_until = world.machine.permit_until
    assert ordered_until == pytest.approx(world.renewed_at + permit_s, abs=STEP_S), "as of the look before"
    assert world.longest_gap() <= max(interval_s, permit_s / 10) + MINUTE


@pytest.mark.slow
async def test_a_large_checkpoint_has_its_last_save_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 16)
    world = Lonely(tmp_path, 2 * HOUR, 1 * MINUTE)
    world.size = 16 * 250
    world.live()
    await world.check_last_save()


@pytest.mark.slow
async def test_one_that_grows_meanwhile_is_cut_into_fewer_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 16)
    world = Lonely(tmp_path, 1 * HOUR, 10 * MINUTE)
    grow = world.work

    def work() -> None:
        world.size = 16 * (5 if world.now < world.dies_at else 200)
        grow()

    monkeypatch.setattr(world, "work", work)
    world.live()
    await world.check_last_save()


@pytest.mark.slow
async def test_tries_that_fail_leave_the_last_save_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes most parts of each try and no manifest; it is there again a moment before the permit ends."""
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 16)
    world = Lonely(tmp_path, 2 * HOUR, 1 * MINUTE)
    world.size = 16 * 20
    chance = random.Random(1)
    world.web.is_down = lambda key: (
        world.dies_at < world.now < world.machine.permit_until - 10 and (key.endswith(".json") or chance.random() < 0.3)
    )
    world.live()
    await world.check_last_save()


@pytest.mark.slow
async def test_a_last_manifest_that_is_refused_is_sent_again_to_its_own_slot(tmp_path: Path) -> None:
    world = Lonely(tmp_path, 15 * MINUTE, 1 * MINUTE)
    world.web.is_down = lambda key: (
        key.endswith(".json") and world.machine.permit_until <= world.now < world.machine.permit_until + 45
    )
    world.live()
    await world.check_last_save()


async def test_a_first_save_of_unknown_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 16)
    world = Lonely(tmp_path, 15 * MINUTE, 60 * MINUTE, dies_at=2 * MINUTE)
    world.size = 16 * 200
    world.live()
    await world.check_last_save()


@pytest.mark.slow
def test_to_a_daemon_that_is_back_it_saves_as_often_as_it_orders(tmp_path: Path) -> None:
    world = Lonely(tmp_path, 8 * HOUR, 1 * MINUTE)
    world.back_at = 4 * HOUR
    world.live(until=world.back_at)
    alone = len(world.saved)
    world.live(until=world.back_at + 20 * MINUTE)
    assert len(world.saved) - alone >= 16
