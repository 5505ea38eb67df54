"""What the next boot must know, on the disk before it is acted upon."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from typing import Any

from .disk import read_json, write_json

DEFAULT_TTL_S = 900.0


class Memory:
    """Named values; ``values`` may be read and changed by the main thread and by the one task that runs."""

    def __init__(self, home: str, container: str) -> None:
        """``container`` is a directory that goes with the container's own disk, which ``home`` may outlive."""
        self.path = os.path.join(home, "memory.json")
        self.lock = threading.Lock()
        self.kept: dict[str, Any] = {}
        self.values: dict[str, Any] = {
            **{"boot": 0, "token": uuid.uuid4().hex, "next_orders_url": "", "orders_seq": 0, "run_epoch": 0},
            **{"permit_ttl_s": DEFAULT_TTL_S, "setup_done": False, "code_done": False, "dirty": False, "exit": None},
            "permit_ends_at": None,
            "host_boot": "",  # whose clock tells the end of the permit
            "job": "",
            "doubted": None,  # what a run that failed soon began from, and its epoch
            "surveyed": False,  # whether it is known what was in the work directory before anything ran there
            "zstd": None,  # whether the image has it: what a setup installs is not there when a checkpoint is fetched
            **{"next_ckpt_n": 0, "attempted_ckpt_n": -1, "last_ckpt_n": None, "execs": []},
        }
        self.values.update(read_json(self.path) or {})
        self.values["boot"] += 1
        if is_new_container(container, self.values["token"]):  # what the setup installed went with the old one's disk
            self.values.update(setup_done=False, code_done=False, zstd=None, surveyed=False)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def note_host(self, boot: str) -> None:
        """``boot``: of the host, empty if unknown. If it is another one, nothing tells how much of a long permit has
        passed: a short one is left, to find newer orders."""
        if not boot or boot != self.values["host_boot"]:
            ttl_s = min(float(self.values["permit_ttl_s"]), DEFAULT_TTL_S)
            self.values.update(permit_ends_at=None, permit_ttl_s=ttl_s, host_boot=boot)

    def save(self, **changes: Any) -> None:
        """Raises ``OSError``; then the values are kept here and written at the next chance."""
        with self.lock:
            self.values.update(changes)
            if self.values != self.kept:
                write_json(self.path, self.values)
                self.kept = dict(self.values)


def is_new_container(directory: str, token: str) -> bool:
    mark = os.path.join(directory, "container")
    with contextlib.suppress(FileNotFoundError), open(mark) as file:
        if file.read() == token:
            return False
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with open(mark, "w") as file:
        file.write(token)
    return True
