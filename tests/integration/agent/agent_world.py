"""A rented machine (a directory and its processes), a daemon's half of the mailbox, and a market's self-destroy API."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from autopilot.agent.artifact import agent_key, agent_sha256
from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.code import NO_CODE, JobCode
from autopilot.mailbox.checkpoints import keep_verified, verified_manifest
from autopilot.mailbox.keys import heartbeat_key, orders_key, verified_key
from autopilot.mailbox.order_shapes import ExecOrder, HostPlan, Role, Work
from autopilot.mailbox.orders import CheckpointRef, CheckWish, LeftRef, build_orders
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest
from autopilot.ports.blobs import BlobStore
from tests.patience import eventually

SPEED = 60
CALM = 10
"""Where a time limit of the agent's is real work's as well: to save after the end of a permit takes processes and
uploads, and 90 market seconds are nine real ones."""
JOB = "job-1"
INSTANCE = "77"
TRAINER = Path(__file__).parents[3] / "packages/lab/autopilot_lab/sandbox/images/demo/opt/demo/train.py"
DAY = timedelta(days=1)


def training(steps: int, setup: str = "", gate: Path | None = None) -> Work:
    """``gate``: half way, when all is saved, it waits for that file. So it does not end before the test has acted,
    however busy the computer is."""
    run = f'"{sys.executable}" "$AUTOPILOT_ROOT/opt/demo/train.py" --checkpoint out/model.json --steps'
    half = "" if gate is None else f'{run} {steps // 2} && until [ -e "{gate}" ]; do sleep 0.1; done && '
    return Work(run=f"{half}exec {run} {steps}", setup=setup, workdir="/workspace", checkpoint_path="out/model.json")


@dataclasses.dataclass
class Lease:
    """The daemon's half: writes orders again and again, as long as ``renewing``, from what the heartbeat says."""

    store: LocalBlobStore
    lease_id: str
    work: Work
    role: Role = "run"
    run_epoch: int = 1
    seq: int = 0
    permit_ttl_s: int = 86_400
    """So long that no renewal comes too late on a busy machine. ``let_go`` ends it."""
    instance_id: str | None = None
    """Known once the machine is."""
    checkpoint_interval_s: int = 20
    restore: CheckpointRef | None = None
    code: JobCode = NO_CODE
    left: tuple[LeftRef, ...] = ()
    check: CheckWish | None = None
    exec: ExecOrder | None = None
    host: HostPlan | None = None
    """Of a virtual machine."""
    renewing: bool = True
    job: str = JOB
    """Whose task it has now; its orders lie where they did."""

    async def write_orders(self) -> None:
        heartbeat = await self.heartbeat()
        self.seq += 1
        orders = build_orders(
            self.store,
            job_id=self.job,
            home_id=JOB,
            lease_id=self.lease_id,
            instance_id=self.instance_id,
            run_epoch=self.run_epoch,
            seq=self.seq,
            permit_ttl_s=self.permit_ttl_s,
            role=self.role,
            checkpoint_interval_s=self.checkpoint_interval_s,
            work=self.work,
            restore=self.restore,
            heartbeat=heartbeat,
            code=self.code,
            left=self.left,
            host=self.host,
            check=self.check,
        )
        orders = dataclasses.replace(orders, exec=self.exec)
        await self.store.put(orders_key(JOB, self.lease_id), orders.to_json())

    async def renew(self) -> None:
        while True:
            if self.renewing:
                await self.write_orders()
            await asyncio.sleep(0.1)

    async def order(self, **changes: Any) -> int:
        """Change the orders; answers a ``seq`` by which they hold."""
        for name, value in changes.items():
            setattr(self, name, value)
        await self.write_orders()
        return self.seq

    async def let_go(self, permit_ttl_s: int = 60) -> None:
        """One last permit, which is not renewed."""
        self.renewing = False
        await self.order(permit_ttl_s=permit_ttl_s)

    async def heartbeat(self) -> Heartbeat | None:
        data = await self.store.get(heartbeat_key(self.job, self.lease_id))
        if data is None:
            return None
        heartbeat = parse_heartbeat(data)
        assert heartbeat is not None, data
        return heartbeat

    async def exit(self) -> ExitRecord | None:
        heartbeat = await self.heartbeat()
        return heartbeat.exit if heartbeat else None

    async def until(self, what: str, wanted: Callable[[Heartbeat], bool]) -> Heartbeat:
        async def look() -> Heartbeat | None:
            heartbeat = await self.heartbeat()
            return heartbeat if heartbeat and wanted(heartbeat) else None

        try:
            answer = await eventually(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; last heartbeat {await self.heartbeat()}") from None
        assert isinstance(answer, Heartbeat)
        return answer

    def log(self) -> str:
        chunks = (self.store.root / "jobs" / self.job / self.lease_id / "log").glob("*")
        in_order = sorted(chunks, key=lambda path: tuple(map(int, path.name.split("-"))))
        return "".join(path.read_text() for path in in_order)


class Host:
    """One rented machine: ``root`` is its disk; a start runs onstart, ``kill`` is a pause as the market does it."""

    def __init__(self, root: Path, onstart_text: str, market_url: str) -> None:
        self.root = root
        self.onstart = onstart_text
        (root / "opt/demo").mkdir(parents=True)
        shutil.copy(TRAINER, root / "opt/demo/train.py")
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "AUTOPILOT_ROOT": str(root),
            "AUTOPILOT_PROVIDER_URL": market_url,
            "CONTAINER_ID": INSTANCE,
            "CONTAINER_API_KEY": "instance-key",
        }
        self.console = root.parent / f"{root.name}.log"

    def start(self) -> subprocess.Popen[bytes]:
        with self.console.open("ab") as console:
            return subprocess.Popen(
                ["sh", "-c", self.onstart],
                cwd=self.root,
                env=self.env,
                stdout=console,
                stderr=console,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def processes(self) -> list[int]:
        return processes_beneath(self.root)

    def kill(self) -> None:
        while found := self.processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    @property
    def model(self) -> Path:
        return self.root / "workspace/out/model.json"


def processes_beneath(root: Path) -> list[int]:
    """Of the machine whose disk that is."""
    mark = f"AUTOPILOT_ROOT={root}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(int(pid))
    return found


class World:
    def __init__(self, tmp_path: Path, store: LocalBlobStore, market_url: str, market_calls: list[Any]) -> None:
        self.tmp_path = tmp_path
        self.store = store
        self.market_url = market_url
        self.market_calls = market_calls
        self.hosts: list[Host] = []
        self.hours_passed: list[float] = []
        """By the store's clock, beyond the real ones: what is added to it passes at once."""
        self._renewals: list[asyncio.Task[None]] = []

    async def lease(self, lease_id: str, work: Work, **terms: Any) -> Lease:
        """A lease with its orders written, renewed in the background."""
        lease = Lease(self.store, lease_id, work, **terms)
        await lease.write_orders()
        self._renewals.append(asyncio.create_task(lease.renew()))
        return lease

    def host(self, lease: Lease, *, sha256: str | None = None, speed: float = SPEED) -> Host:
        """A machine that is not started yet."""
        orders_url = self.store.sign_get(orders_key(JOB, lease.lease_id), DAY)
        text = onstart(self.store.sign_get(agent_key(), DAY), sha256 or agent_sha256(), orders_url, speed)
        host = Host(self.tmp_path / f"host-{len(self.hosts)}", text, self.market_url)
        lease.instance_id = INSTANCE
        self.hosts.append(host)
        return host

    async def close(self) -> None:
        for renewal in self._renewals:
            renewal.cancel()
        results = await asyncio.gather(*self._renewals, return_exceptions=True)
        for host in self.hosts:
            host.kill()
        assert all(isinstance(result, asyncio.CancelledError) for result in results), results


async def verified(store: BlobStore, lease_id: str, n: int) -> CheckpointRef:
    """What a daemon does with a checkpoint: check it, keep a copy of its manifest, name it in orders."""
    manifest = await verified_manifest(store, AgentUnpacker(), JOB, lease_id, n)
    assert manifest is not None, f"checkpoint {n} of {lease_id} is not whole"
    return await unchecked(store, lease_id, manifest)


async def unchecked(store: BlobStore, lease_id: str, manifest: Manifest) -> CheckpointRef:
    await keep_verified(store, JOB, lease_id, manifest)
    key = verified_key(JOB, lease_id, manifest.number)
    return CheckpointRef(lease_id, manifest.number, key, manifest.part_keys(JOB, lease_id))
