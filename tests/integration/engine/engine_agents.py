"""The agents' side of the mailbox, played for every instance that runs at the market: honest, and in market time."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from autopilot.agent.shipped.orders import parse_taken_over
from autopilot.blobs.local import URL_PREFIX
from autopilot.domain.agent_state import AgentState
from autopilot.domain.arrival import Arrival
from autopilot.domain.readings import Readings
from autopilot.mailbox.exec_answers import ExecAnswer
from autopilot.mailbox.keys import exec_key, exit_key, heartbeat_key, manifest_key, orders_key, part_key
from autopilot.mailbox.reading import parse_manifest
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest, MemoryUse, SshLogin
from autopilot.mailbox.wire import EXEC, EXIT_HERE, NEXT_TASK, RUN_AGAIN
from autopilot.ports.blobs import BlobStore
from autopilot_lab.sandbox.market.instances import Container, Contract
from autopilot_lab.sandbox.market.market import SandboxMarket
from tests.checkpoint_data import a_part, an_index

ORDERS = re.compile(r"jobs/(?P<job_id>\w+)/(?P<lease_id>\w+)/orders\.json")
"""How a machine's start command names its mailbox."""


@dataclass
class Agent:
    """One machine of one lease. A step of the work takes one market second; its disk keeps ``saved_step``."""

    store: BlobStore
    job_id: str
    """Of the task that it has now."""
    lease_id: str
    home_id: str
    """Of the one that it was rented for."""
    boot: int = 0
    seq: int = 0
    run_epoch: int = 0
    state: AgentState = AgentState.WAITING
    saved: bool = False
    machine_id: str = ""
    worked: float = 0.0
    """Of the next step."""
    step: int = 0
    saved_step: int = 0
    next_checkpoint: int = 0
    first_checkpoint: int = 0
    """Of its present task: numbers go on."""
    exit: ExitRecord | None = None
    arrival: Arrival | None = None
    """What its check on arrival has found; None: it makes none."""
    claims_sent: int = 0
    """Bytes, as it says."""
    acted_at: datetime | None = None
    saved_at: datetime | None = None

    @property
    def is_at_work(self) -> bool:
        return self.state == "running"

    async def act(self, boot: int, agents: Agents, now: datetime) -> None:
        """Read the orders, do what they say since the last time, and report."""
        data = await self.store.get(orders_key(self.home_id, self.lease_id))
        if data is None or parse_taken_over(data) is not None:
            return
        orders = json.loads(data)
        if boot != self.boot:  # what ran was killed with the machine; its disk is still there
            self.boot, self.seq, self.state, self.saved, self.step = boot, 0, AgentState.WAITING, False, self.saved_step
        if orders["job"] != self.job_id and agents.can_take_next:
            assert self.state == "finished", "a task is handed over after its end"
            self.job_id, self.state, self.saved, self.exit = orders["job"], AgentState.WAITING, False, None
            self.step = self.saved_step = 0
            self.first_checkpoint = self.next_checkpoint
        await self._obey(orders, agents, now)
        if orders["exec"] and agents.exec_answer is not None:
            call_id = orders["exec"]["id"]
            agents.execs.append(orders["exec"]["command"])
            answer = agents.exec_answer
            data = answer if isinstance(answer, bytes) else answer.to_json(call_id)
            await self.store.put(exec_key(self.job_id, self.lease_id, call_id), data)
        self.acted_at = now
        self.seq += 1
        await self._report(orders, agents)

    async def _obey(self, orders: dict[str, Any], agents: Agents, now: datetime) -> None:
        role, total_steps = orders["role"], agents.steps_of.get(self.job_id, agents.total_steps)
        self._restart_if_ordered(orders)
        if self.is_at_work and self.acted_at is not None:
            self.worked += (now - self.acted_at).total_seconds() * self._pace(agents)
            steps, self.worked = divmod(self.worked, 1)
            self.step = min(self.step + int(steps), total_steps)
        if role == "run" and self.state == "waiting":
            self.step = max(self.saved_step, await self._restored_step(orders))
            self.run_epoch, self.state, self.saved_at = orders["run_epoch"], AgentState.RUNNING, now
        elif (
            role == "run" and self.state == "finished" and agents.can_run_again and self.run_epoch < orders["run_epoch"]
        ):
            # Its files are those of the end: the command begins with the last half of the work.
            self.step = total_steps // 2
            self.run_epoch, self.state, self.saved_at = orders["run_epoch"], AgentState.RUNNING, now
        elif role == "save_and_stop" and not self.saved:
            if self.is_at_work:
                await self._checkpoint(now)
            self.state, self.saved = AgentState.WAITING, True
        elif role == "leave":
            self.state = AgentState.LEFT
        if not self.is_at_work:
            return
        if self.step >= total_steps:
            await self._checkpoint(now)
            await self._end(agents)
        elif (now - (self.saved_at or now)).total_seconds() >= orders["checkpoint_interval_s"]:
            await self._checkpoint(now)

    def _pace(self, agents: Agents) -> float:
        return agents.pace_of.get(self.machine_id, agents.pace_of.get(self.lease_id, 1.0))

    async def _end(self, agents: Agents) -> None:
        record = ExitRecord(self.run_epoch, agents.take_exit_code(self.job_id, self.run_epoch, self.lease_id))
        if agents.memory:
            record = ExitRecord(self.run_epoch, 137, 9, "exited", memory=agents.memory.pop(0))
        if agents.can_exit_here:
            self.exit = record
        else:
            await self.store.put(exit_key(self.job_id, self.lease_id), record.to_json())
        self.state = AgentState.FINISHED

    def _restart_if_ordered(self, orders: dict[str, Any]) -> None:
        """Promoted again while it works: it resumes from the newest checkpoint that its orders name."""
        if self.is_at_work and orders["role"] == "run" and self.run_epoch < orders["run_epoch"]:
            self.state, self.saved_step = AgentState.WAITING, 0

    async def _restored_step(self, orders: dict[str, Any]) -> int:
        if orders["restore"] is None:
            return 0
        key = urlsplit(orders["restore"]["manifest_url"]).path.removeprefix(URL_PREFIX)
        manifest = parse_manifest(await self.store.get(key) or b"")
        assert manifest is not None, f"the orders name a checkpoint that is not there: {key}"
        return manifest.step or 0

    async def _checkpoint(self, now: datetime) -> None:
        data = f"model after {self.step} steps".encode()
        number = self.next_checkpoint
        contents = (an_index(str(self.step), len(data)), data)
        parts = tuple(a_part(i, content) for i, content in enumerate(contents))
        manifest = Manifest(self.run_epoch, number, parts, self.step)
        for i, content in enumerate(contents):
            await self.store.put(part_key(self.job_id, self.lease_id, number, i), content)
        await self.store.put(manifest_key(self.job_id, self.lease_id, number), manifest.to_json())
        self.next_checkpoint += 1
        self.saved_step, self.saved_at = self.step, now

    async def _report(self, orders: dict[str, Any], agents: Agents) -> None:
        beat = Heartbeat(
            boot=self.boot,
            seq=self.seq,
            run_epoch=orders["run_epoch"],
            orders_seq_seen=orders["seq"],
            state=self.state,
            saved=self.saved,
            step=self.step,
            progress=self.step / agents.steps_of.get(self.job_id, agents.total_steps) if agents.tell_progress else None,
            last_checkpoint=self.next_checkpoint - 1 if self.next_checkpoint > self.first_checkpoint else None,
            next_checkpoint=self.next_checkpoint,
            can=(
                *[RUN_AGAIN] * agents.can_run_again,
                *[NEXT_TASK] * agents.can_take_next,
                *[EXEC] * agents.can_exec,
                *[EXIT_HERE] * agents.can_exit_here,
            ),
            exit=self.exit,
            bytes_sent=self.claims_sent,
            ssh=agents.ssh,
            readings=None if self.arrival is None else Readings(arrival=self.arrival),
        )
        await self.store.put(heartbeat_key(self.job_id, self.lease_id), beat.to_json())


