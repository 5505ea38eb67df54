"""The first process of an instance: starts the container's command and makes sure that nothing of it survives.

A script of its own, standard library only. The first line of standard input is JSON: ``command`` (list), ``env``
(object), ``cwd``, ``mode`` and, for a machine with a root of its own, ``writable`` (list of directories) and
``covered`` (object: a program or socket of the computer, and what stands in its place). Output of the command goes to
standard error; ``exited CODE`` to standard output.

A root of its own is a namespace of mounts in which all but the writable directories can only be read. Where the system
permits none, the command sees the computer as it is.

Anything more on standard input asks the container politely: SIGTERM to the command, and to nothing beneath it.

It becomes the reaper of every orphan beneath it (``PR_SET_CHILD_SUBREAPER``), so that a daemonised descendant stays
in its tree. When standard input closes (the sandbox asked for it, or died) it sends SIGKILL to all descendants until
none is left, then exits. When the command ends in ``container`` mode the rest of the tree dies with it and its exit
is reported; in ``service`` mode (an image with a login daemon) the rest lives on and so does the container.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import struct
import sys
import time

_PR_SET_CHILD_SUBREAPER, _PR_CAPBSET_DROP = 36, 24
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1
_RIGHTS = (16, 17, 21, 22, 25, 27)
"""CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_TIME and CAP_MKNOD."""
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    _become_subreaper()
    # Nothing but a closed standard input ends this process: a dead supervisor would leave its tree behind.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    child_ended = _wakeup_pipe()
    order = json.loads(_first_line())
    _settle(order["cwd"], order.get("writable"), order.get("covered"))
    child = _spawn(order["command"], order["env"])
    if child is None:
        _report(127)
    while True:
        readable, _, _ = select.select([0, child_ended], [], [])
        if child_ended in readable:
            os.read(child_ended, 4096)
        code = _reap(child)
        if code is not None:
            child = None
            if order["mode"] == "container":
                _kill_tree()
                _report(code)
        if 0 in readable:
            if not os.read(0, 4096):
                _kill_tree()
                return 0
            if child is not None:
                os.kill(child, signal.SIGTERM)


def _become_subreaper() -> None:
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _settle(cwd: str, writable: list[str] | None, covered: dict[str, str] | None) -> None:
    if writable is not None:
        with contextlib.suppress(OSError):
            take_own_root(writable, covered or {})
    os.chdir(cwd)


def take_own_root(writable: list[str], covered: dict[str, str]) -> None:
    """For this process and all that it starts. Raises ``OSError``; this process is then as it was, or sees no less.

    Root keeps the rights over its own files and processes, and none to change mounts, stop the computer or set its
    clock. Anybody else has no such right outside of the user namespace, and by starting a program none in it.
    """
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0))
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    for place in writable:
        _bind(place, place, _MS_REC)
    for place, instead in covered.items():
        _bind(instead, place)
    _set_mounts("/", is_writable=False)
    for place in writable:
        _set_mounts(place, is_writable=True)
    for right in _RIGHTS if uid == 0 else ():
        _call("prctl", _PR_CAPBSET_DROP, right, 0, 0, 0)


def _bind(source: str, place: str, flags: int = 0) -> None:
    _call("mount", os.fsencode(source), os.fsencode(place), None, _MS_BIND | flags, None)


def _set_mounts(place: str, *, is_writable: bool) -> None:
    """Of that directory and all that is mounted beneath it."""
    wish = struct.pack("QQQQ", *((0, _RDONLY) if is_writable else (_RDONLY, 0)), 0, 0)
    _call("syscall", _SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(place), _AT_RECURSIVE, wish, len(wish))


def _call(name: str, *arguments: int | bytes | None) -> None:
    long = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if getattr(_libc, name)(*long) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _wakeup_pipe() -> int:
    """A descriptor that becomes readable when a child ends."""
    receive, send = os.pipe()
    os.set_blocking(send, False)
    signal.set_wakeup_fd(send, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return receive


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line


def _spawn(command: list[str], env: dict[str, str]) -> int | None:
    try:
        return os.posix_spawnp(
            command[0],
            command,
            env,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
            setsid=True,
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
        return None


def _descendants(root: int) -> list[int]:
    """Processes beneath ``root`` that are not dead yet."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(parent), []).append((int(name), state != b"Z"))
    found: list[int] = []
    queue = [root]
    while queue:
        for pid, alive in children.get(queue.pop(), ()):
            queue.append(pid)
            if alive:
                found.append(pid)
    return found


def _kill_tree() -> None:
    while pids := _descendants(os.getpid()):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap(None)
        time.sleep(0.002)
    _reap(None)


def _reap(watched: int | None) -> int | None:
    """Collect dead children; the exit code of ``watched`` if it was among them, negative for a signal."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == watched:
            code = os.waitstatus_to_exitcode(status)


def _report(code: int) -> None:
    try:
        os.write(1, f"exited {code}\n".encode())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
