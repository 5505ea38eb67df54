"""What the agent on a machine does whose host lies: absurd claims, junk, parts without end, writing from the grave."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any, Protocol

from autopilot.agent.shipped.machine import Machine
from autopilot.domain.lease import Lease
from autopilot.mailbox.logs import LOG_CHUNK_BYTES
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box
from tests.simulation.product.blobs import ObjectRefused, Stored, a_part, stored

PETABYTES = 2**52
TERABYTE = 10**12
FILLING_BYTES = 4_000_000_000
HUGE = stored(b"x" * 1_500_000)
LOG_JUNK = stored(b"\x00" * (LOG_CHUNK_BYTES + 1))
JUNK = (HUGE, stored(b""), stored(b"[" * 50_000), stored(b"\x00\xff" * 100), stored(b'{"v": 1, "boot": 1e400}'))
HAUNTS_EVERY_S = 300.0
HAUNTS = 12


class Agent(Protocol):
    ground: Ground
    box: Box
    machine: Machine
    rng: random.Random
    beats: int

    def lease(self) -> Lease | None: ...
    def put(self, url: str, what: Stored) -> None: ...


class Liar:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._rows = agent.box.hostile
        self._sent = 0

    def heartbeat(self, body: dict[str, Any]) -> Stored:
        """What it puts in the place of that heartbeat."""
        if "J4" in self._rows:
            body["bytes_sent"] = PETABYTES + self._agent.beats * TERABYTE
        if "J6" in self._rows:
            body |= {"next_part": self._sent % 999_000, "parts_wanted": 64}
        if "J5" in self._rows:
            kind = self._agent.rng.randrange(8)
            if kind < len(JUNK):
                return JUNK[kind]
            of_another_run = {"run_epoch": body["run_epoch"] + 1000, "exit_code": 0}
            body |= {"next_log_n": PETABYTES, "orders_seq_seen": PETABYTES, "error": "x" * 100_000}
            body |= {"exit": body["exit"] or of_another_run, "whole_parts": 2000}
        return stored(json.dumps(body).encode())

    def poll(self) -> None:
        orders = self._agent.machine.orders
        if orders is None:
            return
        with contextlib.suppress(ObjectRefused):
            if "J5" in self._rows:
                self._put_junk(orders)
        with contextlib.suppress(ObjectRefused):
            if "J6" in self._rows:
                self._fill(orders)

    def _put_junk(self, orders: dict[str, Any]) -> None:
        urls = orders["put_urls"]
        of_another_run = {"v": 1, "run_epoch": orders["run_epoch"] + 1000, "exit_code": 0}
        self._agent.put(urls["exit"], self._agent.rng.choice((*JUNK, stored(json.dumps(of_another_run).encode()))))
        for log in urls["log"]:
            self._agent.put(log["url"], LOG_JUNK)

    def _fill(self, orders: dict[str, Any]) -> None:
        for slot in orders["put_urls"]["ckpt"]:
            for url in slot["part_urls"]:
                self._sent += 1
                self._agent.put(url, a_part(f"filling {self._sent}", FILLING_BYTES))

    def haunt(self, times: int = HAUNTS) -> None:
        """Its machine is gone; its former holder has kept the URLs."""
        agent = self._agent
        if "J7" not in self._rows or not times or agent.ground.faults.is_quiet:
            return
        agent.ground.loop.after(HAUNTS_EVERY_S, self.haunt, times - 1)
        orders, lease = agent.machine.orders, agent.lease()
        if orders is None or lease is None or lease.is_wanted:
            return  # while its lease is wanted, its lies cannot be told from the truth
        beat = {"v": 1, "boot": 99, "seq": PETABYTES, "run_epoch": orders["run_epoch"], "orders_seq_seen": PETABYTES}
        exited = {"v": 1, "run_epoch": orders["run_epoch"], "exit_code": 0}
        beat |= {"state": "running", "saved": True, "step": 10**9, "bytes_sent": PETABYTES, "exit": exited}
        for name, body in (("heartbeat", beat), ("exit", exited)):
            with contextlib.suppress(ObjectRefused):
                agent.put(orders["put_urls"][name], stored(json.dumps(body).encode()))
        with contextlib.suppress(ObjectRefused):
            self._fill(orders)
