"""The check on arrival: what a machine that was just rented has, measured once, before anything is fetched to it.

Every part has a thread of its own and one limit for all: a driver, a disk or a network that hangs costs its own answer
and no more. What was not measured in time is None. The daemon compares it with what was rented.
"""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .disk import clear
from .gpus import MIB, MOST_GPUS, number
from .killed import memory_share
from .web import Web

HANG_S = 20  # market seconds: some drivers take half of that to wake eight GPUs
LEAST_S = 3.0  # real seconds that it has at the least
DISK_BYTES = 32 << 20
BLOCK = 1 << 20
STORE_BYTES = 1 << 20
ALL_REDUCE_S = 30.0
MOST_HOSTS = 8
CONNECT_S = 2.4
SMI = "nvidia-smi"
HANGS = "nvidia-smi hangs"
FULL_QUERY = (
    "memory.used,memory.total,driver_version,clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total"
)
LEAST_QUERY = "memory.used,memory.total,driver_version"
SLOWED = 0x8 | 0x20 | 0x40 | 0x80  # by hardware, by heat, by its power supply; an idle or a capped clock is none
FAULTY = re.compile(
    "NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|Unable to determine the device handle"
    "|is lost|requires reset|fallen off the bus|Unknown Error"
)
NO_PEER = "NCCL_P2P_DISABLE"
REDUCE = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def main(rank, count, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("nccl", rank=rank, world_size=count)
    torch.cuda.set_device(rank)
    held = torch.full((1 << 20,), float(rank + 1), device="cuda")
    dist.all_reduce(held)
    torch.cuda.synchronize()
    good = bool((held == count * (count + 1) / 2).all())
    dist.destroy_process_group()
    sys.exit(0 if good else 9)
if __name__ == "__main__":
    mp.spawn(main, args=(2, sys.argv[1]), nprocs=2)
"""


class Arrival:
    """One look. ``order``: how long it may take, the hosts that the job names, and where the store takes and gives."""

    def __init__(self, order: dict[str, Any], workdir: str, web: Web, speed: float) -> None:
        self.order, self.workdir, self.web = order, workdir, web
        self.until: float = time.monotonic() + max(order["most_s"] / speed, LEAST_S)
        self.is_patient = order["most_s"] >= HANG_S
        self.found: dict[str, Any] = {}
        self.env: dict[str, str] = {}  # what the job's command needs here

    def left(self) -> float:
        return max(self.until - time.monotonic(), 0.0)

    def look(self) -> dict[str, Any]:
        since = time.monotonic()
        parts = (self.look_at_gpus, self.look_at_room, self.look_at_disk, self.look_at_store, self.look_around)
        threads = [threading.Thread(target=self.take, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        threads[0].join(self.left())
        gpus_answer = not threads[0].is_alive()
        for thread in threads:
            thread.join(self.left())
        found = dict(self.found)  # what hangs writes no more into it
        if not gpus_answer and self.is_patient:
            found["gpu_fault"] = HANGS
        if len(found.get("gpus") or ()) > 1:
            found["all_reduce"] = self.reduce()
        return {**found, "took_s": round(time.monotonic() - since, 1)}

    def take(self, part: Callable[[], dict[str, Any]]) -> None:
        with contextlib.suppress(Exception):  # what cannot be measured is not known
            self.found.update(part())

    def look_at_gpus(self) -> dict[str, Any]:
        """A driver in the midst of a call cannot be killed: the thread stays with it."""
        for query in (FULL_QUERY, LEAST_QUERY):  # older and newer drivers do not know every word
            code, said = ask([SMI, "--query-gpu=" + query, "--format=csv,noheader,nounits"], self.left())
            if code is None:
                return {"gpu_fault": HANGS} if self.is_patient else {}
            if code == 0:
                return read_gpus(said)
        fault = find_fault(said)
        return {"gpu_fault": fault} if fault else {}

    def look_at_room(self) -> dict[str, Any]:
        found: dict[str, Any] = {"ram": memory_share()}
        with contextlib.suppress(OSError):
            shared = os.statvfs("/dev/shm")  # noqa: S108
            found["shm"] = shared.f_blocks * shared.f_frsize
        return found

    def look_at_disk(self) -> dict[str, Any]:
        os.makedirs(self.workdir, exist_ok=True)
        room = os.statvfs(self.workdir)
        found: dict[str, Any] = {"disk_free": room.f_bavail * room.f_frsize}
        self.found.update(found)  # also if the disk then hangs
        path, block = os.path.join(self.workdir, ".autopilot-arrival"), os.urandom(BLOCK)
        written, since = 0, time.monotonic()
        try:
            with open(path, "wb", buffering=0) as file:
                while written < DISK_BYTES and self.left() > 1:
                    written += file.write(block)
                os.fsync(file.fileno())
            found["disk_mb_per_s"] = speed(written, since) / 1e6
        except OSError as error:
            found["disk_fault"] = str(error)[:200]
        finally:
            clear(path)
        return found

    def look_at_store(self) -> dict[str, Any]:
        """Both directions, and how far the clock here is from the store's."""
        found: dict[str, Any] = {}
        if not self.order["put_url"]:
            return found
        data, since = os.urandom(STORE_BYTES), time.monotonic()
        self.web.send(self.order["put_url"], lambda: data, len(data), self.left())
        found["upload_mbps"] = speed(len(data), since) * 8 / 1e6
        self.found.update(found)
        since, began = time.monotonic(), calendar.timegm(time.gmtime())
        with self.web.answer("GET", self.order["get_url"], within_s=self.left()) as response:
            received, date = len(response.read(2 * STORE_BYTES)), response.getheader("Date")
        found["download_mbps"] = speed(received, since) * 8 / 1e6
        told = parse_date(date)
        if told is not None:
            found["clock_off_s"] = round(began - told, 1)
        return found

    def look_around(self) -> dict[str, Any]:
        """Which of the hosts that the job names take no connection from here."""
        hosts = self.order["hosts"][:MOST_HOSTS]
        reached: set[str] = set()

        def reach(host: str) -> None:
            name, _, port = host.partition(":")
            for _ in range(2):  # one lost packet is no broken network
                with contextlib.suppress(OSError):
                    socket.create_connection((name, int(port or 443)), timeout=CONNECT_S).close()
                    reached.add(host)
                    return

        threads = [threading.Thread(target=reach, args=(host,), daemon=True) for host in hosts]
        for thread in threads:
            thread.start()
        until = time.monotonic() + min(2 * CONNECT_S, max(self.left() - 0.3, 0))
        for thread in threads:  # looking up a name has no limit of its own
            thread.join(max(until - time.monotonic(), 0))
        return {"unreachable": [host for host in hosts if host not in reached]}

    def reduce(self) -> str:
        """Two GPUs add up what they hold, as training does. Over peer-to-peer some hang, or compute wrong results."""
        if ask([sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], self.left())[0]:
            return "skipped"
        if self.left() < 2:
            return "skipped"
        if self.reduces({}):
            return "ok"
        if self.left() >= 2 and self.reduces({NO_PEER: "1"}):
            self.env = {NO_PEER: "1"}
            return "without_peer"
        return "failed"

    def reduces(self, env: dict[str, str]) -> bool:
        script = os.path.join(self.workdir, ".autopilot-reduce.py")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        try:
            with open(script, "w") as file:
                file.write(REDUCE)
            limit_s = min(self.left() / 2, ALL_REDUCE_S)
            return ask([sys.executable, script, port], limit_s, {**os.environ, **env})[0] == 0
        finally:
            clear(script)


def ask(command: list[str], limit_s: float, env: dict[str, str] | None = None) -> tuple[int | None, str]:
    """Code and output; None for one that does not end in time. Raises ``OSError`` where there is no such program."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=env,
        preexec_fn=os.setpgrp,  # of a session of its own the agent would take its end away
    )
    try:
        said, _ = process.communicate(timeout=max(limit_s, 0.1))
        return process.returncode, said[:100000]
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, 9)  # one that the kernel does not let go is left behind
        return None, ""


def read_gpus(said: str) -> dict[str, Any]:
    gpus, driver = [], ""
    for line in said.splitlines():
        used, total, version, slowed, errors = [*(word.strip() for word in line.split(",")), "", "", "", "", ""][:5]
        known_used, known_total = number(used), number(total)
        if not version:
            continue
        driver = version
        gpus.append(
            {
                "used": None if known_used is None else int(known_used * MIB),
                "total": None if known_total is None else int(known_total * MIB),
                "slowed": is_slowed(slowed),
                "errors": int(number(errors) or 0),
            }
        )
    fault = find_fault(said)
    found: dict[str, Any] = {"gpu_fault": fault} if fault else {}
    return {**found, "gpus": gpus[:MOST_GPUS], "driver": driver[:40]} if gpus else found


def find_fault(said: str) -> str:
    """The line that says that a GPU cannot be used; what is not understood says nothing."""
    return next((" ".join(line.split())[:200] for line in said.splitlines() if FAULTY.search(line)), "")


def is_slowed(reasons: str) -> bool:
    try:
        return bool(int(reasons, 16) & SLOWED)
    except ValueError:
        return False


def speed(count: int, since: float) -> float:
    """Bytes per second."""
    return count / max(time.monotonic() - since, 1e-3)


def parse_date(text: str | None) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
