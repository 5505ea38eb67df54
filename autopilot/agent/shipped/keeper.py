"""The agent's half of checkpoints: take, send, fetch, put back. Numbers them so that none is written twice."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from .disk import list_uses
from .download import Download
from .left import fetch_left
from .log import Log
from .memory import Memory
from .pieces import Pieces
from .sigv4 import presign
from .slots import open_slots
from .snapshots import TRIES, Everything, Moved, Record, Snapshots
from .stored import Content, Object, Stored
from .transfer import Abandoned, Transfer
from .tree import Corrupt, Scanned, fingerprint, links_out, real_paths, scan
from .upload import SnapshotUpload, content, find_first_number
from .watch import QUIET_S, LookPace, Watch
from .web import Web


class Keeper:
    def __init__(
        self, home: str, web: Web, log: Log, memory: Memory, orders: Callable[[], dict[str, Any] | None], speed: float
    ) -> None:
        self.web, self.log, self.memory, self.orders, self.speed = web, log, memory, orders, speed
        self.snapshots = Snapshots(os.path.join(home, "snapshots"))
        self.stored = Stored(os.path.join(home, "stored.json"))
        self.granted: Any = None
        self.granted_at = 0.0
        self.compresses = False  # what it sends, by zstd
        self.job_uid: int | None = None  # the user that the job's command runs as, if not the agent's
        self.watch, self.looking = Watch(), threading.Lock()
        self.seen: Any = None  # fingerprint of the checkpoint that was copied or restored last
        self.restored: dict[str, Any] = {}  # for the heartbeat: which checkpoint this run began from
        self.stop = threading.Event()
        self.damaged = 0
        self.cost: dict[str, float] = {}  # for the heartbeat: the market seconds that the last checkpoint took
        self.ask: Callable[[], None] = lambda: None  # makes the next heartbeat and look at the orders come at once
        self.is_alone, self.kept_slots = False, 0  # of the upload under way, as ``states.Upload`` has them
        self.whole_parts = 0  # of the checkpoint that was sent or restored last: so many a save takes that changes all
        self.uploading: Transfer | None = None
        self.downloading: Transfer | None = None
        self.fetching: tuple[int, Transfer] | None = None  # of what other jobs have left: which, counted from 0

    def forget_task(self) -> None:
        """Another task's checkpoints are to come; their numbers go on. Raises ``OSError``."""
        for snapshots in (self.snapshots, self.output_snapshots()):
            for record in snapshots.newest_first():
                snapshots.drop(record)
        for stored in (self.stored, self.stored_outputs()):
            stored.forget()
        self.seen, self.damaged, self.cost, self.whole_parts = None, 0, {}, 0
        self.restored, self.watch = {}, Watch()
        self.memory.save(next_ckpt_n=self.next_number(), last_ckpt_n=None)

    def output_snapshots(self) -> Snapshots:
        return Snapshots(self.snapshots.directory + "-outputs")

    def stored_outputs(self) -> Stored:
        return Stored(os.path.join(os.path.dirname(self.stored.path), "stored-outputs.json"))

    def wants(self) -> dict[str, Any]:
        """For the heartbeat: the parts for which URLs are needed next, and whether what is to be restored is harmed."""
        up, down, (left, fetching) = self.uploading, self.downloading, self.fetching or (0, None)
        return {
            "next_part": up.next_part() if up else 0,
            "parts_wanted": up.parts_wanted() if up else 0,
            "whole_parts": self.whole_parts,
            "restore_part": down.next_part() if down else 0,
            "restore_failed": self.damaged > 0,
            "left": left,
            "left_part": fetching.next_part() if fetching else 0,
            **self.restored,
        }

    def abandon(self) -> None:
        self.stop.set()
        if self.uploading is not None:
            self.uploading.stop.set()

    # -- to the store

    def checkpoint(
        self,
        path: str,
        run_epoch: int,
        step: int | None,
        *,
        take: bool = True,
        whole_at: int = 0,
        final: bool = False,
        ended_well: bool = False,
        mlflow_run: str = "",
    ) -> None:
        """Copy what is whole of what is at ``path`` if it is new, then send the newest copy unless that is done.

        ``whole_at``: when (ns) the job reported its files whole, 0 if it never does; newer files belong to the next
        checkpoint. ``ended_well``: their writer reported that nothing is missing.
        """
        if not path:
            return
        self.stop.clear()
        head = {"run_epoch": run_epoch, "n": self.next_number(), "step": step}
        meta = {**head, "uploaded": False, "mlflow_run": mlflow_run}
        if take and whole_at and self.is_newer(path, whole_at):
            if not final:
                raise Moved("the job is writing its next checkpoint")
            take = False
        began_at = self.now()
        if take:
            if final and not ended_well and self.watch.verdicts is None:
                self.look_last(path, is_cut=True)  # it ran before this boot
            self.settle(path, meta, is_whole=bool(whole_at) or ended_well)
            self.warn_of_links(path)
        taken_at = self.now()
        for newest in self.snapshots.newest_first()[:1]:
            if not newest["uploaded"]:
                self.send(self.fit(newest))
                self.cost = {
                    "save_s": (taken_at - began_at - self.waited_s) * self.speed,
                    "upload_s": (self.now() - taken_at) * self.speed,
                }

    # -- what is whole

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Answers whether to give up."""
        return self.stop.wait(seconds)

    waited_s = look_takes_s = 0.0

    def pace(self) -> LookPace:
        orders = self.orders()
        interval_s = float(orders["checkpoint_interval_s"]) if orders else QUIET_S
        return LookPace.of(interval_s, self.speed, self.look_takes_s)

    def look(self, path: str) -> None:
        """Beside the job, so that it is known for how long what it saves has been quiet."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # it moves: the next look will do
            self.look_at(scan(path))

    def look_at(self, scanned: list[Scanned]) -> None:
        began_at = self.now()
        uses: dict[str, str] = {}
        with self.looking:
            self.adopt_known()
            if self.watch.is_restless or self.watch.has_changed(scanned):
                uses = self.find_uses(scanned)
            self.watch.look(began_at, scanned, uses, self.pace())
        self.look_takes_s = self.now() - began_at

    def find_uses(self, scanned: list[Scanned]) -> dict[str, str]:
        real = real_paths([each.path for each in scanned if each.entry.kind == "file"])
        return {real[path]: use for path, use in list_uses(set(real), self.job_uid).items() if path in real}

    def look_last(self, path: str, is_cut: bool) -> None:
        """The process has ended. ``is_cut``: not by itself."""
        with self.looking, contextlib.suppress(OSError):
            self.adopt_known()
            self.watch.close(self.now(), scan(path), self.pace(), is_cut)

    def adopt_known(self) -> None:
        """After a boot nothing is known of what lies there but the newest copy."""
        best = self.snapshots.best()
        if not (self.watch.looks or self.watch.pieces) and best:
            with contextlib.suppress(Moved):
                self.watch.adopt(self.snapshots.as_kept(best), bool(best.get("suspect")))

    def settle(self, path: str, meta: dict[str, Any], is_whole: bool) -> None:
        """Wait until something new is whole, and copy it; nothing if nothing is new."""
        self.waited_s = 0.0
        judge: Any = Everything(self.seen) if is_whole else Pieces(self)
        while not self.snapshots.take(path, meta, judge) and not is_whole and judge.waits:
            step_s = self.pace().look_s
            self.waited_s += step_s
            if self.wait(step_s):
                raise Abandoned("what the job saves is not whole yet")
        if is_whole and judge.scanned:
            self.seen = judge.identities
            with self.looking:
                self.watch.adopt(judge.scanned)

    def is_newer(self, path: str, whole_at: int) -> bool:
        """Whether a file was written after the job's word; what was restored bears the times of another machine."""
        known = {tuple(identity) for identity in self.seen or ()}
        files = (each for each in scan(path) if each.entry.kind == "file" and each.entry.mtime_ns > whole_at)
        return any(tuple(each.identity) not in known for each in files)

    def warn_of_links(self, path: Any) -> None:
        with contextlib.suppress(OSError):  # it moves: the next time will do
            left_out = links_out(path)
            if left_out:
                self.log.trouble("links", f"not saved, for they lead out of what is saved: {', '.join(left_out[:3])}")
            else:
                self.log.resolve("links")

    def next_number(self) -> int:
        restore = self.restore_orders()
        known = [int(self.memory["next_ckpt_n"]), int(self.memory["attempted_ckpt_n"]) + 1]
        if restore and restore["lease"] == self.lease():
            known.append(int(restore["n"]) + 1)  # also on a disk that has forgotten
        return max(known)

    def known_objects(self) -> dict[Content, Object]:
        """What the store has of checkpoints, and what may be named again."""
        restore = self.restore_orders()
        return self.stored.list_objects(*((restore["lease"], restore["n"]) if restore else ("", -1)))

    def fit(self, record: Record) -> Record:
        """The same checkpoint, with a number and parts that the addresses at hand allow, if no new ones come.

        Raises ``OSError`` when those that it may use are used up.
        """
        if not self.is_alone:
            return record
        known, rooms = self.known_objects(), []
        for slot in open_slots(self.orders(), self.kept_slots):
            is_unused = slot["n"] >= self.next_number()
            if not is_unused and slot["n"] != record["n"]:
                continue
            room = count_room(slot, known, f"{self.lease()}/ckpt/{slot['n']}/part-")
            if count_new(record, known) <= room:
                return self.snapshots.recut(record, slot["n"], len(record["parts"]))
            if is_unused:  # a manifest may lie in its own already: other content needs another number
                rooms.append((room - 1, slot["n"]))
        most_parts, number = max(rooms, default=(0, 0), key=lambda pair: pair[0])  # the first of equals
        if most_parts < 1:
            raise OSError("no new addresses come, and those that are left are kept for the last save")
        return self.snapshots.recut(record, number, most_parts)

    def send(self, record: Record) -> None:
        n = record["n"]
        self.whole_parts = len(record["parts"]) + 1
        self.memory.save(next_ckpt_n=n)  # what the heartbeat asks URLs for
        key = f"{self.lease()}/ckpt/{n}/part-"
        self.uploading = Transfer(
            lambda: self.slot(n), self.ask, self.speed, lambda number: self.own_url("PUT", key + str(number))
        )

        def put_manifest(manifest: bytes) -> None:
            # From here on others may see it: other content needs another number.
            self.memory.save(attempted_ckpt_n=n)
            slot = self.slot(n)
            if slot is None:
                raise OSError(f"no orders yet with URLs for checkpoint {n}")
            self.web.put(slot["manifest_url"], manifest)

        try:
            upload = SnapshotUpload(self.web, self.snapshots, self.stored, self.uploading, record)
            rows = upload.send(f"{self.lease()}/ckpt/{n}", self.known_objects(), put_manifest, self.compresses)
            self.stored.close(self.lease(), n, rows)
        finally:
            self.uploading = None
        self.memory.save(next_ckpt_n=n + 1, last_ckpt_n=n)
        self.snapshots.save({**record, "uploaded": True})

    def send_outputs(self, workdir: str, patterns: list[str], run_epoch: int) -> None:
        """What the job leaves: copied, and sent beside the checkpoints."""
        snapshots = self.output_snapshots()
        meta = {"run_epoch": run_epoch, "n": run_epoch, "step": None, "uploaded": False}
        snapshots.take([workdir, *patterns], meta)
        self.warn_of_links([workdir, *patterns])
        for record in snapshots.newest_first()[:1]:
            stored = self.stored_outputs()
            transfer = self.uploading = Transfer(self.outputs_slot, self.ask, self.speed)

            def put_manifest(manifest: bytes) -> None:
                self.web.put(self.outputs_slot()["manifest_url"], manifest)

            try:
                place, known = f"{self.lease()}/out/{run_epoch}", stored.list_objects("", -1)
                room = count_room(self.outputs_slot(), known, f"{place}/part-")
                if self.is_alone and count_new(record, known) > room:
                    record = snapshots.recut(record, run_epoch, max(room - 1, 1))
                SnapshotUpload(self.web, snapshots, stored, transfer, record).send(place, known, put_manifest)
            finally:
                self.uploading = None

    def outputs_slot(self) -> Any:
        orders = self.orders()
        return orders["put_urls"]["out"] if orders else None

    # -- from the store

    def prefetch(self) -> bool:
        """Whether all of the checkpoint of the orders was fetched, and checked, just now."""
        restore = self.restore_orders()
        if restore is None:
            return False
        self.downloading = transfer = Transfer(lambda: self.restore_slot(restore, transfer), self.ask, self.speed)
        try:
            download = Download(self.web, self.snapshots, self.stored, self.downloading)
            self.downloading.sign = lambda number: self.own_url("GET", download.keys.get(number, ""))
            return download.fetch(restore)
        finally:
            self.downloading = None

    def restore(self, path: str) -> str:
        """The newest complete checkpoint, of this disk or the one in the orders, put where the job looks for it.

        Answers the MLflow run that it names, if any.
        """
        if not path:
            return ""
        is_fresh, self.restored = False, {}
        self.drop_doubted()
        try:
            if self.damaged < TRIES or not self.snapshots.newest_first():  # else: an older one that is here will do
                is_fresh = self.prefetch()
            for record in filter(None, [self.snapshots.best()]):
                try:
                    self.snapshots.restore(record, path, is_verified=is_fresh)
                except Corrupt:
                    self.snapshots.drop(record)
                    raise
                self.seen, self.damaged = fingerprint(path), 0
                self.whole_parts = len(record["parts"]) + 1
                self.watch = Watch()
                self.watch.adopt(scan(path), bool(record.get("suspect")))
                self.restored = {"restored": [record["run_epoch"], record["n"]]}
                doubt = ", which is suspect: there is no other" if record.get("suspect") else ""
                self.log.say(f"restored checkpoint {record['n']} of epoch {record['run_epoch']}{doubt}")
                return str(record.get("mlflow_run", ""))
        except Corrupt:
            self.damaged += 1
            raise
        return ""

    def doubt(self, run_epoch: int) -> None:
        """The run of that epoch has failed soon: of what it began from, and what it has left, no copy is used again."""
        began_from = self.restored.get("restored")
        self.memory.save(doubted=[began_from, run_epoch])

    def drop_doubted(self) -> None:
        """What the orders name is fetched once more, if it is that."""
        began_from, run_epoch = self.memory["doubted"] or (None, None)
        for record in self.snapshots.newest_first():
            if [record["run_epoch"], record["n"]] == began_from or record["run_epoch"] == run_epoch:
                self.snapshots.drop(record)
        self.memory.save(doubted=None)

    def fetch_left(self, number: int, wanted: dict[str, Any], path: str) -> None:
        """What another job has left, put where this one looks for it; nothing if that is already.

        Raises ``Corrupt``, ``OSError``.
        """

        def slot() -> Any:  # the newest: the URLs that it begins with may end before it does
            orders = self.orders()
            known = (orders.get("left") or ()) if orders else ()
            same = known[number] if number < len(known) else None
            return same if same and (same["job"], same["n"]) == (wanted["job"], wanted["n"]) else None

        transfer = Transfer(slot, self.ask, self.speed)
        self.fetching = number, transfer
        try:
            fetch_left(self.web, transfer, self.snapshots.directory + "-left", wanted, path)
        finally:
            self.fetching = None

    # -- what the newest orders say

    def own_url(self, method: str, key: str) -> str:
        """Signed here, where the orders give keys to sign with; else nothing. ``key``: as seen from the job."""
        orders = self.orders()
        grant = orders["grant"] if orders and key else None
        if not grant:
            return ""
        if grant != self.granted:
            self.granted, self.granted_at = grant, time.clock_gettime(time.CLOCK_BOOTTIME)
        elapsed_s = time.clock_gettime(time.CLOCK_BOOTTIME) - self.granted_at
        return presign(method, f"{grant['place']}/{key}", grant, grant["at"] + elapsed_s)

    def lease(self) -> str:
        orders = self.orders()
        return str(orders["lease"]) if orders else ""

    def restore_orders(self) -> Any:
        orders = self.orders()
        return orders["restore"] if orders else None

    def restore_slot(self, wanted: Any, transfer: Transfer) -> Any:
        """Newer orders may name a newer checkpoint, whose URLs are of other parts: this one is not to be had then."""
        newest, orders = self.restore_orders(), self.orders()
        if newest and (newest["lease"], newest["n"]) == (wanted["lease"], wanted["n"]):
            return newest
        if orders and not orders["grant"]:
            transfer.stop.set()
        return None

    def slot(self, number: int) -> Any:
        """From the newest orders: a long upload outlives the URLs that it began with."""
        slots = open_slots(self.orders(), self.kept_slots)
        return next((slot for slot in slots if slot["n"] == number), None)


def count_room(slot: dict[str, Any], known: dict[Content, Object], prefix: str) -> int:
    """Parts for which the slot still has addresses: ``plan`` numbers on from those that were sent."""
    first = find_first_number(known, prefix)
    return int(slot["first_part"] + len(slot["part_urls"]) - first) if first >= slot["first_part"] else 0


def count_new(record: Record, known: dict[Content, Object]) -> int:
    """Parts that must be sent, with the index."""
    return 1 + len({content(part) for part in record["parts"]} - set(known))
