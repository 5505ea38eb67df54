"""The agent: the one program that autopilot puts on a rented machine. Usage: agent.py ORDERS_URL

It reads its orders from a signed URL, restores the newest complete checkpoint, runs the job, uploads checkpoints,
logs and heartbeats, reports the exit, and destroys its own machine when nobody renews its permit. It may be killed
at any moment and started again at any moment. Python 3.8+, standard library only, no other file of the project.

``Machine`` decides and does nothing; ``Agent`` does and decides nothing; ``Snapshots`` keeps archives on the disk.
Times are market seconds (real seconds x AUTOPILOT_CLOCK_SPEED) on a clock that no one can set and that runs on
through suspension. Only socket timeouts are real seconds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import queue
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

POLL_S = 15.0
DEFAULT_TTL_S = 900.0
SAVE_BOUND_S = 120.0  # from the end of the permit to the self-destroy
TERM_GRACE_S = 60.0
RETRY_FIRST_S, RETRY_MOST_S = 5.0, 300.0
REPEAT_S = 60.0  # a destroy that was accepted is asked for again: we are still here
HTTP_TIMEOUT_S = 20
TICK_S = 0.1
MAX_OBJECT_BYTES = 1000000
MIN_PART_BYTES = 8 << 20
LOG_CHUNK_BYTES, LOG_BUFFER_BYTES = 256 << 10, 8 << 20
SNAPSHOTS_KEPT = 2
TRIES = 5
HOME = "var/lib/autopilot"
MARKET_KEYS = ("CONTAINER_API_KEY", "RUNPOD_API_KEY")


def vastai(wish: str, env: Mapping[str, str]) -> list[tuple[str, str, str, dict[str, Any] | None]]:
    """Requests (method, URL, key, body), any of which will do, that ``destroy`` or ``stop`` this machine."""
    base = env.get("AUTOPILOT_PROVIDER_URL") or "https://console.vast.ai"
    url, key = f"{base.rstrip('/')}/api/v0/instances/{env['CONTAINER_ID']}/", env["CONTAINER_API_KEY"]
    return [("DELETE", url, key, {}) if wish == "destroy" else ("PUT", url, key, {"state": "stopped"})]


def runpod(wish: str, env: Mapping[str, str]) -> list[tuple[str, str, str, dict[str, Any] | None]]:
    """As ``vastai``. Which of the two interfaces takes a pod's own key differs from place to place."""
    base = (env.get("AUTOPILOT_PROVIDER_URL") or "https://api.runpod.io").rstrip("/")
    pod, key = env["RUNPOD_POD_ID"], env["RUNPOD_API_KEY"]
    url, target = f"{base}/v2/pods/{pod}", f"(input: {{podId: {json.dumps(pod)}}})"
    if wish == "destroy":
        query = f"mutation {{ podTerminate{target} }}"
        return [("DELETE", url, key, None), ("POST", base + "/graphql", key, {"query": query})]
    query = f"mutation {{ podStop{target} {{ id }} }}"
    return [("POST", url + "/action", key, {"action": "stop"}), ("POST", base + "/graphql", key, {"query": query})]


def market_of(env: Mapping[str, str]) -> Callable[..., Any] | None:
    """The one of the two above whose machine this is: it put an id and a key into the environment."""
    if env.get("RUNPOD_POD_ID") and env.get("RUNPOD_API_KEY"):
        return runpod
    return vastai if env.get("CONTAINER_ID") and env.get("CONTAINER_API_KEY") else None


class Corrupt(Exception):
    """A checkpoint is not what its manifest says."""


