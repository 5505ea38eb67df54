"""The program on a machine of one's own. Each lease is a directory, and the processes that came of it.

It is sent over SSH with each request, and answers with one line. ``create`` leaves a copy in the lease's directory,
which stays beside the agent: it starts the agent again, and ends the lease when the agent wishes so, when the owner
takes the machine back, or when its hours are over. Whether it runs is said by a lock, which ends with its process.

Nothing else of the account is touched. A process is a lease's own if the lease's token is in its environment, or if it
descends from one that has it; it is signalled only while its start time is the one that was seen with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from shlex import quote
from typing import IO, Any

SOURCE: str = globals().get("SOURCE", "")
"""This text, where it came by a connection."""
ANSWER = "autopilot-answer "
MOST_LEASES = 64
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", re.ASCII)
MARK = "AUTOPILOT_LEASE_MARK"
"""The variable that holds a lease's token."""
TAKEN_BACK = "taken-back"
"""A file beside the leases: while it is there, the machine is its owner's."""
AGENT = "var/lib/autopilot/agent.pyz"
"""Where the start text puts the agent, beneath the lease's root."""
LOCK_S = 10.0
UP_S = 5.0
STOP_S, END_S = 8.0, 10.0
GRACE_S = 60.0
"""Real seconds from the notice to the end, when the owner takes the machine back or its hours are over."""
AGAIN_S, AGAIN_MOST_S, STEADY_S = 2.0, 60.0, 300.0
"""Between two starts of an agent that has ended; one that has run for so long begins with the shortest pause again."""
LOOK_S = 0.25
SMI_S = 20.0
MOST_WORDS = 8192
MOST_BYTES = 1 << 20
USED_MIB = 1024
"""Of a GPU's memory: more is in use by somebody. A desktop takes some hundreds."""
SMI_FIELDS = "index,uuid,name,memory.total,memory.used,driver_version,compute_cap"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH", "CUDA_HOME")
PR_SET_CHILD_SUBREAPER = 36


# -- places


def read_json(path: str) -> Any:
    """None where there is nothing that can be read."""
    try:
        with open(path) as file:
            return json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def write_private(path: str, text: str) -> None:
    """For this user alone, and whole at any time. Raises ``OSError``."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path + ".new")
    with os.fdopen(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def hold(path: str, wait_s: float) -> int | None:
    """A descriptor that has the lock; None if another has it for all that time. Raises ``OSError``."""
    lock, until = os.open(path, os.O_RDWR | os.O_CREAT, 0o600), time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(lock)
                return None
            time.sleep(0.05)


class Place:
    """``directory``: of all leases of this machine, its only place here."""

    def __init__(self, directory: str) -> None:
        self.root = os.path.abspath(os.path.expanduser(directory))
        self.leases = os.path.join(self.root, "leases")

    def make(self) -> None:
        """Raises ``OSError``."""
        for directory in (self.root, self.leases):
            os.makedirs(directory, mode=0o700, exist_ok=True)

    @property
    def is_taken_back(self) -> bool:
        return os.path.exists(os.path.join(self.root, TAKEN_BACK))

    def names(self) -> list[str]:
        """Of the leases. A directory without a lease's record is somebody else's."""
        try:
            found = sorted(os.listdir(self.leases))
        except FileNotFoundError:
            return []
        return [name for name in found if NAME.fullmatch(name) and self.lease(name) is not None]

    def path(self, name: str) -> str:
        """Raises ``ValueError`` for what is no lease's name."""
        if not NAME.fullmatch(name):
            raise ValueError("not the name of a lease: " + repr(name))
        return os.path.join(self.leases, name)

    def lease(self, name: str) -> dict[str, Any] | None:
        """Its record. None: there is no such lease, or the directory is another user's or a link. Raises ``OSError``,
        ``ValueError``: what cannot be read may run."""
        path = self.path(name)
        try:
            found = os.lstat(path)
        except OSError:
            return None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        try:
            with open(os.path.join(path, "lease.json")) as file:
                record = json.loads(file.read(MOST_BYTES))
        except FileNotFoundError:
            return None
        if not isinstance(record, dict) or not isinstance(record.get("token"), str):
            raise ValueError("the record of " + name + " is damaged")
        return record


# -- processes


