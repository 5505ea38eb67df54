"""The agent on one simulated machine: the shipped state machine, with a process, a disk and a network of the world's.

Nothing is polled that nothing can have changed: it looks at its mailbox as often as the shipped one and otherwise
sleeps until the next moment at which its state machine may want something else.
"""

from __future__ import annotations

import contextlib
import json
import random
from decimal import Decimal
from typing import Any, Protocol

from autopilot.agent.shipped.machine import BOOT_GRACE_S, SAVE_BOUND_S, TERM_GRACE_S, Machine
from autopilot.agent.shipped.orders import parse_orders, parse_taken_over
from autopilot.agent.shipped.pace import BRISK_S, Pace
from autopilot.agent.shipped.slots import open_slots
from autopilot.agent.shipped.states import ABILITIES, EXPIRED, SERVING, Exit
from autopilot.domain.lease import Lease
from autopilot.domain.money import BYTES_PER_GB
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import VIRTUAL, Box, State
from tests.simulation.ground.wire import Raw, Request
from tests.simulation.markets.network import Connection
from tests.simulation.product.blobs import INDEX, NoRoom, ObjectRefused, Objects, Stored, a_part, stored
from tests.simulation.product.hostile import Liar

PART_BYTES = 400_000_000
TRANSFER_S = (3.0, 40.0)
CHECK_S = 3.0
QUITS_S = 2.0
"""After its grace a container is killed."""


def fresh_memory() -> dict[str, Any]:
    return {
        **{"boot": 0, "next_orders_url": "", "orders_seq": 0, "run_epoch": 0, "permit_ttl_s": 900.0},
        "permit_ends_at": None,
        **{"setup_done": False, "dirty": False, "exit": None, "next_ckpt_n": 0, "last_ckpt_n": None},
    }


class Host(Protocol):
    """Of the virtual machine that an agent's container is on."""

    def power_off(self) -> None: ...

    def shut_down(self) -> None: ...