def parse_orders(data: bytes) -> dict[str, Any] | None:
    """Orders in which everything that is read below is there and of its type; None for anything else."""
    try:
        orders = json.loads(data)
        work, put = orders["work"], orders["put_urls"]
        numbers = [orders[key] for key in ("run_epoch", "seq", "permit_ttl_s", "checkpoint_interval_s")]
        texts = [work[key] for key in ("setup", "run", "workdir", "checkpoint_path")]
        texts += [put["heartbeat"], put["exit"], orders["next_orders_url"], *work["env"].values()]
        for slot in put["log"]:
            numbers, texts = [*numbers, slot["boot"], slot["n"]], [*texts, slot["url"]]
        for slot in put["ckpt"] + ([{"n": 0, **orders["restore"]}] if orders["restore"] else []):
            numbers, texts = [*numbers, slot["n"]], [*texts, slot["manifest_url"], *slot["part_urls"]]
        whole = orders["v"] == 1 and orders["role"] in ("wait", "run", "save_and_stop", "leave")
        whole = whole and all(type(number) is int and number >= 0 for number in numbers)
        return orders if whole and all(isinstance(text, str) for text in texts) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Machine:
    """Decides what to do next, from orders, results and the time; does nothing itself.

    ``decide`` answers one command or None: ``setup run term kill`` act on the job's process, ``prefetch restore
    checkpoint report destroy stop`` are tasks that end in ``task_done``, ``quit`` ends the agent. Whatever happened,
    asking again leads to what the newest orders want.
    """

    def __init__(self, now: float, memory: dict[str, Any], second: float = 1.0) -> None:
        self.second = second  # one real second, in market seconds: what processes and networks need at the least
        self.orders: dict[str, Any] | None = None
        self.seq = int(memory["orders_seq"])
        self.permit_until = now + float(memory["permit_ttl_s"])
        self.setup_done = bool(memory["setup_done"])
        self.exit: dict[str, Any] | None = memory["exit"]
        self.dirty = bool(memory["dirty"])  # the job has run since the last upload that was taken after its end
        self.epoch = int(memory["run_epoch"])
        self.process: str | None = None
        self.restored = self.reported = self.killed = self.final = False
        self.prefetching = self.prefetched = ""
        self.stop_since: float | None = None
        self.expired_since: float | None = None
        self.quit_since: float | None = None
        self.checkpoint_at = now
        self.tasks: list[str] = []
        self.failures: dict[str, int] = {}
        self.not_before: dict[str, float] = {}

    # -- what happens

    def orders_received(self, orders: dict[str, Any], now: float) -> bool:
        """Take them unless they are older than what is known; only a higher ``seq`` renews the permit."""
        if orders["seq"] < self.seq:
            return False
        if orders["seq"] > self.seq:
            self.seq = orders["seq"]
            self.permit_until = now + orders["permit_ttl_s"]
        self.orders = orders
        return True

    def process_started(self, kind: str, now: float) -> None:
        self.process, self.stop_since, self.killed = kind, None, False
        if kind == "run":
            self.exit, self.reported, self.dirty = None, False, True
            self.epoch = self.orders["run_epoch"] if self.orders else self.epoch
            self.checkpoint_at = now + self._interval()

    def process_ended(self, code: int, now: float, finished_at: str) -> None:
        kind, stopped = self.process, self.stop_since is not None
        self.process = self.stop_since = None
        if kind == "run":
            self.restored = False
        elif kind == "setup" and code == 0:
            self.setup_done = True
        if stopped or (kind == "setup" and code == 0):
            return
        if kind == "run" or self._role() == "run":
            killer = -code if code < 0 else code - 128 if 128 < code <= 192 else None
            epoch = self.epoch if kind == "run" or not self.orders else self.orders["run_epoch"]
            self.exit = {
                "run_epoch": epoch,
                "exit_code": code,
                "signal": killer,
                "reason": "exited" if kind == "run" else "setup_failed",
                "finished_at": finished_at,
            }
            self.reported = False
        else:
            self._failed("setup", now)

    def task_done(self, task: str, ok: bool, now: float) -> None:
        self.tasks.remove(task)
        if not ok:
            self._failed(task, now)
            return
        self.failures[task] = 0
        self.not_before[task] = now + (REPEAT_S if task in ("destroy", "stop") else 0)
        if task == "restore":
            self.restored = True
        elif task == "prefetch":
            self.prefetched = self.prefetching
        elif task == "checkpoint":
            self.checkpoint_at = now + self._interval()
            self.dirty = self.dirty and not self.final
        elif task == "report":
            self.reported = True

    # -- what to do

    def decide(self, now: float) -> str | None:
        if now >= self.permit_until and self.expired_since is None:
            self.expired_since = now  # for good: whoever renews it now finds a machine on its way out
        role = self._role()
        fenced = role in ("wait", "leave")
        if self.quit_since is not None:
            over = now >= self.quit_since + 4 * self.second
            if self.process and not over:
                return self._end_process(now, 2 * self.second)
            return "quit" if over or fenced or not self.dirty else self._begin("checkpoint", now)
        if self.expired_since is not None:
            bound = max(SAVE_BOUND_S, 5 * self.second)
            over = now >= self.expired_since + bound
            if self.process and not over:
                return self._end_process(now, bound / 2)
            if (self.dirty or self._unreported()) and not fenced and not over:
                return self._save_and_report(now)
            return self._begin("stop" if self.dirty and not fenced else "destroy", now)
        if self.stop_since is not None or (self.process and role in ("save_and_stop", "leave")):
            return self._end_process(now)
        if role == "run":
            return self._run(now)
        if role == "save_and_stop":
            return self._save_and_report(now)
        if role == "wait":
            return self._wait(now)
        return None

    def state(self) -> str:
        """The word for the heartbeat."""
        role = self._role()
        if self.expired_since is not None:
            return "expired"
        if self.exit is not None and self.process is None and not self.dirty:
            return "finished"
        if role == "save_and_stop" or (self.exit is not None and self.dirty):
            return "saving"
        if role == "leave":
            return "left"
        if self.process:
            return "running" if self.process == "run" else "setting_up"
        return "restoring" if "restore" in self.tasks or "prefetch" in self.tasks else "waiting"

    def saved(self) -> bool:
        """Ordered to save and stop, and nothing runs and nothing is left to upload."""
        return self._role() == "save_and_stop" and self.process is None and not self.dirty

    def restore_name(self) -> str:
        """What the orders want restored; the same checkpoint keeps its name when its URL is signed anew."""
        restore = self.orders["restore"] if self.orders else None
        return restore["manifest_url"].split("?")[0] if restore else ""

    def _role(self) -> str | None:
        return self.orders["role"] if self.orders else None

    def _interval(self) -> float:
        return max(float(self.orders["checkpoint_interval_s"]) if self.orders else 0.0, 0.25 * self.second)

    def _run(self, now: float) -> str | None:
        assert self.orders is not None
        epoch = self.orders["run_epoch"]
        if self.exit is not None and self.process is None and self.exit["run_epoch"] >= epoch:
            return self._save_and_report(now)
        if self.process == "run":
            if self.epoch != epoch:  # promoted anew, perhaps after others ran: start over from the newest checkpoint
                return self._end_process(now)
            return self._begin("checkpoint", now) if now >= self.checkpoint_at else None
        if self.process or not self._set_up():
            return None if self.process else self._start("setup", now)
        return self._start("run", now) if self.restored else self._begin("restore", now)

    def _wait(self, now: float) -> str | None:
        if self.process == "run":
            return self._end_process(now)
        if self.process or not self._set_up():
            return None if self.process else self._start("setup", now)
        return self._begin("prefetch", now) if self.restore_name() != self.prefetched else None

    def _set_up(self) -> bool:
        return self.setup_done or not (self.orders and self.orders["work"]["setup"])

    def _save_and_report(self, now: float) -> str | None:
        if self.dirty:
            return self._begin("checkpoint", now)
        return self._begin("report", now) if self._unreported() else None

    def _unreported(self) -> bool:
        return self.exit is not None and not self.reported

    def _start(self, kind: str, now: float) -> str | None:
        return None if self.tasks or now < self.not_before.get(kind, now) else kind

    def _begin(self, task: str, now: float) -> str | None:
        blocked = task in self.tasks or (self.tasks and task not in ("destroy", "stop"))
        if blocked or now < self.not_before.get(task, now):
            return None
        self.tasks.append(task)
        if task == "checkpoint":
            self.final = self.process is None
        elif task == "prefetch":
            self.prefetching = self.restore_name()
        return task

    def _end_process(self, now: float, grace_s: float = TERM_GRACE_S) -> str | None:
        if self.stop_since is None:
            self.stop_since = now
            return "term"
        if not self.killed and now >= self.stop_since + max(grace_s, 2 * self.second):
            self.killed = True
            return "kill"
        return None

    def _failed(self, what: str, now: float) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1
        wait_s = min(RETRY_FIRST_S * 2 ** (self.failures[what] - 1), RETRY_MOST_S)
        self.not_before[what] = now + max(wait_s, 0.25 * self.second)


