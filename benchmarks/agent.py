"""The agent's checkpoints over loopback to a real S3 server: speed, bytes, memory, and what the job feels of it.

The agent's half runs in a process of its own (``agent_machine``), as it does beside a job; so does a training step.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.domain.agent_state import AgentState
from autopilot.mailbox.checkpoints import keep_verified, verified_manifest
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckpointRef, build_orders
from autopilot.mailbox.report_shapes import Heartbeat

MACHINE = Path(__file__).with_name("agent_machine.py")
FILES, FILE_BYTES = 8, 64 << 20
REPEATS = 3
TRAINING_S, WINDOW_S = 20, 0.5
TRAINING_CORE, SPARE_CORE = ("taskset", "-c", "0"), ("taskset", "-c", "1")
JOB = "bench"
HOUR = timedelta(hours=1)


async def measure(root: Path) -> list[Figure]:
    with s3_server(root / "store") as store:
        figures = await _Bench(root / "transfers", store).transfers()
    with s3_server(root / "elsewhere", prefix=SPARE_CORE) as store:
        return [*figures, *await _Bench(root / "overhead", store).overhead()]


@contextmanager
def s3_server(root: Path, prefix: tuple[str, ...] = ()) -> Iterator[BucketBlobStore]:
    (root / "bucket").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rclone = Path(sys.executable).with_name("rclone")
    command = [str(rclone), "serve", "s3", str(root), "--auth-key", "bench-id,bench-key", "--addr", f"127.0.0.1:{port}"]
    command += ["--vfs-cache-mode", "off", "--config", os.devnull]
    server = subprocess.Popen([*prefix, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield BucketBlobStore(Bucket("s3://bucket", "bench-id", "bench-key", f"http://127.0.0.1:{port}"))
    finally:
        server.kill()
        server.wait()


class _Bench:
    def __init__(self, root: Path, store: BucketBlobStore) -> None:
        self.root, self.store = root, store
        self.files = root / "job" / "ckpt"
        self.files.mkdir(parents=True)
        for i in range(FILES):
            (self.files / f"shard-{i}").write_bytes(os.urandom(FILE_BYTES))

    async def transfers(self) -> list[Figure]:
        size = FILES * FILE_BYTES
        sent_s, plain_up_s, brought_s, plain_down_s, changed, memory_mb, cpu_s = [], [], [], [], [], [], []
        for repeat in range(REPEATS):
            lease = f"lease{repeat}"
            first = await self.run(lease, "checkpoint", 0, self.files)
            sent_s.append(first["seconds"])
            cpu_s.append(first["cpu_s"])
            memory_mb.append(first["peak_mb"] - first["idle_mb"])
            plain_up_s.append((await self.run(lease, "plain_put", 0, self.files))["seconds"])
            restore = await self.verified(lease, 0)
            fresh = self.root / f"restored-{repeat}"
            brought = await self.run(f"other{repeat}", "restore", 0, fresh / "ckpt", restore)
            brought_s.append(brought["seconds"])
            memory_mb.append(brought["peak_mb"] - brought["idle_mb"])
            plain_down_s.append((await self.run(lease, "plain_get", 0, self.root / f"plain-{repeat}"))["seconds"])
            self.change_a_tenth()
            second = await self.run(lease, "checkpoint", 1, self.files, restore)
            changed.append(100 * second["bytes_sent"] / size)
        mb = size / 1e6
        up = 100 * median(plain_up_s) / median(sent_s)
        down = 100 * median(plain_down_s) / median(brought_s)
        return [
            Figure("upload of a checkpoint of 537 MB, hashed and copied", [mb / s for s in sent_s], "MB/s"),
            Figure("… a plain PUT of the same files", [mb / s for s in plain_up_s], "MB/s"),
            Figure("… the first in percent of the second (target: at least 70)", [up], "%"),
            Figure("restore of it on a fresh machine, verified twice", [mb / s for s in brought_s], "MB/s"),
            Figure("… a plain GET of the same files to disk", [mb / s for s in plain_down_s], "MB/s"),
            Figure("… the first in percent of the second (target: at least 70)", [down], "%"),
            Figure("bytes sent for a second checkpoint of which a tenth changed", changed, "%", 15),
            Figure(
                "processor time of the agent per GB that it hashes, copies and sends",
                [1e3 * s / mb for s in cpu_s],
                "s",
            ),
            Figure("memory of the agent's process while it transfers, above idle", memory_mb, "MB", 64),
        ]

    async def overhead(self) -> list[Figure]:
        """Steps of one training, while an upload at 50 MB/s beside it is stopped and continued every half second.

        The upload is on another core, then on the same one. The store is always on that other core: in truth it is
        elsewhere. Whole durations, which other programs disturb, and the processor's time, which they hardly do.
        """
        figures = []
        for where, core in (("on another core", SPARE_CORE), ("on the same core", TRAINING_CORE)):
            walls, cpus, speeds = [], [], []
            for repeat in range(REPEATS):
                self.change_a_tenth(everything=True)
                lease = f"busy-{core[-1]}-{repeat}"
                wall, cpu = await self.slowed_by_an_upload(lease, core)
                walls.append(wall)
                cpus.append(cpu)
                sent = list((await self.store.sizes(f"jobs/{JOB}/{lease}/ckpt")).values())
                speeds.append(sum(filter(None, sent)) / 1e6 / (TRAINING_S / 2))
            figures.append(Figure(f"a training step beside an upload at 50 MB/s {where} takes longer by", walls, "%"))
            figures.append(Figure("… of processor time (target: below 1)", cpus, "%"))
            figures.append(Figure("… the upload meanwhile", speeds, "MB/s"))
        return figures

    async def slowed_by_an_upload(self, lease: str, core: tuple[str, ...]) -> tuple[float, float]:
        """Percent by which a step takes longer: of time, and of processor time."""
        arguments = self.arguments(lease, "checkpoint_slowly", 0, self.files)
        upload = await asyncio.create_subprocess_exec(*core, sys.executable, *arguments, stdout=subprocess.DEVNULL)
        while not await self.store.sizes(f"jobs/{JOB}/{lease}/ckpt"):  # noqa: ASYNC110 -- it hashes first
            await asyncio.sleep(0.1)
        training = asyncio.create_task(
            _json([str(MACHINE), "steps", str(TRAINING_S)], {"OPENBLAS_NUM_THREADS": "1"}, TRAINING_CORE)
        )
        windows: list[tuple[float, float, bool]] = []
        is_on = True
        while not training.done() and upload.returncode is None:
            began = time.monotonic()
            await asyncio.sleep(WINDOW_S)
            windows.append((began, time.monotonic(), is_on))
            is_on = not is_on
            with suppress(ProcessLookupError):
                upload.send_signal(signal.SIGCONT if is_on else signal.SIGSTOP)
        with suppress(ProcessLookupError):
            upload.kill()
        await upload.wait()
        steps = (await training)["steps"]
        slower = []
        for column in (1, 2):
            beside, alone = (
                [
                    step[column]
                    for step in steps
                    if any(on is wanted and a <= step[0] and step[0] + step[1] <= b for a, b, on in windows)
                ]
                for wanted in (True, False)
            )
            slower.append(100 * (median(beside) / median(alone) - 1))
        return slower[0], slower[1]

    def change_a_tenth(self, everything: bool = False) -> None:
        """A tenth of the bytes, in one place: as a job that trains few of its layers."""
        for i in range(FILES) if everything else [0]:
            with (self.files / f"shard-{i}").open("r+b") as file:
                file.write(os.urandom(FILE_BYTES if everything else FILES * FILE_BYTES // 10))
            os.utime(self.files / f"shard-{i}")

    async def run(
        self,
        lease: str,
        what: str,
        n: int,
        files: Path,
        restore: CheckpointRef | None = None,
    ) -> dict[str, Any]:
        return await _json(self.arguments(lease, what, n, files, restore), {})

    def arguments(self, lease: str, what: str, n: int, files: Path, restore: CheckpointRef | None = None) -> list[str]:
        beat = Heartbeat(1, 1, 1, 1, AgentState.RESTORING, next_checkpoint=n, parts_wanted=256)
        orders = build_orders(
            self.store,
            job_id=JOB,
            lease_id=lease,
            instance_id=None,
            run_epoch=1,
            seq=1,
            permit_ttl_s=900,
            role="run",
            checkpoint_interval_s=600,
            work=Work("train", checkpoint_path="ckpt"),
            restore=restore,
            heartbeat=beat,
        )
        urls = {"put": [], "get": []} if "plain" not in what else self.plain_urls()
        request = self.root / "request.json"
        request.write_text(json.dumps({"orders": json.loads(orders.to_json()), **urls}))
        home = self.root / f"home-{lease}"
        return [str(MACHINE), what, str(request), str(home), str(files)]

    def plain_urls(self) -> dict[str, list[str]]:
        keys = [f"plain/{i}" for i in range(FILES)]
        puts = [self.store.sign_put(key, HOUR, FILE_BYTES) for key in keys]
        return {"put": puts, "get": [self.store.sign_get(key, HOUR) for key in keys]}

    async def verified(self, lease: str, n: int) -> CheckpointRef:
        manifest = await verified_manifest(self.store, AgentUnpacker(), JOB, lease, n)
        assert manifest is not None, "the checkpoint is not whole"
        await keep_verified(self.store, JOB, lease, manifest)
        return CheckpointRef(lease, n, verified_key(JOB, lease, n), manifest.part_keys(JOB, lease))


async def _json(arguments: list[str], environment: dict[str, str], prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    words = [*prefix, sys.executable, *arguments]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, env={**os.environ, **environment})
    out, _ = await process.communicate()
    assert process.returncode == 0, arguments
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer
