"""A real training is preempted again and again, on both markets, with its checkpoints in a real S3 server.

What must hold at the end: the weights equal those of an uninterrupted run, bit for bit; no checkpoint that was
verified is lost; no preemption cost more than an interval and one upload.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.client.answer import Json
from autopilot.mailbox.checkpoints import kept_manifest, verified_manifest
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import FINAL, SPEED, show, submit, until
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, S3Server, running_s3

pytestmark = pytest.mark.slow

ASSETS = Path(__file__).parents[1] / "assets/training"
STEP_S = 0.02
INTERVAL_S = 30
UPLOAD_S = 240
"""Market seconds (4 real ones) for taking, sending and verifying a checkpoint on a busy test machine."""

JOB = """name = "soak"
image = "autopilot/demo:1"
run = 'exec {python} {training} {steps} {step_s} {witness}'
workdir = "/workspace"

[resources]
gpu = "RTX 4090:1"
disk = "20GB"

[spot]
policy = "spot"

[budget]
total = "$200.00"

[checkpoint]
path = "ckpt"
interval = "{interval}s"
"""


@dataclass(frozen=True)
class Training:
    """A program, and the Python that has what it needs."""

    script: Path
    python: str = sys.executable


NUMPY = Training(ASSETS / "numpy_training.py")


@dataclass
class Witness:
    """What the training saw of itself, outside of every machine."""

    path: Path

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def step(self) -> int:
        return max((int(row[3]) for row in self.rows() if row[2] == "step"), default=0)

    def weights(self) -> str | None:
        return next((row[3] for row in self.rows() if row[2] == "weights"), None)

    def reached(self, step: int) -> bool:
        return self.step() >= step

    def started_more_than(self, times: int) -> bool:
        return len(self.starts()) > times

    def starts(self) -> list[int]:
        return [int(row[3]) for row in self.rows() if row[2] == "start"]

    def losses_s(self) -> list[float]:
        """Market seconds of work that each start threw away: the work on steps after the one that it began at."""
        lost, last = [], []
        for at, _, kind, value in self.rows():
            if kind == "step":
                last.append((float(at), int(value)))
            elif kind == "start":
                again = [moment for moment, step in last if step > int(value)]
                lost.append((again[-1] - again[0]) * SPEED if again else 0.0)
                last = [(moment, step) for moment, step in last if step <= int(value)]
        return lost


def preempt(theatre: Theatre, lease: Json) -> None:
    """The market takes the machine away: without a warning on vast.ai, for good on RunPod."""
    if lease["provider"] == "runpod":
        theatre.emu("runpod/on_demand_arrival", {"pod_id": lease["instance_id"]})
    else:
        theatre.emu("on_demand_arrival", {"instance_id": int(lease["instance_id"]), "duration_s": 120})


def favour(theatre: Theatre, runpod: bool) -> None:
    """Which market is the cheaper one from now on."""
    for machine in theatre.emu("runpod/machines")["machines"]:
        if machine["gpu_type_id"] == "NVIDIA GeForce RTX 4090":
            price = "0.20" if runpod else "0.45"
            theatre.emu("runpod/floor", {"machine_id": machine["machine_id"], "price": price})


def soak(theatre: Theatre, training: Training, witness: Witness, steps: int, moments: list[int]) -> Json:
    """Preempts when the training has come to each of ``moments`` (steps); answers the job as it ended."""
    theatre.start_market()
    favour(theatre, runpod=False)
    theatre.start_daemon()
    text = JOB.format(
        python=training.python,
        training=training.script,
        steps=steps,
        step_s=STEP_S,
        witness=witness.path,
        interval=INTERVAL_S,
    )
    job_id = submit(theatre, text)
    for i, moment in enumerate(moments):
        until(partial(witness.reached, moment), f"step {moment}")

        def at_work() -> Json | None:
            job = show(theatre, job_id)["job"]
            main = job["main"]
            return dict(main) if main and main["agent_state"] == "running" and job["checkpoint"] else None

        lease = until(at_work, "a machine at work")
        started = len(witness.starts())
        favour(theatre, runpod=i % 2 == 0)
        preempt(theatre, lease)
        with told_by(theatre, job_id):
            until(partial(witness.started_more_than, started), f"the start after preemption {i}")
    until(partial(witness.reached, steps), "the last step")
    Path(f"{witness.path}.may-finish").touch()
    with told_by(theatre, job_id):
        body: Json = until(lambda: (b := show(theatre, job_id)) and is_over(b) and b, "the end")
        return body


def is_over(body: Json) -> bool:
    """Bills are not waited for: one that is lower than expected counts as unfinished for a day."""
    return body["job"]["status"] in FINAL and all(lease["state"] in ("gone", "abandoned") for lease in body["leases"])


@contextmanager
def told_by(theatre: Theatre, job_id: str) -> Iterator[None]:
    """What does not come about is told with what the daemon says of it."""
    try:
        yield
    except AssertionError as late:
        body = show(theatre, job_id)
        alive = [lease for lease in body["leases"] if lease["state"] not in ("gone", "abandoned")]
        raise AssertionError(f"{late}; the job: {body['job']}; alive: {alive}") from None


def uninterrupted(training: Training, root: Path, steps: int) -> str:
    witness = Witness(root / "alone")
    Path(f"{witness.path}.may-finish").touch()
    command = [training.python, str(training.script), str(steps), "0", str(witness.path)]
    root.joinpath("alone-home").mkdir()
    subprocess.run(command, cwd=root / "alone-home", check=True)
    return str(witness.weights())


async def check(s3: S3Server, body: Json, witness: Witness, expected: str) -> None:
    assert body["job"]["status"] == "succeeded"
    assert witness.weights() == expected
    store = s3.store("autopilot")
    assert len(body["checkpoints"]) >= 2
    for checkpoint in body["checkpoints"]:
        where = body["job"]["id"], checkpoint["lease_id"], checkpoint["number"]
        assert await verified_manifest(store, AgentUnpacker(), *where) is not None
        assert await kept_manifest(store, *where) is not None
    assert max(witness.losses_s()) <= INTERVAL_S + UPLOAD_S, witness.losses_s()


async def run(steps: int, moments: list[int], training: Training = NUMPY) -> set[str]:
    """The markets on which it ran."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    try:
        async with running_s3(root / "s3") as s3:
            key = root / "bucket_key"
            key.touch(mode=0o600)
            key.write_text(f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
            settings = {
                "AUTOPILOT_BLOBS__URL": f"s3://{BUCKET}/autopilot",
                "AUTOPILOT_BLOBS__ENDPOINT": s3.url,
                "AUTOPILOT_BLOBS__KEY_FILE": str(key),
            }
            markets = ("vastai", "runpod")
            theatre = Theatre(root, seed=1, speed=SPEED, markets=markets, settings=settings)
            witness = Witness(root / "witness")
            try:
                body = await asyncio.to_thread(soak, theatre, training, witness, steps, moments)
            finally:
                await asyncio.to_thread(theatre.stop)
            await check(s3, body, witness, await asyncio.to_thread(uninterrupted, training, root, steps))
            return {lease["provider"] for lease in body["leases"]}
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def test_preempted_three_times_it_ends_with_the_same_weights() -> None:
    assert await run(600, [90, 260, 430]) == {"vastai", "runpod"}


async def test_so_does_a_training_with_pytorch() -> None:
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    if await asyncio.to_thread(subprocess.call, [python, "-c", "import torch"], stderr=subprocess.DEVNULL):
        pytest.skip("PyTorch is not installed (TORCH_PYTHON names a Python that has it)")
    training = Training(ASSETS / "torch_training.py", python)
    assert await run(600, [90, 260, 430], training) == {"vastai", "runpod"}


async def test_preempted_fifty_times_at_random_it_ends_with_the_same_weights() -> None:
    rng = random.Random(50)
    moments = sorted(rng.sample(range(60, 4000), 50))
    assert await run(4060, moments) == {"vastai", "runpod"}