def tree(path: str, name: str = "checkpoint") -> Iterator[tuple[str, str, os.stat_result]]:
    """(name in the archive, path, stat) of ``path`` and all beneath it, always in the same order."""
    info = os.lstat(path)
    yield name, path, info
    if stat.S_ISDIR(info.st_mode):
        for entry in sorted(os.listdir(path)):
            yield from tree(os.path.join(path, entry), name + "/" + entry)


def fingerprint(path: str) -> list[Any] | None:
    """Equal before and after a copy if nothing moved meanwhile; None when there is nothing."""
    if not os.path.exists(path):
        return None
    found = []
    for name, _, info in tree(os.path.realpath(path)):
        moving = (info.st_ino, info.st_size, info.st_mtime_ns) if not stat.S_ISDIR(info.st_mode) else ()
        found.append((name, info.st_mode, *moving))
    return found


def archive(path: str, out: IO[bytes]) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name, full, info in tree(os.path.realpath(path)):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = stat.S_IMODE(info.st_mode), info.st_mtime
            if stat.S_ISREG(info.st_mode):
                member.size = info.st_size
                with open(full, "rb") as file:
                    tar.addfile(member, file)
            elif stat.S_ISDIR(info.st_mode) or stat.S_ISLNK(info.st_mode):
                link = stat.S_ISLNK(info.st_mode)
                member.type = tarfile.SYMTYPE if link else tarfile.DIRTYPE
                member.linkname = os.readlink(full) if link else ""
                tar.addfile(member)