class SimAgent:
    """From one boot to the end of it."""

    def __init__(
        self, ground: Ground, objects: Objects, connection: Connection, box: Box, orders_url: str, rng: random.Random
    ) -> None:
        self.ground = ground
        self._objects = objects
        self._connection = connection
        self.box = box
        self.rng = rng
        self.is_on = True
        self.memory: dict[str, Any] = box.disk.memory
        if not self.memory:
            self.memory.update(fresh_memory())
        self.memory["boot"] += 1
        if box.provider == "runpod":
            self.memory["setup_done"] = False
        self.urls = [url for url in (self.memory["next_orders_url"], orders_url) if url]
        self.first_url = orders_url
        self.host: Host | None = None
        # A virtual machine's container has no name of its market's.
        instance = "" if box.provider in VIRTUAL else box.id
        self.machine = Machine(ground.now_s, self.memory, instance=instance)
        # As the daemon gave it, regardless of what the machine does with it; only the first boot has one of its own.
        given_s = ground.permit_ttl_s if self.memory["boot"] == 1 else BOOT_GRACE_S
        self.box.permit_until_s = max(self.box.permit_until_s, ground.now_s + given_s)
        self.ran_from_s = 0.0
        self.process_n = 0
        self.upload_n = 0
        self.bytes_sent = 0
        self.beats = 0
        self.damaged = 0
        self.timer: Any = None
        self._read: Any = None
        self._has_told_end = False
        self._pace = Pace(ground.now_s)
        self._reported_exit: Exit | None = None
        self._liar = Liar(self) if box.hostile else None
        ground.loop.after(self.rng.uniform(0.5, 4), self._poll)

    # --- being there

    def power_off(self) -> None:
        """As SIGKILL to everything: what the job had since its files were written is gone."""
        if self.machine.process.kind == "run":
            self.box.disk.step = self._files_step()
        self.is_on = False
        if self.timer is not None:
            self.timer.cancel()
        if self._liar is not None and self.box.is_gone:
            self._liar.haunt()

    def shut_down(self) -> None:
        """The machine is told to go."""
        if self.host is not None:
            self.host.shut_down()

    def take_notice(self) -> None:
        """The machine may be taken away soon."""
        if self.is_on:
            self.machine.take_notice(self.ground.now_s)
            self._act()

    def quit(self, grace_s: float) -> None:
        """The container is to stop, and has so long for that."""
        if self.is_on:
            self.machine.quit(self.ground.now_s, grace_s)
            self._act()
            self.ground.loop.after(grace_s + QUITS_S, self._end_container)

    def _end_container(self) -> None:
        if self.is_on:
            self.power_off()

    def lease(self) -> Lease | None:
        """Of this machine, as it is committed."""
        found: Lease | None = self.ground.committed.get("leases", {}).get(self.box.lease_id)
        return found

    def put(self, url: str, what: Stored) -> None:
        """Raises ``ObjectRefused``."""
        try:
            self._objects.put_by(url, what)
        except NoRoom:
            self.ground.check.refuse_object(self.box)
            raise
        self.ground.check.take_object(self.box)

    @property
    def is_at_work(self) -> bool:
        return self.is_on and self.machine.process.kind == "run" and not self.box.is_suspended

    @property
    def _can_reach_store(self) -> bool:
        ground, box = self.ground, self.box
        if box.state is State.OFFLINE or ground.faults.bursts("K1", box.id, ground.now_s):
            return False
        return not ground.faults.bursts("J1", "store", ground.now_s)

    # --- events

    def _poll(self) -> None:
        if not self.is_on:
            return
        if not self.box.is_suspended and self._can_reach_store:
            if self._pace.is_due("orders", self.ground.now_s, self._apart_s()):
                self._look_at_orders()
            with contextlib.suppress(ObjectRefused):
                self._beat()
            if self._liar is not None:
                self._liar.poll()
        self._act()
        self.ground.loop.after(BRISK_S, self._poll)

    def _apart_s(self) -> float:
        return self._pace.apart_s(self.ground.now_s, float(self.memory["permit_ttl_s"]))

    def _look_at_orders(self) -> None:
        try:
            self._fetch_orders()
        except ObjectRefused:
            self.urls = self.urls[1:] + self.urls[:1]
        else:
            self._pace.note_done("orders", self.ground.now_s)

    def _fetch_orders(self) -> None:
        found = self._objects.get_by(self.urls[0])
        if found is self._read:
            return
        self._read = found
        taken_over = parse_taken_over(found.data or b"")
        if taken_over is not None:
            self.machine.give_up(taken_over, self.ground.now_s)
            return
        orders, seq = parse_orders(found.data or b""), self.machine.seq
        if orders is not None and self.machine.take_orders(orders, self.ground.now_s):
            url = orders["next_orders_url"]
            self.memory.update(next_orders_url=url, permit_ttl_s=orders["permit_ttl_s"])
            self.urls = [url, self.first_url]
            self.box.job_id = orders["job"] if self.box.job_id else None
            if not self.machine.life.is_expired and orders["seq"] > seq:
                self.box.permit_until_s = self.ground.now_s + orders["permit_ttl_s"]

    def _act(self) -> None:
        if not self.is_on or self.box.is_suspended:
            return
        machine = self.machine
        for _ in range(20):
            command = machine.decide(self.ground.now_s)
            if command is None:
                break
            self._obey(command)
            if not self.is_on:
                return
        self.memory.update(machine.to_remember())
        if machine.life.is_expired and not self._has_told_end and self.ground.now_s >= machine.permit_until:
            self._has_told_end = True
            self.ground.check.end_permit(self.box)
        self._sleep()

    def _sleep(self) -> None:
        """Until the state machine may want something else."""
        machine, now_s = self.machine, self.ground.now_s
        moments = [machine.permit_until, *(tries.not_before for tries in machine.tries.values())]
        if machine.process.kind == "run":
            moments.append(machine.checkpoint_at)
        if machine.process.is_ending:
            stop_since = machine.process.stop_since
            moments += [stop_since + TERM_GRACE_S, stop_since + SAVE_BOUND_S / 2]
        if machine.life.is_expired:
            moments += [machine.life.since + SAVE_BOUND_S]
        if machine.life.state not in (SERVING, EXPIRED):
            moments += [machine.life.since + machine.quit_s / 2, machine.life.since + machine.quit_s]
        ahead = [moment for moment in moments if moment > now_s]
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if ahead and min(ahead) < now_s + BRISK_S:
            self.timer = self.ground.loop.after(min(ahead) - now_s + 0.05, self._act)

    # --- acts

    def _obey(self, command: str) -> None:
        if command in ("setup", "run"):
            self._start(command)
        elif command in ("term", "kill"):
            takes_s = self.rng.uniform(0.2, 8) if command == "term" else 0.1
            self.ground.loop.after(takes_s, self._ended, self.process_n, 143 if command == "term" else -9)
        elif command == "abandon":
            self.upload_n += 1
            self.ground.loop.after(0.1, self._done, "checkpoint", False)
        elif command == "quit":
            self.power_off()
        elif command == "destroy":
            self._ask_market(command)
        elif command == "report":
            self.ground.loop.after(0.3, self._report)
        elif command == "checkpoint":
            self._take_checkpoint()
        elif command == "check":
            self.ground.loop.after(CHECK_S, self._check)
        elif command in ("inputs", "renew") or self.box.is_broken != "never ready":
            self.ground.loop.after(self._transfer_s(), getattr(self, f"_{command}"))

    def _check(self) -> None:
        """Nothing is amiss with what it looks at. It looks once for a machine: its disk remembers."""
        self.memory["arrival"] = {}
        self._done("check", True)

    def _transfer_s(self) -> float:
        return self.rng.uniform(*TRANSFER_S) * self.box.slowness

    def _start(self, kind: str) -> None:
        machine, ground, box = self.machine, self.ground, self.box
        machine.begin_process(kind, ground.now_s)
        self.process_n += 1
        self.ran_from_s = ground.now_s
        if kind == "setup":
            if box.is_broken != "never ready":
                ground.loop.after(self.rng.uniform(20, 90), self._ended, self.process_n, 0)
            return
        ground.check.begin_run(box, machine.epoch, box.disk.step)
        box.disk.owner = box.disk.owner or box.job_id
        if box.is_broken == "fails" or ground.is_doomed(box.job_id):
            ground.loop.after(self.rng.uniform(60, 1800), self._ended, self.process_n, 1)
        elif not box.is_broken:
            left_s = max(self._total_s() - box.disk.step, 0)
            ground.loop.after(left_s + 0.5, self._ended, self.process_n, 0)

    def _total_s(self) -> int:
        orders = self.machine.orders
        return int(orders["work"]["run"].split()[-1]) if orders else 0

    def step(self) -> int:
        """Seconds of work that the job has done by now."""
        if self.machine.process.kind != "run" or self.box.is_broken == "hangs":
            return self.box.disk.step
        pace = 0.01 if self.box.is_broken == "crawls" else 1.0
        return self.box.disk.step + int((self.ground.now_s - self.ran_from_s) * pace)

    def _files_step(self) -> int:
        """The job writes its files all the time, so they hold what it has done."""
        return self.step()

    def _ended(self, process_n: int, code: int) -> None:
        if not self.is_on or process_n != self.process_n or not self.machine.process.kind:
            return
        if self.box.is_suspended:
            self.ground.loop.after(30, self._ended, process_n, code)
            return
        if self.machine.process.kind == "run":
            self.box.disk.step = self._files_step()
            if code == 0:
                self.box.failures.clear()
            elif code == 1:
                self.box.failures.append((self.box.job_id, self.ground.now_s - self.ran_from_s))
            if code == 0 and self.box.job_id is not None:
                self.ground.finished.add(self.box.job_id)
        self.machine.end_process(code, self.ground.now_s, "then")
        self._act()

    def _done(self, task: str, ok: bool) -> None:
        if self.is_on and task in self.machine.tasks:
            self.machine.next_number = int(self.memory["next_ckpt_n"])
            self.machine.finish_task(task, ok, self.ground.now_s)
            self._act()

    # --- the store

    def _take_checkpoint(self) -> None:
        orders, disk = self.machine.orders, self.box.disk
        assert orders is not None, "checkpoints need orders"
        newest = disk.snapshot
        if newest is None or (newest[0], newest[2]) != (self.machine.epoch, self.step()):
            restore = orders["restore"]
            number = int(self.memory["next_ckpt_n"])
            if restore and restore["lease"] == orders["lease"]:
                number = max(number, restore["n"] + 1)
            disk.snapshot, disk.is_uploaded = (self.machine.epoch, number, self.step()), False
        if disk.is_uploaded:
            self.ground.loop.after(0.1, self._done, "checkpoint", True)
            return
        self.memory["next_ckpt_n"] = disk.snapshot[1] if disk.snapshot else 0
        self.upload_n += 1
        self.ground.loop.after(self._transfer_s(), self._upload, disk.snapshot, self.upload_n)

    def _upload(self, snapshot: tuple[int, int, int], upload_n: int) -> None:
        if not self.is_on or upload_n != self.upload_n:
            return
        orders, faults = self.machine.orders, self.ground.faults
        assert orders is not None, "checkpoints need orders"
        epoch, number, step = snapshot
        slots = open_slots(orders, self.machine.upload.kept)
        slot = next((slot for slot in slots if slot["n"] == number), None)
        if slot is None or self.box.is_suspended or not self._can_reach_store:
            self._done("checkpoint", False)
            return
        index = stored((b"junk " if faults.hits("J3") else INDEX) + str(step).encode())
        part = a_part(f"{orders['lease']}/{number}/{step}", PART_BYTES)
        place = f"{orders['lease']}/ckpt/{number}/part-"
        rows = [{"key": place + str(i), "size": p.size, "sha256": p.sha256} for i, p in enumerate((index, part))]
        before = self.memory["last_ckpt_n"]
        if before not in (None, number) and faults.hits("J8"):
            rows[1] |= {"key": f"{orders['lease']}/ckpt/{before}/part-1", "sha256": a_part("unsent", 1).sha256}
        body = {"v": 1, "run_epoch": epoch, "n": number, "step": step, "parts": rows}
        harmed = a_part("harmed", PART_BYTES) if faults.hits("J2") else part
        try:
            self.put(slot["part_urls"][0], index)
            self.put(slot["part_urls"][1], harmed)
            self.bytes_sent += part.size
            self._charge_upload(part.size)
            self.put(slot["manifest_url"], stored(json.dumps(body).encode()))
        except ObjectRefused:
            self._done("checkpoint", False)
            return
        self.memory.update(next_ckpt_n=number + 1, last_ckpt_n=number)
        self.box.disk.sent = snapshot
        if self.box.disk.snapshot == snapshot:
            self.box.disk.is_uploaded = True
        self._done("checkpoint", True)

    def _charge_upload(self, size: int) -> None:
        """So many bytes leave the machine, and its host bills them."""
        box = self.box
        if box.host.upload_price:
            amount = (box.host.upload_price * size / BYTES_PER_GB).quantize(Decimal("1e-9"))
            self.ground.books.charge(box.meter, "bwu", self.ground.now_s, amount)

    def _fetch(self) -> tuple[int, int, int] | None:
        """The checkpoint of the orders: (epoch, number, step); None when there is none. Raises ``ObjectRefused``."""
        orders = self.machine.orders
        restore = orders["restore"] if orders else None
        if restore is None:
            return None
        if self.box.is_suspended or not self._can_reach_store:
            raise ObjectRefused("the store cannot be reached")
        if self.ground.faults.hits("J9"):
            self._objects.rot(restore["part_urls"][-1])
        manifest = json.loads(self._objects.get_by(restore["manifest_url"]).data or b"{}")
        for part, url in zip(manifest["parts"], restore["part_urls"], strict=False):
            if not self._is_whole(self._objects.get_by(url), part):
                self.damaged += 1
                raise ObjectRefused("a part of it has changed")
        return manifest["run_epoch"], manifest["n"], manifest["step"]

    def _is_whole(self, found: Stored, part: dict[str, Any]) -> bool:
        return bool(found.sha256 == part["sha256"])

    def _inputs(self) -> None:
        """From the network at large, which no fault of the object store touches."""
        is_there = self.box.state is not State.OFFLINE and self.box.is_broken != "never ready"
        self._done("inputs", is_there and not self.box.is_suspended)

    def _renew(self) -> None:
        """Nothing of the task before is left on the disk."""
        disk = self.box.disk
        disk.step, disk.snapshot, disk.is_uploaded, disk.owner = 0, None, False, None
        self.memory["last_ckpt_n"] = None
        self._done("renew", self.is_on and not self.box.is_suspended)

    def _prefetch(self) -> None:
        try:
            self._fetch()
        except ObjectRefused:
            self._done("prefetch", False)
        else:
            self._done("prefetch", True)

    def _restore(self) -> None:
        if not self.is_on:
            return
        disk = self.box.disk
        try:
            ordered = self._fetch()
        except ObjectRefused:
            if self.damaged < 5 or disk.snapshot is None:
                self._done("restore", False)
                return
            ordered = None
        self.damaged = 0
        if ordered is not None and (orders := self.machine.orders):
            disk.owner = orders["job"]
            self.ground.check.restore(self.box, orders["restore"]["lease"], ordered[1])
        found = [snapshot for snapshot in (ordered, disk.snapshot) if snapshot is not None]
        newest = max(found, key=lambda snapshot: snapshot[:2], default=None)
        disk.step = newest[2] if newest is not None else 0
        if newest is not None and newest is ordered and newest != disk.snapshot:
            disk.snapshot, disk.is_uploaded = newest, True
        self._done("restore", True)

    def _report(self) -> None:
        orders = self.machine.orders
        if not self.is_on or orders is None or self.box.is_suspended or not self._can_reach_store:
            self._done("report", False)
            return
        try:
            ended = self.machine.exit
            if ended is not None and ended.exit_code != 0 and self.box.job_id is not None:
                self.ground.failed_runs.add((self.box.job_id, ended.run_epoch))
            self._reported_exit = ended
            self._beat(is_due=True)
        except ObjectRefused:
            self._done("report", False)
            return
        self._done("report", True)

    def _beat(self, is_due: bool = False) -> None:
        """Raises ``ObjectRefused``."""
        machine, orders = self.machine, self.machine.orders
        if orders is None or machine.is_surplus():
            return
        self.beats += 1
        step = self.step()
        is_lie = self.ground.faults.hits("J2")
        body = {
            **{"v": 1, "boot": self.memory["boot"], "seq": self.beats, "run_epoch": orders["run_epoch"]},
            **{"orders_seq_seen": machine.seq, "state": machine.state(), "saved": machine.is_saved()},
            **{"step": step * (1000 if is_lie else 1), "progress": None, "bytes_sent": self.bytes_sent},
            **{"last_ckpt_n": None if machine.is_of_other() else self.memory["last_ckpt_n"]},
            **{"next_ckpt_n": self.memory["next_ckpt_n"]},
            **{"next_log_n": 0, "restore_failed": self.damaged > 0, "can": ABILITIES, "exit": self._exit_record()},
        }
        if not is_due and not self._pace.must_tell(body, self.ground.now_s):
            return
        self._pace.note_arrival(body, self.ground.now_s)
        beat = stored(json.dumps(body).encode()) if self._liar is None else self._liar.heartbeat(body)
        self.put(orders["put_urls"]["heartbeat"], beat)

    def _exit_record(self) -> dict[str, Any] | None:
        ended = self.machine.exit
        is_told = ended is not None and ended == self._reported_exit and not self.machine.is_of_other()
        return dict(self.machine.to_remember()["exit"]) if is_told else None

    # --- the market

    def _ask_market(self, wish: str) -> None:
        if self.host is not None:
            self.host.power_off()
            return
        if self.box.state is State.OFFLINE:
            self.ground.loop.after(20, self._done, wish, False)
            return
        asked = Request(wish, "DELETE", "", {}, None, self.box.id, by_agent=True)
        answer = self._connection.send(asked)

        def answered(done: Any) -> None:
            found = done.result() if done.exception() is None else None
            self._done(wish, isinstance(found, Raw) and found.status == 200)

        answer.add_done_callback(answered, context=self.ground.loop.outside)