def list_processes() -> dict[int, tuple[int, str, int]]:
    """pid → parent, state, and when it was started: with the pid that names one process."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        row = read_process(int(pid))
        if row is not None:
            found[int(pid)] = row
    return found


def read_process(pid: int) -> tuple[int, str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):  # gone meanwhile
        return None


def has_token(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={token}".encode() in file.read(MOST_BYTES).split(b"\0")
    except OSError:
        return False


def find_own(token: str, spared: int = 0) -> dict[int, int]:
    """pid → start of all that live of a lease, but for the process ``spared``."""
    processes = list_processes()
    own = {pid for pid in processes if has_token(pid, token)}
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    queue = list(own)
    while queue:
        more = [pid for pid in children.get(queue.pop(), []) if pid not in own]
        own.update(more)
        queue += more
    return {pid: processes[pid][2] for pid in own - {spared} if processes[pid][1] not in ("Z", "X")}


def kill_one(pid: int, started: int, number: int) -> None:
    """That process and no other that has its pid by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if (read_process(pid) or (0, "", -1))[2] == started:
                os.kill(pid, number)
            return
        process = os.pidfd_open(pid)
        try:
            if (read_process(pid) or (0, "", -1))[2] == started:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def end_own(token: str, within_s: float, spared: int = 0) -> list[int]:
    """Kill all that live of a lease; what lives on all the same."""
    until = time.monotonic() + within_s
    while True:
        left = find_own(token, spared)
        if not left or time.monotonic() >= until:
            return sorted(left)
        for pid, started in left.items():
            kill_one(pid, started, signal.SIGKILL)
        time.sleep(0.02)


def adopt_orphans() -> None:
    """What loses its parent becomes ours, however it has left."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# -- GPUs


def look_at_gpus() -> dict[str, Any]:
    """``gpus``: rows of nvidia-smi; ``gpu_fault``: why there are none although it is installed."""
    if shutil.which("nvidia-smi") is None:
        return {"gpus": []}
    command = ["nvidia-smi", "--query-gpu=" + SMI_FIELDS, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SMI_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"gpus": [], "gpu_fault": type(error).__name__}
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        return {"gpus": [], "gpu_fault": said.strip()[-200:]}
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.strip()]
    names = SMI_FIELDS.split(",")
    return {"gpus": [dict(zip(names, row)) for row in rows if len(row) == len(names)]}  # noqa: B905 -- new in 3.10


def find_used(indices: list[int]) -> list[str]:
    """Those of the GPUs with more in their memory than an idle one has, in words."""
    wanted = {str(index) for index in indices}
    used = []
    for row in look_at_gpus()["gpus"]:
        with contextlib.suppress(ValueError):
            if row["index"] in wanted and float(row["memory.used"]) > USED_MIB:
                used.append(f"GPU {row['index']} has {row['memory.used']} of {row['memory.total']} MiB in use")
    return used


# -- requests


def look(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """What the machine has, and its leases. One whose program has ended, by a reboot perhaps, starts again, and so does
    one whose machine its owner has given back."""
    names = place.names()
    if len(names) > MOST_LEASES:
        return {"failed": f"there are {len(names)} leases, more than the {MOST_LEASES} that are read"}
    above = place.root
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    room = os.statvfs(above)
    found = {
        "leases": [show(place, name) for name in names],
        "taken_back": place.is_taken_back,
        "arch": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "ram_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1000000,
        "disk_mb": room.f_bavail * room.f_frsize // 1000000,
    }
    return {**found, **(look_at_gpus() if request.get("gpus") else {})}


def show(place: Place, name: str) -> dict[str, Any]:
    directory, lease = place.path(name), place.lease(name) or {}
    ended = (read_json(os.path.join(directory, "ended.json")) or {}).get("why")
    runs = is_kept(directory)
    if ended == "taken" and not runs and not place.is_taken_back:
        ended = None
        os.remove(os.path.join(directory, "ended.json"))
    if not runs and ended is None:
        start_keeping(directory, lease)
    told = {key: lease.get(key) for key in ("label", "slot", "gpu", "num_gpus", "ends_at")}
    return {"name": name, "state": ended if ended else "running" if runs else "starting", **told}


def is_kept(directory: str) -> bool:
    lock = hold(os.path.join(directory, "lock"), 0)
    if lock is None:
        return True
    os.close(lock)
    return False


def create(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Once for a label: asked again, it answers with the lease that is there."""
    place.make()
    lock = hold(os.path.join(place.root, "lock"), LOCK_S)
    if lock is None:
        return {"failed": "another create is under way"}
    try:
        return create_alone(place, request)
    finally:
        os.close(lock)


