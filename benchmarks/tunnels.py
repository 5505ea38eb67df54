"""Checkpoints over SSH between a machine with real OpenSSH and the real listener, beside a plain ``scp`` of the same
bytes over the same server. It takes root: the machine has a network of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from agent import JOB, MACHINE
from figures import Figure

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import BULK_PORT, CONTROL_PORT, MailboxPlace
from autopilot.domain.agent_state import AgentState
from autopilot.mailbox.checkpoints import keep_verified, verified_manifest
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.report_shapes import Heartbeat
from tests.integration.tunnels.tunnel_world import Box, TunnelWorld
from tests.patience import eventually

FILE_BYTES = 64 << 20
GB = 16
"""Files of a gigabyte and a bit more."""
REPEATS = 3
MOST_PARTS = 256
"""Addresses for so many stand in the orders."""


def measure(root: Path, gigabytes: int = 1, repeats: int = REPEATS) -> list[Figure]:
    if os.geteuid() != 0:
        print("… left out: a network of its own for a machine takes root", file=sys.stderr)  # noqa: T201
        return []
    return asyncio.run(_measure(root, gigabytes * GB, repeats))


async def _measure(root: Path, files: int, repeats: int) -> list[Figure]:
    async with _a_home(root) as home:
        await home.machine_is_up()
        home.write_files(files, FILE_BYTES)
        sent_s, got_s, scp_from_s, scp_to_s, memory = [], [], [], [], []
        for repeat in range(repeats):
            lease = f"lease{repeat}"
            scp_from_s.append(await home.scp_from())
            sent = await home.run(lease, "checkpoint")
            sent_s.append(sent["seconds"])
            memory.append(home.listener_mb())
            restore = await home.verified(lease)
            scp_to_s.append(await home.scp_to())
            got_s.append((await home.run(f"other{repeat}", "restore", restore))["seconds"])
            home.forget(lease)
        mb = files * FILE_BYTES / 1e6
        up, down = (100 * median(a) / median(b) for a, b in ((scp_from_s, sent_s), (scp_to_s, got_s)))
        gb = f"{mb / 1000:.1f} GB"
        figures = [
            Figure(f"a checkpoint of {gb} over SSH: hashed, copied, sent, kept", [mb / s for s in sent_s], "MB/s"),
            Figure("… `scp` of the same files over the same server", [mb / s for s in scp_from_s], "MB/s"),
            Figure("… the first in percent of the second (target: at least 70)", [up], "%"),
            Figure("restore of it over SSH, verified", [mb / s for s in got_s], "MB/s"),
            Figure("… `scp` of the same files over the same server", [mb / s for s in scp_to_s], "MB/s"),
            Figure("… the first in percent of the second (target: at least 70)", [down], "%"),
            Figure("… memory of the listener meanwhile", memory, "MB", 256),
        ]
        return figures


class _Home:
    """The listener of a daemon without addresses, and a machine that is dialled. ``line``: between both."""

    def __init__(self, root: Path, place: MailboxPlace, world: TunnelWorld, box: Box) -> None:
        self.root, self.place, self.world, self.box = root, place, world, box
        control, bulk = (f"http://127.0.0.1:{port}" for port in (CONTROL_PORT, BULK_PORT))
        self.store = LocalBlobStore(place.objects, place.read_key(), control, bulk_url=bulk)
        self.files = root / "job" / "ckpt"
        self.listener: asyncio.subprocess.Process | None = None

    def write_files(self, count: int, size: int) -> None:
        self.files.mkdir(parents=True)
        for number in range(count):
            (self.files / f"shard-{number}").write_bytes(os.urandom(size))

    async def machine_is_up(self) -> None:
        await self.world.follow(self.world.dialled(self.box))
        await eventually(lambda: self.world.state().is_up, "the tunnel", 0.05)

    async def run(self, lease: str, what: str, restore: CheckpointRef | None = None) -> dict[str, Any]:
        """In the machine's network."""
        beat = Heartbeat(1, 1, 1, 1, AgentState.RESTORING, next_checkpoint=0, parts_wanted=MOST_PARTS)
        orders = build_orders(
            self.store,
            job_id=JOB,
            lease_id=lease,
            instance_id=None,
            run_epoch=1,
            seq=1,
            permit_ttl_s=3600,
            role="run",
            checkpoint_interval_s=600,
            work=Work("train", checkpoint_path="ckpt"),
            restore=restore,
            heartbeat=beat,
        )
        request = self.root / "request.json"
        request.write_text(json.dumps({"orders": json.loads(orders.to_json()), "put": [], "get": []}))
        files = self.files if restore is None else self.root / f"restored-{lease}" / "ckpt"
        words = [str(MACHINE), what, str(request), str(self.root / f"home-{lease}"), str(files)]
        inside = ["nsenter", f"--net={self.box.network.path}", sys.executable, *words]
        process = await asyncio.create_subprocess_exec(*inside, stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        assert process.returncode == 0, what
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    async def scp_from(self) -> float:
        (target := self.root / "scp-here").mkdir()
        return await self._scp(f"root@127.0.0.1:{self.files}", str(target))

    async def scp_to(self) -> float:
        (target := self.root / "scp-there").mkdir()
        return await self._scp(str(self.files), f"root@127.0.0.1:{target}")

    async def _scp(self, source: str, target: str) -> float:
        """Seconds. With the files on the disk, as the listener has them."""
        options = ["-F", "none", "-O", "-q", "-r", "-i", str(self.world.place.key), "-P", str(self.box.address.port)]
        options += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec("scp", *options, source, target)
        assert await process.wait() == 0
        took_s = time.perf_counter() - began
        remove(Path(target.rpartition(":")[2]))
        return took_s

    async def verified(self, lease: str) -> CheckpointRef:
        manifest = await verified_manifest(self.store, AgentUnpacker(), JOB, lease, 0)
        assert manifest is not None, "the checkpoint is not whole"
        await keep_verified(self.store, JOB, lease, manifest)
        return CheckpointRef(lease, 0, verified_key(JOB, lease, 0), manifest.part_keys(JOB, lease))

    def forget(self, lease: str) -> None:
        remove(self.place.objects / "jobs")
        for path in self.root.glob("restored-*"):
            remove(path)

    def listener_mb(self) -> float:
        assert self.listener is not None
        lines = Path(f"/proc/{self.listener.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 1000


@asynccontextmanager
async def _a_home(root: Path) -> AsyncIterator[_Home]:
    place = MailboxPlace(root / "home")
    place.root.mkdir()
    place.read_or_make_key()
    token = place.announce()
    words = ["--place", str(place.root), "--token", token, "--mailbox", "127.0.0.1", "0"]
    words += ["--log-format", "json", "--log-level", "error"]
    listener = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "autopilot.listener", *words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        port = await eventually(place.port, "the listener", 0.05)
        world = TunnelWorld(place.root, f"127.0.0.1:{port}")
        box = world.box(name="machine")
        made = _Home(root, place, world, box)
        made.listener = listener
        try:
            yield made
        finally:
            await world.keeper.close()
            box.close()
    finally:
        listener.terminate()
        await listener.wait()


def remove(path: Path) -> None:
    subprocess.run(["rm", "-rf", str(path)], check=True)
