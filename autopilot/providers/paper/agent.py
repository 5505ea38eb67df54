"""The simulated agent of a paper instance: it speaks the real mailbox over HTTP and only pretends to work.

Its work advances with the clock while its orders say ``run``, for as long as the job's estimate; its checkpoints hold a
line of text, and the step in their manifest is the number of seconds of work done. As on a real machine a boot begins
at the newest checkpoint, orders with a higher ``seq`` renew the permit, and a machine whose permit runs out is gone.
It acts when the market is looked at, once a tick: nothing runs in between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import structlog

from autopilot.domain.agent_state import AgentState
from autopilot.mailbox.reading import parse_manifest
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest, Part
from autopilot.mailbox.wire import EXIT_HERE

UNKNOWN_ESTIMATE_S = 3600
"""Work of a job that gives no estimate."""
PERMIT_AT_BOOT = timedelta(minutes=15)
HTTP_TIMEOUT_REAL_S = 20.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """All that an agent knows. ``done_s``: seconds of work done; ``saved_s``: of those in its newest checkpoint."""

    orders_url: str
    boot: int = 0
    beats: int = 0
    looked_at: datetime | None = None
    permit_until: datetime | None = None
    seq: int = 0
    run_epoch: int = 0
    is_at_work: bool = False
    is_dirty: bool = False
    """Work was stopped and is not in a checkpoint yet."""
    done_s: float = 0
    saved_s: float = 0
    saved_as: tuple[int, int] = (0, -1)
    """(run epoch, number) of the newest checkpoint on its disk."""
    last_ckpt_n: int | None = None
    next_ckpt_n: int = 0
    saved_at: datetime | None = None
    exit_epoch: int = 0
    """Epoch of the run that ended, 0 before that."""
    bytes_sent: int = 0

    def start(self, boot: int, at: datetime, *, keeps_disk: bool) -> AgentMemory:
        """What was under way is lost, and the checkpoints as well where the disk does not outlive a stop."""
        kept = self if keeps_disk else replace(self, saved_s=0, saved_as=(0, -1))
        return replace(
            kept, boot=boot, beats=0, looked_at=at, permit_until=at + PERMIT_AT_BOOT, is_at_work=False, is_dirty=False
        )

    def work(self, now: datetime) -> AgentMemory:
        elapsed_s = (now - (self.looked_at or now)).total_seconds() if self.is_at_work else 0
        return replace(self, looked_at=now, done_s=self.done_s + max(elapsed_s, 0))

    def stop(self) -> AgentMemory:
        return replace(self, is_at_work=False, is_dirty=self.is_dirty or self.is_at_work)


class PaperAgents:
    """The agents of all paper instances share one HTTP session, opened at the first turn."""

    def __init__(self) -> None:
        self._http: aiohttp.ClientSession | None = None

    async def turn(self, memory: AgentMemory, now: datetime) -> AgentMemory:
        """One round of what an agent does every few seconds. A mailbox that fails is tried again at the next."""
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_TIMEOUT_REAL_S))
        turn = _Turn(self._http, memory.work(now), now)
        try:
            await turn.take()
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as problem:
            log.warning("paper.mailbox_failed", problem=f"{type(problem).__name__}: {problem}")
        return turn.memory

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None


class _Turn:
    """``memory`` is kept up to date step by step, so that what was done before a failure is not done again."""

    def __init__(self, http: aiohttp.ClientSession, memory: AgentMemory, now: datetime) -> None:
        self._http = http
        self._now = now
        self.memory = memory

    async def take(self) -> None:
        orders = json.loads(await self._get(self.memory.orders_url))
        if orders["seq"] < self.memory.seq:
            return
        if orders["seq"] > self.memory.seq:
            until = self._now + timedelta(seconds=orders["permit_ttl_s"])
            self._remember(seq=orders["seq"], permit_until=until)
        self._remember(orders_url=orders["next_orders_url"])
        await self._obey(orders)
        await self._beat(orders)

    async def _obey(self, orders: Mapping[str, Any]) -> None:
        role, epoch, estimate_s = orders["role"], orders["run_epoch"], _estimate_s(orders)
        if self.memory.is_at_work and self.memory.done_s >= estimate_s:
            self.memory = replace(self.memory.stop(), done_s=estimate_s, exit_epoch=self.memory.run_epoch)
        if role in ("wait", "leave"):
            self._remember(is_at_work=False, is_dirty=False)
        elif role == "run" and self.memory.exit_epoch < epoch:
            if not self.memory.is_at_work or self.memory.run_epoch != epoch:
                await self._begin(orders)
            elif (self._now - (self.memory.saved_at or self._now)).total_seconds() >= orders["checkpoint_interval_s"]:
                await self._checkpoint(orders)
        else:
            self.memory = self.memory.stop()
            if self.memory.is_dirty:
                await self._checkpoint(orders)

    async def _begin(self, orders: Mapping[str, Any]) -> None:
        """From the newest checkpoint, of this disk or of the orders."""
        done_s, newest = self.memory.saved_s, self.memory.saved_as
        if orders["restore"]:
            manifest = parse_manifest(await self._get(orders["restore"]["manifest_url"]))
            if manifest is None:
                raise ValueError("the checkpoint to restore has no manifest that can be read")
            if (manifest.run_epoch, manifest.number) > newest:
                done_s, newest = float(manifest.step or 0), (manifest.run_epoch, manifest.number)
        self._remember(
            run_epoch=orders["run_epoch"],
            is_at_work=True,
            is_dirty=False,
            done_s=done_s,
            saved_s=done_s,
            saved_as=newest,
            saved_at=self._now,
        )

    async def _checkpoint(self, orders: Mapping[str, Any]) -> None:
        """Part, then manifest; without a checkpoint path there is nothing to save."""
        memory = self.memory
        if not orders["work"]["checkpoint_path"]:
            self._remember(is_dirty=False, saved_at=self._now)
            return
        slot = next((slot for slot in orders["put_urls"]["ckpt"] if slot["n"] == memory.next_ckpt_n), None)
        if slot is None:
            return
        index = _index(memory.done_s)
        parts = (Part("part-0", len(index), hashlib.sha256(index).hexdigest()),)
        manifest = Manifest(memory.run_epoch, memory.next_ckpt_n, parts, step=int(memory.done_s))
        await self._put(slot["part_urls"][0], index)
        await self._put(slot["manifest_url"], manifest.to_json())
        self._remember(
            is_dirty=False,
            saved_at=self._now,
            saved_s=memory.done_s,
            saved_as=(memory.run_epoch, memory.next_ckpt_n),
            last_ckpt_n=memory.next_ckpt_n,
            next_ckpt_n=memory.next_ckpt_n + 1,
        )

    async def _beat(self, orders: Mapping[str, Any]) -> None:
        self._remember(beats=self.memory.beats + 1)
        memory = self.memory
        has_worked = memory.run_epoch > 0
        beat = Heartbeat(
            boot=memory.boot,
            seq=memory.beats,
            run_epoch=orders["run_epoch"],
            orders_seq_seen=memory.seq,
            state=self._state(orders["role"]),
            saved=orders["role"] == "save_and_stop" and not memory.is_at_work and not memory.is_dirty,
            step=int(memory.done_s) if has_worked else None,
            progress=min(memory.done_s / _estimate_s(orders), 1.0) if has_worked else None,
            last_checkpoint=memory.last_ckpt_n,
            next_checkpoint=memory.next_ckpt_n,
            bytes_sent=memory.bytes_sent,
            can=(EXIT_HERE,),
            exit=self._exit_record(),
        )
        await self._put(orders["put_urls"]["heartbeat"], beat.to_json())

    def _exit_record(self) -> ExitRecord | None:
        """Record of the run that has ended, once its last checkpoint is there."""
        memory = self.memory
        if not memory.exit_epoch or memory.is_dirty or memory.is_at_work:
            return None
        return ExitRecord(memory.exit_epoch, 0, reason="exited", finished_at=f"{self._now:%Y-%m-%dT%H:%M:%SZ}")

    def _state(self, role: str) -> AgentState:
        memory = self.memory
        if role == "leave":
            return AgentState.LEFT
        if memory.is_at_work:
            return AgentState.RUNNING
        if memory.exit_epoch and not memory.is_dirty:
            return AgentState.FINISHED
        return AgentState.SAVING if role == "save_and_stop" or memory.is_dirty else AgentState.WAITING

    async def _get(self, url: str) -> bytes:
        async with self._http.get(url) as response:
            response.raise_for_status()
            return await response.read()

    async def _put(self, url: str, body: bytes) -> None:
        async with self._http.put(url, data=body) as response:
            response.raise_for_status()
        self._remember(bytes_sent=self.memory.bytes_sent + len(body))

    def _remember(self, **changes: Any) -> None:
        self.memory = replace(self.memory, **changes)


def _index(done_s: float) -> bytes:
    """Index of a checkpoint of one empty file: it is verified like that of a real machine."""
    entries = [["checkpoint", "file", 0o644, 0, 0, ""]]
    body = {"v": 1, "root": "checkpoint", "entries": entries, "slices": [], "paper": f"{done_s:.0f} s of work"}
    return json.dumps(body).encode()


def _estimate_s(orders: Mapping[str, Any]) -> int:
    return max(int(orders["work"]["estimate_s"] or UNKNOWN_ESTIMATE_S), 1)