def create_alone(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    lease, directory = request["lease"], place.path(request["name"])
    known = place.lease(request["name"])
    if known is not None and known.get("label") == lease["label"]:
        return {"done": request["name"]}
    why = find_obstacle(place, request)
    if why:
        return {"refused": why}
    scratch = os.path.join(place.leases, ".new")
    shutil.rmtree(scratch, ignore_errors=True)
    for below in ("", "root", "root/home", "root/tmp", "root/bin"):
        os.mkdir(os.path.join(scratch, below), 0o700)
    lease["token"] = os.urandom(16).hex()
    for name, text in (("program.py", SOURCE), ("start.sh", request["start"]), ("lease.json", json.dumps(lease))):
        write_private(os.path.join(scratch, name), text)
    narrow_smi(os.path.join(scratch, "root/bin"), lease["devices"])
    os.rename(scratch, directory)
    start_keeping(directory, lease)
    until = time.monotonic() + UP_S
    while not is_kept(directory) and time.monotonic() < until:
        time.sleep(0.02)
    return {"done": request["name"]}


def find_obstacle(place: Place, request: dict[str, Any]) -> str:
    """Why nothing can start in that slot now; empty: nothing is in the way."""
    lease = request["lease"]
    if os.path.lexists(place.path(request["name"])):
        return "there is something else under the lease's name"
    names = place.names()
    if len(names) >= MOST_LEASES or lease["slot"] in [(place.lease(name) or {}).get("slot") for name in names]:
        return "the slot is taken"
    if place.is_taken_back:
        return "its owner has taken it back"
    room = os.statvfs(place.root)
    if room.f_bavail * room.f_frsize < request["disk_mb"] * 1000000:
        return "its disk has too little room"
    return "; ".join(find_used(lease["devices"]))


def narrow_smi(directory: str, devices: list[int]) -> None:
    """An ``nvidia-smi`` that shows the lease's own GPUs: others' memory and load are none of its."""
    real = shutil.which("nvidia-smi")
    if real is None or not devices:
        return
    path = os.path.join(directory, "nvidia-smi")
    write_private(path, f'#!/bin/sh\nexec {quote(real)} -i {",".join(map(str, devices))} "$@"\n')
    os.chmod(path, 0o700)


def start_keeping(directory: str, lease: dict[str, Any]) -> None:
    """In a session of its own: it outlives the connection."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    with open(os.path.join(directory, "keeper.log"), "ab") as errors:
        subprocess.Popen(
            [sys.executable, "-I", os.path.join(directory, "program.py"), directory],
            cwd=directory,
            env={**env, MARK: lease["token"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


def stop(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Its processes end, its directory stays. The agent has some seconds to save."""
    lease = place.lease(request["name"])
    if lease is None:
        return {"absent": True}
    write_private(os.path.join(place.path(request["name"]), "ended.json"), json.dumps({"why": "stopped"}))
    until = time.monotonic() + STOP_S
    keeper = read_json(os.path.join(place.path(request["name"]), "lock"))
    own = find_own(lease["token"])
    if isinstance(keeper, int) and keeper in own:
        kill_one(keeper, own[keeper], signal.SIGTERM)
    while find_own(lease["token"]) and time.monotonic() < until:
        time.sleep(0.05)
    left = end_own(lease["token"], END_S)
    return {"failed": f"processes {left} do not end"} if left else {"done": request["name"]}


def start(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    lease, directory = place.lease(request["name"]), place.path(request["name"])
    if lease is None:
        return {"absent": True}
    if place.is_taken_back:
        return {"refused": "its owner has taken it back"}
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(directory, "ended.json"))
    if not is_kept(directory):
        start_keeping(directory, lease)
    return {"done": request["name"]}


def destroy(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    lease, directory = place.lease(request["name"]), place.path(request["name"])
    if lease is None:
        return {"absent": True}
    write_private(os.path.join(directory, "ended.json"), json.dumps({"why": "leaving"}))
    left = end_own(lease["token"], END_S)
    if left:
        return {"failed": f"processes {left} do not end"}
    remove(directory)
    return {"done": request["name"]}


def remove(directory: str) -> None:
    """The record goes last: until then the lease is listed. Raises ``OSError``."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name == "lease.json":
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    gone = os.path.join(os.path.dirname(directory), ".gone-" + os.path.basename(directory))
    os.rename(directory, gone)  # whatever begins there now finds nothing
    shutil.rmtree(gone, ignore_errors=True)


def words(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """The end of what the start text and the agent have said."""
    try:
        with open(os.path.join(place.path(request["name"]), "words"), errors="replace") as file:
            return {"words": file.read(MOST_WORDS)}
    except OSError:
        return {"words": ""}


# -- the program beside the agent


class Words:
    """The last of what was said, in a file that does not grow."""

    def __init__(self, path: str) -> None:
        self.path, self.kept, self.written_at = path, b"", 0.0

    def follow(self, pipe: IO[bytes]) -> None:
        for line in iter(lambda: pipe.readline(MOST_WORDS), b""):
            self.kept = (self.kept + line)[-MOST_WORDS:]
            if time.monotonic() - self.written_at >= 1 or line.startswith(b"autopilot:"):
                self.written_at = time.monotonic()
                with contextlib.suppress(OSError):
                    write_private(self.path, self.kept.decode("utf-8", "replace"))


class Keeper:
    def __init__(self, directory: str) -> None:
        self.directory, self.root = directory, os.path.join(directory, "root")
        self.place = Place(os.path.dirname(os.path.dirname(directory)))
        lease = read_json(os.path.join(directory, "lease.json"))
        self.lease: dict[str, Any] = lease
        self.token: str = lease["token"]
        self.words = Words(os.path.join(directory, "words"))
        self.begun = time.monotonic()
        self.is_asked_to_end = False
        self.noticed_at: float | None = None
        for name in ("wish", "notice"):  # of the boot before
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(self.root, name))

    def environment(self) -> dict[str, str]:
        root, given = self.root, {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        devices = ",".join(map(str, self.lease["devices"]))
        own = {
            "PATH": os.path.join(root, "bin") + ":" + given.get("PATH", os.defpath),
            "HOME": os.path.join(root, "home"),
            "TMPDIR": os.path.join(root, "tmp"),
            "CUDA_VISIBLE_DEVICES": devices,
            "AUTOPILOT_ROOT": root,
            "AUTOPILOT_WISH": "/wish",
            "AUTOPILOT_NOTICE": "/notice",
            MARK: self.token,
        }
        return {**given, **self.lease["env"], **own}

    def run(self) -> None:
        """Until the lease is over, or this process is asked to end."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "is_asked_to_end", True))
        adopt_orphans()
        pause_s = AGAIN_S
        while True:
            since = time.monotonic()
            self.keep_one()
            if self.conclude():
                return
            pause_s = AGAIN_S if time.monotonic() - since >= STEADY_S else min(2 * pause_s, AGAIN_MOST_S)
            until = time.monotonic() + pause_s
            while time.monotonic() < until and not self.is_asked_to_end and not self.is_over():
                time.sleep(LOOK_S)
            if (self.is_asked_to_end or self.is_over()) and self.conclude():
                return

    def keep_one(self) -> None:
        """One start of the agent, until it ends, wishes to go, or has had the time to save."""
        child = subprocess.Popen(
            ["sh", os.path.join(self.directory, "start.sh")],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert child.stdout is not None
        threading.Thread(target=self.words.follow, args=(child.stdout,), daemon=True).start()
        started, is_told = (read_process(child.pid) or (0, "", -1))[2], False
        while not reap(child.pid) and not self.wishes_to_go() and not self.is_time_up():
            if self.is_over():
                self.note_end()
            if self.is_asked_to_end and not is_told:
                is_told, self.noticed_at = True, self.noticed_at or time.monotonic()
                kill_one(child.pid, started, signal.SIGTERM)
            time.sleep(LOOK_S)

    def conclude(self) -> bool:
        """Whether the lease, or this boot of it, is over: then nothing of it is left running."""
        why = "leaving" if self.wishes_to_go() else self.is_over()
        if not why and not self.is_asked_to_end:
            return False
        if why:
            write_private(os.path.join(self.directory, "ended.json"), json.dumps({"why": why}))
        left = end_own(self.token, END_S, os.getpid())
        if why == "leaving" and not left:
            remove(self.directory)
        return True

    def is_time_up(self) -> bool:
        return self.noticed_at is not None and time.monotonic() - self.noticed_at >= GRACE_S

    def wishes_to_go(self) -> bool:
        """Its agent does; or there is none, long after the start."""
        try:
            with open(os.path.join(self.root, "wish")) as file:
                return file.read(100) == "destroy"
        except OSError:
            is_late = time.monotonic() - self.begun >= self.lease["agent_within_s"]
            return is_late and not os.path.exists(os.path.join(self.root, AGENT))

    def is_over(self) -> str:
        """Why this lease is to end; empty: it goes on."""
        if self.lease["may_be_taken"] and self.place.is_taken_back:
            return "taken"
        ends_at = self.lease.get("ends_at")
        return "hours" if ends_at is not None and time.time() >= ends_at - GRACE_S else ""

    def note_end(self) -> None:
        """Told to the agent, which saves and ends."""
        if self.noticed_at is not None:
            return
        self.noticed_at = time.monotonic()
        ends_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + GRACE_S))
        grace_s = (GRACE_S - 5) * self.lease["speed"]
        told = {"kind": "preempt", "ends_at": ends_at, "soft": False, "grace_s": grace_s}
        write_private(os.path.join(self.root, "notice"), json.dumps(told))


def reap(child: int) -> bool:
    """Take note of the ends of adopted processes. Whether the child has ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid in (0, child):
            return pid == child


def keep(directory: str) -> None:
    lock = hold(os.path.join(directory, "lock"), 1)  # who looks whether it runs takes it for a moment
    if lock is not None:
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        Keeper(directory).run()


def answer(request: dict[str, Any]) -> None:
    asked = {"look": look, "create": create, "start": start, "stop": stop, "destroy": destroy, "words": words}
    try:
        told = asked[request["ask"]](Place(request["directory"]), request)
    except (OSError, ValueError) as error:
        told = {"failed": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write("\n" + ANSWER + json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    keep(sys.argv[1])