def extract(source: str, target: str) -> None:
    """Replace ``target`` by the archive's content. The archive is a stranger's: nothing leads out of ``target``."""
    scratch = target + ".restoring"
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    links = []
    try:
        with tarfile.open(source, "r:") as tar:
            for member in tar:
                steps = member.name.split("/")
                if steps[0] != "checkpoint" or any(step in ("", ".", "..") for step in steps):
                    raise Corrupt("a path in it leads elsewhere")
                place = os.path.join(scratch, *steps)
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    os.makedirs(os.path.dirname(place), exist_ok=True)
                    with open(place, "wb") as file:
                        shutil.copyfileobj(content, file, 1 << 20)
                    os.chmod(place, member.mode & 0o777)
                    os.utime(place, (member.mtime, member.mtime))
                elif member.isdir():
                    os.makedirs(place, exist_ok=True)
                elif member.issym():
                    goal = os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
                    if goal.split("/")[0] != "checkpoint":
                        raise Corrupt("a link in it leads elsewhere")
                    links.append((member.linkname, place))
                else:
                    raise Corrupt("it holds something that is no file")
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Corrupt(f"its archive cannot be read: {error}") from error
    for link, place in links:  # last, so that nothing was written through one
        os.symlink(link, place)
    if not os.path.exists(os.path.join(scratch, "checkpoint")):
        raise Corrupt("there is nothing in it")
    if os.path.isdir(target) and not os.path.islink(target):
        shutil.rmtree(target)
    elif os.path.lexists(target):
        os.remove(target)
    os.replace(os.path.join(scratch, "checkpoint"), target)
    shutil.rmtree(scratch)