class Agents:
    """All of them. ``total_steps`` of work end with ``exit_code``; ``deaf`` leases never hear their orders.

    Those of runs from ``ends_well_from`` on end well. Agents of older versions cannot run again on one machine; those
    of the version before put the exit record into an object of its own.
    What they answer to a command beside the job is ``exec_answer``, or nothing; ``execs`` are those that they ran.
    On ``failing`` leases every run fails. ``steps_of`` a job come before ``total_steps``; as many attempts of a job as
    ``failures`` says end with 1. ``pace_of`` machines, by their id or their lease's: what they do of a step
    in a second; others do all of it. ``arrivals`` are what the first machines find on arrival, in their order; as many
    runs as ``memory`` holds are killed for memory, as it says.
    """

    def __init__(self, store: BlobStore, market: SandboxMarket) -> None:
        self.total_steps = 200
        self.ssh: SshLogin | None = None
        self.exit_code = 0
        self.arrivals: list[Arrival] = []
        self.memory: list[MemoryUse] = []
        self.ends_well_from: int | None = None
        self.can_run_again = self.can_take_next = self.can_exec = self.can_exit_here = True
        self.exec_answer: ExecAnswer | bytes | None = ExecAnswer(0, b"", False, "exited")
        self.execs: list[str] = []
        self.deaf: set[str] = set()
        self.steps_of: dict[str, int] = {}
        self.failures: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.tell_progress = False
        self.pace_of: dict[str, float] = {}
        self._store = store
        self._market = market
        self._by_instance: dict[int, Agent] = {}

    def take_exit_code(self, job_id: str, run_epoch: int, lease_id: str) -> int:
        if lease_id in self.failing:
            return 1
        if self.failures[job_id] > 0:
            self.failures[job_id] -= 1
            return 1
        return 0 if self.ends_well_from is not None and run_epoch >= self.ends_well_from else self.exit_code

    def of(self, instance_id: str | None) -> Agent:
        return self._by_instance[int(instance_id or 0)]

    async def act(self, now: datetime) -> None:
        for instance in self._market.live():
            told = ORDERS.search(instance.order.onstart or "")
            if instance.container is not Container.RUNNING or told is None or told["lease_id"] in self.deaf:
                continue
            if instance.id not in self._by_instance:
                arrival = self.arrivals.pop(0) if self.arrivals else None
                made = Agent(self._store, told["job_id"], told["lease_id"], home_id=told["job_id"], arrival=arrival)
                self._by_instance[instance.id] = made
            agent = self._by_instance[instance.id]
            agent.machine_id = str(instance.machine_id)
            await agent.act(instance.boots, self, now)
        self._check_one_at_work()

    def _check_one_at_work(self) -> None:
        """Never two leases at the command of one job under one run epoch."""
        at_work = {
            (agent.job_id, agent.run_epoch, agent.lease_id)
            for instance_id, agent in self._by_instance.items()
            if agent.is_at_work and _runs(self._market.instances[instance_id])
        }
        runs = [(job_id, run_epoch) for job_id, run_epoch, _ in at_work]
        assert len(runs) == len(set(runs)), f"two leases at the same work: {at_work}"


def _runs(instance: Contract) -> bool:
    return instance.destroyed_at is None and instance.container is Container.RUNNING