def write_json(path: str, value: Any) -> None:
    """The old file or the whole new one, also after a power cut."""
    with open(path + ".tmp", "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


class HashingFile:
    """Counts and hashes what is written through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size, self.sha256 = file, 0, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self.sha256.update(data)
        return self.file.write(data)


def copy_hashed(source: Any, most: int, out: Any = None) -> tuple[int, str]:
    """Read at most ``most`` bytes, write them to ``out`` if there is one; answers how many and their SHA-256."""
    digest, left = hashlib.sha256(), most
    while left > 0:
        block = source.read(min(left, 1 << 20))
        if not block:
            break
        digest.update(block)
        left -= len(block)
        if out is not None:
            out.write(block)
    return most - left, digest.hexdigest()


class Slice:
    """``length`` bytes of a file from ``offset``, as a request body that is read in pieces."""

    def __init__(self, file: IO[bytes], offset: int, length: int) -> None:
        self.file, self.left = file, length
        file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(data)
        return data


class Snapshots:
    """Archives of the checkpoint on the local disk: ``<run_epoch>-<n>.tar``, complete once its ``.json`` is there."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        os.makedirs(directory, exist_ok=True)

    def newest_first(self) -> list[dict[str, Any]]:
        found = []
        for name in os.listdir(self.directory):
            if name.endswith(".json"):
                with open(os.path.join(self.directory, name)) as file:
                    found.append(json.load(file))
        return sorted(found, key=lambda meta: (meta["run_epoch"], meta["n"]), reverse=True)

    def tar(self, meta: dict[str, Any]) -> str:
        return os.path.join(self.directory, f"{meta['run_epoch']}-{meta['n']}.tar")

    def mark(self, meta: dict[str, Any]) -> None:
        write_json(self.tar(meta)[:-4] + ".json", meta)

    def drop(self, meta: dict[str, Any]) -> None:
        for path in (self.tar(meta)[:-4] + ".json", self.tar(meta)):
            if os.path.exists(path):
                os.remove(path)

    def add(self, meta: dict[str, Any], fill: Callable[[Any], None]) -> None:
        """A snapshot whose archive ``fill`` writes, complete or not at all; the oldest ones go."""
        scratch = os.path.join(self.directory, "incoming")
        try:
            with open(scratch, "wb") as file:
                hashing = HashingFile(file)
                fill(hashing)
                file.flush()
                os.fsync(file.fileno())
            self.drop(meta)
            os.replace(scratch, self.tar(meta))
        finally:
            if os.path.exists(scratch):
                os.remove(scratch)
        self.mark({**meta, "size": hashing.size, "sha256": hashing.sha256.hexdigest()})
        for old in self.newest_first()[SNAPSHOTS_KEPT:]:
            self.drop(old)

    def take(self, path: str, meta: dict[str, Any], seen: Any) -> Any:
        """Copy what is at ``path`` unless it is as ``seen``; answers its fingerprint. Raises OSError."""

        def copy(out: Any) -> None:
            archive(path, out)
            if fingerprint(path) != before:
                raise FileNotFoundError(errno.ENOENT, "it changed")

        for _ in range(TRIES):
            try:
                before = fingerprint(path)
                if before is not None and before != seen:
                    self.add(meta, copy)
                return before
            except OSError as error:
                if error.errno not in (None, errno.ENOENT):  # those two: it moved while it was read
                    raise
            time.sleep(0.2)
        raise OSError("the checkpoint kept changing while it was copied; write it aside and rename it into place")

    def unpack(self, meta: dict[str, Any], target: str) -> None:
        with open(self.tar(meta), "rb") as file:
            known = copy_hashed(file, meta["size"] + 1)
        if known != (meta["size"], meta["sha256"]):
            raise Corrupt("its archive on this disk has changed")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        extract(self.tar(meta), target)


class Agent:
    """Carries out what ``Machine`` decides, on one machine: processes, disk, network."""

    def __init__(self, orders_url: str) -> None:
        self.root = os.path.abspath(os.environ.get("AUTOPILOT_ROOT") or "/")
        self.speed = float(os.environ.get("AUTOPILOT_CLOCK_SPEED") or 1)
        self.home = self.beneath(os.environ.get("AUTOPILOT_STATE") or HOME)
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        self.lock = os.open(os.path.join(self.home, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: another agent has this disk
        self.memory: dict[str, Any] = {
            **{"boot": 0, "token": uuid.uuid4().hex, "next_orders_url": "", "orders_seq": 0, "run_epoch": 0},
            **{"permit_ttl_s": DEFAULT_TTL_S, "setup_done": False, "dirty": False, "exit": None},
            **{"next_ckpt_n": 0, "attempted_ckpt_n": -1, "last_ckpt_n": None},
        }
        self.memory_file = os.path.join(self.home, "memory.json")
        with contextlib.suppress(FileNotFoundError, ValueError), open(self.memory_file) as file:
            self.memory.update(json.load(file))
        self.memory["boot"] += 1
        if self.is_new_container():  # what the setup installed went with the old one's disk
            self.memory["setup_done"] = False
        self.remembered = ""
        self.first_orders_url = orders_url
        self.orders_urls = [url for url in (self.memory["next_orders_url"], orders_url) if url]
        self.machine = Machine(self.now(), self.memory, self.speed)
        self.snapshots = Snapshots(os.path.join(self.home, "snapshots"))
        self.seen: Any = None  # fingerprint of the checkpoint that was copied or restored last
        self.progress_file = os.path.join(self.home, "progress.json")
        self.child: subprocess.Popen[bytes] | None = None
        self.pump = threading.Thread()
        self.events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.wake = threading.Event()
        self.memory_lock, self.mail_lock, self.log_lock = threading.Lock(), threading.Lock(), threading.Lock()
        self.log_buffer, self.log_chunk, self.next_log_n = bytearray(), b"", 0
        self.beats = self.bytes_sent = self.damaged = 0
        self.problems: dict[str, str] = {}
        if market_of(os.environ) is None:
            self.trouble("key", "there is no machine id with its key here: this machine cannot destroy itself")

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) * self.speed

    def is_new_container(self) -> bool:
        """Whether the container's own disk is another than that of the last boot; it may go while ``home`` stays."""
        mark, token = os.path.join(self.beneath(HOME), "container"), self.memory["token"]
        with contextlib.suppress(FileNotFoundError), open(mark) as file:
            if file.read() == token:
                return False
        os.makedirs(self.beneath(HOME), mode=0o700, exist_ok=True)
        with open(mark, "w") as file:
            file.write(token)
        return True

    def beneath(self, *path: str) -> str:
        """``path`` as seen from the instance's root; ``..`` does not lead out of it."""
        return os.path.join(self.root, os.path.normpath(os.path.join("/", *path)).lstrip("/"))

    # -- the main loop: events in, one decision, one act

    def run(self) -> None:
        self.say(f"agent started, boot {self.memory['boot']}")
        self.sweep("run")
        if not self.memory["setup_done"]:
            self.sweep("setup")
        signal.signal(signal.SIGTERM, lambda *_: self.events.put(("quit",)))
        threading.Thread(target=self.correspond, daemon=True).start()
        command, state = None, ""
        while command != "quit":
            try:
                command = self.step()
            except Exception as error:  # whatever it was, the permit must go on being counted
                self.trouble("step", repr(error))
                time.sleep(1)
            if self.machine.state() != state:
                state = self.machine.state()
                self.say("now " + state)
                self.wake.set()
        self.end("kill")

    def step(self) -> str | None:
        with contextlib.suppress(queue.Empty):
            self.take_in(self.events.get(timeout=TICK_S))
        if self.child is not None and self.child.poll() is not None:
            self.ended(self.child.returncode)
        command = self.machine.decide(self.now())
        if command in ("setup", "run"):
            self.machine.process_started(command, self.now())
        self.remember()
        if command in ("setup", "run"):
            self.spawn(command)
        elif command in ("term", "kill"):
            self.end(command)
        elif command is not None and command != "quit":
            threading.Thread(target=self.attempt, args=(command,), daemon=True).start()
        return command

    def take_in(self, event: tuple[Any, ...]) -> None:
        now = self.now()
        if event[0] == "orders" and self.machine.orders_received(event[1], now):
            self.memory["next_orders_url"] = event[1]["next_orders_url"]
            self.memory["permit_ttl_s"] = event[1]["permit_ttl_s"]
            self.orders_urls = [self.memory["next_orders_url"], self.first_orders_url]
        elif event[0] == "done":
            self.machine.task_done(event[1], not event[2], now)
            self.wake.set()
        elif event[0] == "quit" and self.machine.quit_since is None:
            self.machine.quit_since = now

    def remember(self) -> None:
        """What the next boot must know, on the disk before it is acted upon."""
        machine = self.machine
        self.memory.update(orders_seq=machine.seq, setup_done=machine.setup_done, exit=machine.exit)
        self.memory.update(dirty=machine.dirty, run_epoch=machine.epoch)
        with self.memory_lock:
            text = json.dumps(self.memory)
            try:
                if text != self.remembered:
                    write_json(self.memory_file, self.memory)
                    self.remembered = text
            except OSError as error:  # a full disk must not keep it from what comes next
                self.trouble("memory", str(error))

    def attempt(self, task: str) -> None:
        error = ""
        try:
            getattr(self, task)()
            self.problems.pop(task, None)
        except Exception as failure:  # every task is tried again
            error = f"{type(failure).__name__}: {failure}"
            self.trouble(task, error)
        self.events.put(("done", task, error))

    # -- the job's process

    def spawn(self, kind: str) -> None:
        assert self.machine.orders is not None
        work = self.machine.orders["work"]
        env = {name: value for name, value in os.environ.items() if name not in MARKET_KEYS}
        env.update({"PYTHONUNBUFFERED": "1", **work["env"]})
        env["AUTOPILOT_PROCESS"] = f"{self.memory['token']}-{kind}"
        env["AUTOPILOT_CHECKPOINT_PATH"] = self.checkpoint_path()
        env["AUTOPILOT_PROGRESS_FILE"] = self.progress_file
        workdir = self.beneath(work["workdir"])
        try:
            os.makedirs(workdir, exist_ok=True)
            out = subprocess.PIPE
            command, null = ["/bin/sh", "-c", work[kind]], subprocess.DEVNULL
            self.child = subprocess.Popen(
                command, cwd=workdir, env=env, stdin=null, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        except (OSError, ValueError) as error:
            self.trouble(kind, str(error))
            self.machine.process_ended(127, self.now(), utc_now())
            return
        self.pump = threading.Thread(target=self.collect, args=(self.child.stdout,), daemon=True)
        self.pump.start()

    def end(self, command: str) -> None:
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGTERM if command == "term" else signal.SIGKILL)

    def ended(self, code: int) -> None:
        kind, self.child = self.machine.process, None
        self.say(f"{kind} ended with code {code}")
        self.machine.process_ended(code, self.now(), utc_now())
        self.remember()
        if kind == "run" or code != 0:  # a setup that went well may leave services for the run
            self.sweep(str(kind))
        self.pump.join(1)

    def sweep(self, kind: str) -> None:
        """Kill what is left of the job's processes, wherever in the process tree they went."""
        mark = f"AUTOPILOT_PROCESS={self.memory['token']}-{kind}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue  # gone meanwhile, or not ours to read

    # -- checkpoints

    def checkpoint_path(self) -> str:
        work = self.machine.orders["work"] if self.machine.orders else {}
        path = work.get("checkpoint_path")
        return self.beneath(work["workdir"], path) if path else ""

    def prefetch(self) -> None:
        if self.machine.orders and self.machine.orders["restore"]:
            self.fetch(self.machine.orders["restore"])

    def restore(self) -> None:
        """The newest complete checkpoint, of this disk or the one in the orders, put where the job looks for it."""
        path = self.checkpoint_path()
        if not path:
            return
        try:
            if self.damaged < TRIES or not self.snapshots.newest_first():  # else: an older one that is here will do
                self.prefetch()
            for meta in self.snapshots.newest_first()[:1]:
                try:
                    self.snapshots.unpack(meta, path)
                except Corrupt:
                    self.snapshots.drop(meta)
                    raise
                self.seen, self.damaged = fingerprint(path), 0
                self.say(f"restored checkpoint {meta['n']} of epoch {meta['run_epoch']}")
        except Corrupt:
            self.damaged += 1
            raise

    def fetch(self, restore: dict[str, Any]) -> None:
        """Bring a checkpoint to this disk unless it or a newer one is here. Raises Corrupt, OSError."""
        try:
            manifest = json.loads(self.get(restore["manifest_url"]))
            meta = {"run_epoch": int(manifest["run_epoch"]), "n": int(manifest["n"]), "uploaded": True}
            parts = [(int(part["size"]), str(part["sha256"])) for part in manifest["parts"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt("its manifest cannot be read") from error
        if len(parts) != len(restore["part_urls"]):
            raise Corrupt("its manifest does not match the orders")
        here = [(known["run_epoch"], known["n"]) for known in self.snapshots.newest_first()]
        if here and here[0] >= (meta["run_epoch"], meta["n"]):
            return

        def download(out: HashingFile) -> None:
            for i, (size, sha256) in enumerate(parts):
                with self.open("GET", restore["part_urls"][i]) as response:
                    received = copy_hashed(response, size + 1, out)
                if received != (size, sha256):
                    raise Corrupt(f"part {i} is not what its manifest says")

        self.snapshots.add(meta, download)

    def checkpoint(self) -> None:
        """Copy the checkpoint if it changed, then upload the newest copy unless that is done."""
        path, memory = self.checkpoint_path(), self.memory
        if not path:
            return
        n = max(memory["next_ckpt_n"], memory["attempted_ckpt_n"] + 1)
        meta = {"run_epoch": self.machine.epoch, "n": n, "step": self.progress()[0], "uploaded": False}
        self.seen = self.snapshots.take(path, meta, self.seen)
        for newest in self.snapshots.newest_first()[:1]:
            if not newest["uploaded"]:
                self.upload(newest)

    def upload(self, meta: dict[str, Any]) -> None:
        n, size = meta["n"], meta["size"]
        self.memory["next_ckpt_n"] = n  # what the heartbeat asks URLs for
        part_size = max(MIN_PART_BYTES, -(-size // len(self.checkpoint_urls(n)["part_urls"])))
        parts = []
        with open(self.snapshots.tar(meta), "rb") as file:
            for i, offset in enumerate(range(0, size, part_size)):
                file.seek(offset)
                length, sha256 = copy_hashed(file, min(part_size, size - offset))
                self.put(self.checkpoint_urls(n)["part_urls"][i], Slice(file, offset, length), length)
                parts.append({"key": f"part-{i}", "size": length, "sha256": sha256})
        self.memory["attempted_ckpt_n"] = n  # from here on others may see it: other content needs another number
        self.remember()
        manifest = {"v": 1, "run_epoch": meta["run_epoch"], "n": n, "step": meta["step"], "parts": parts}
        self.put(self.checkpoint_urls(n)["manifest_url"], json.dumps(manifest).encode())
        self.memory.update(next_ckpt_n=n + 1, last_ckpt_n=n)
        self.remember()
        self.snapshots.mark({**meta, "uploaded": True})

    def checkpoint_urls(self, n: int) -> dict[str, Any]:
        """From the newest orders: a long upload outlives the URLs that it began with."""
        for slot in self.machine.orders["put_urls"]["ckpt"] if self.machine.orders else ():
            if slot["n"] == n:
                return dict(slot)
        raise OSError(f"no orders yet with URLs for checkpoint {n}")

    def progress(self) -> tuple[int | None, float | None]:
        """(step, fraction done) as the job claims them."""
        try:
            with open(self.progress_file) as file:
                claim = json.loads(file.read(4096))
            step, fraction = claim.get("step"), claim.get("progress")
        except (OSError, ValueError, AttributeError):
            return None, None
        known = type(fraction) in (int, float) and fraction == fraction
        return step if type(step) is int and 0 <= step < 2**53 else None, min(max(fraction, 0), 1) if known else None

    # -- the mailbox

    def correspond(self) -> None:
        while True:
            for act in (self.fetch_orders, self.ship_logs, self.beat):
                try:
                    act()
                    self.problems.pop(act.__name__, None)
                except Exception as error:  # tried again at the next round
                    self.trouble(act.__name__, str(error))
            self.wake.wait(max(POLL_S / self.speed, 0.25))
            self.wake.clear()

    def fetch_orders(self) -> None:
        try:
            orders = parse_orders(self.get(self.orders_urls[0]))
        except OSError:
            self.orders_urls = self.orders_urls[1:] + self.orders_urls[:1]
            raise
        if orders is None:
            raise ValueError("the orders cannot be read")
        self.events.put(("orders", orders))

    def beat(self) -> None:
        machine = self.machine
        if machine.orders is None:
            return
        self.beats += 1
        (step, progress), memory = self.progress(), self.memory
        body = {
            **{"v": 1, "boot": memory["boot"], "seq": self.beats, "run_epoch": machine.orders["run_epoch"]},
            **{"orders_seq_seen": machine.seq, "state": machine.state(), "saved": machine.saved()},
            **{"step": step, "progress": progress, "bytes_sent": self.bytes_sent, "next_log_n": self.next_log_n},
            **{"last_ckpt_n": memory["last_ckpt_n"], "next_ckpt_n": memory["next_ckpt_n"]},
            "error": "; ".join(list(self.problems.values()))[:500],
        }
        self.put(machine.orders["put_urls"]["heartbeat"], json.dumps(body).encode())

    def report(self) -> None:
        assert self.machine.orders is not None
        try:
            self.ship_logs()
        except OSError as error:
            self.trouble("ship_logs", str(error))
        self.put(self.machine.orders["put_urls"]["exit"], json.dumps({"v": 1, **(self.machine.exit or {})}).encode())

    def say(self, text: str) -> None:
        self.add_to_log(f"autopilot: {text}\n".encode())

    def trouble(self, where: str, text: str) -> None:
        if self.problems.get(where) != text:
            self.problems[where] = text
            self.say(f"{where}: {text}")

    def collect(self, pipe: IO[bytes]) -> None:
        for block in iter(lambda: os.read(pipe.fileno(), 65536), b""):
            self.add_to_log(block)
        pipe.close()

    def add_to_log(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the console is a courtesy
            os.write(1, data)
        with self.log_lock:
            self.log_buffer += data
            del self.log_buffer[: max(0, len(self.log_buffer) - LOG_BUFFER_BYTES)]

    def ship_logs(self) -> None:
        with self.mail_lock:
            slots = self.machine.orders["put_urls"]["log"] if self.machine.orders else []
            for slot in slots:
                if (slot["boot"], slot["n"]) != (self.memory["boot"], self.next_log_n):
                    continue
                if not self.log_chunk:  # a chunk once begun keeps its content until it has arrived
                    with self.log_lock:
                        self.log_chunk = bytes(self.log_buffer[:LOG_CHUNK_BYTES])
                        del self.log_buffer[: len(self.log_chunk)]
                if not self.log_chunk:
                    return
                self.put(slot["url"], self.log_chunk)
                self.log_chunk = b""
                self.next_log_n += 1

    # -- the market, for this machine alone

    def destroy(self) -> None:
        self.ask_market("destroy")

    def stop(self) -> None:
        self.ask_market("stop")

    def ask_market(self, wish: str) -> None:
        market = market_of(os.environ)
        if market is None:
            raise OSError("no machine id with its key")
        *others, last = market(wish, os.environ)
        for request in others:
            try:
                return self.ask(*request)
            except (OSError, ValueError) as error:
                self.trouble(f"{wish} by {request[0]}", str(error))
        try:
            self.ask(*last)
        except urllib.error.HTTPError as error:
            if error.code != 404 or last[0] != "DELETE":
                raise

    def ask(self, method: str, url: str, key: str, body: dict[str, Any] | None) -> None:
        """Raises OSError, ValueError unless the market says yes, in its own way: ``success`` or no ``errors``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": "Bearer " + key,
            "Content-Type": "application/json",
            "User-Agent": "autopilot-agent",
        }
        with self.open(method, url, data, headers) as response:
            answer = json.loads(response.read(MAX_OBJECT_BYTES) or b"{}")
        said_no = not isinstance(answer, dict) or answer.get("errors")
        if said_no or answer.get("success", "/api/v0/" not in url) is not True:
            raise OSError(f"the market answered {str(answer)[:200]}")

    # -- HTTP

    def open(self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)  # noqa: S310
        return urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S)  # noqa: S310 -- URLs are the daemon's

    def get(self, url: str) -> bytes:
        with self.open("GET", url) as response:
            data = bytes(response.read(MAX_OBJECT_BYTES + 1))
        if len(data) > MAX_OBJECT_BYTES:
            raise OSError("larger than a mailbox object may be")
        return data

    def put(self, url: str, body: Any, length: int | None = None) -> None:
        size = len(body) if length is None else length
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with self.open("PUT", url, body, headers) as response:
            response.read(MAX_OBJECT_BYTES)
        self.bytes_sent += size


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: agent.py ORDERS_URL\n")
        return 2
    try:
        agent = Agent(sys.argv[1])
    except BlockingIOError:
        sys.stderr.write("autopilot: an agent already runs on this disk\n")
        return 0
    except (OSError, ValueError) as error:
        sys.stderr.write(f"autopilot: the agent cannot start: {error}\n")
        return 1
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
