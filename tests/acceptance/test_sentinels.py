"""What a host can see of a rented machine: its environment, disk, processes and traffic, searched for secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autopilot.config.keys import store_private
from autopilot_lab.demo.theatre import KEYS, Theatre
from tests.acceptance.stage import SPEED, show, submit, until
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, S3Server, running_s3

pytestmark = pytest.mark.slow

REGISTRY_PASSWORD = "planted-password-of-the-registry"
JOB = """name = "{name}"
image = "ghcr.io/autopilot/demo:1"
run = 'env > seen; echo started; sleep 1000'
workdir = "/workspace"

[registry]
server = "ghcr.io"
user = "me"
password = "ghcr"

[secrets]
TOKEN = "{name}"

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$3.00"

[checkpoint]
path = "seen"
interval = "30s"
"""


@dataclass
class Machine:
    root: Path
    environments: bytes
    commands: bytes
    disk: bytes

    @property
    def all(self) -> bytes:
        return self.environments + self.commands + self.disk


def checkpoint_of(theatre: Theatre, job_id: str) -> Any:
    return show(theatre, job_id)["job"]["checkpoint"]


def machines(beneath: Path) -> list[Machine]:
    found: dict[Path, tuple[bytes, bytes]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            for variable in environment.split(b"\0"):
                if variable.startswith(f"AUTOPILOT_ROOT={beneath}".encode()):
                    root = Path(os.fsdecode(variable.partition(b"=")[2]))
                    environments, commands = found.get(root, (b"", b""))
                    found[root] = environments + environment, commands + command
    return [Machine(root, *seen, contents(root)) for root, seen in found.items()]


def contents(root: Path) -> bytes:
    """Of every file, console included, which the host writes beside the disk."""
    data = []
    for path in [*root.rglob("*"), *root.parent.glob("console.log")]:
        with suppress(OSError):  # gone meanwhile
            if path.is_file():
                data.append(path.read_bytes())
    return b"".join(data)


def play(theatre: Theatre, s3: S3Server) -> tuple[list[Machine], str]:
    theatre.start_market()
    theatre.start_daemon()
    s3.trouble.is_recording = True
    jobs = {name: submit(theatre, JOB.format(name=name)) for name in ("one", "two")}
    for name, job_id in jobs.items():
        until(partial(checkpoint_of, theatre, job_id), f"a checkpoint of {name}")
    return machines(theatre.root / "market"), str(theatre.root / "daemon.log")


async def test_a_host_sees_no_secret_but_those_that_its_job_is_given() -> None:
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    try:
        async with running_s3(root / "s3") as s3:
            settings = {
                "AUTOPILOT_BLOBS__URL": f"s3://{BUCKET}/autopilot",
                "AUTOPILOT_BLOBS__ENDPOINT": s3.url,
                "AUTOPILOT_BLOBS__KEY_FILE": str(
                    store_private(root, "bucket_key", f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
                ),
                "SENTINEL": "sentinel-of-the-daemons-environment",
            }
            theatre = Theatre(
                root,
                seed=1,
                speed=SPEED,
                markets=("vastai", "runpod"),
                settings=settings,
                market_options=["--private-image", f"ghcr.io/autopilot/demo=me:{REGISTRY_PASSWORD}"],
            )
            for name in ("one", "two"):
                store_private(root / "daemon" / "autopilot" / "credentials", f"secret_{name}", f"sentinel-{name}")
            credentials = root / "daemon" / "autopilot" / "credentials"
            store_private(credentials, "registry_ghcr", f"ghcr.io\n{REGISTRY_PASSWORD}")
            try:
                seen, daemon_log = await asyncio.to_thread(play, theatre, s3)
            finally:
                await asyncio.to_thread(theatre.stop)
            traffic = b"".join(s3.trouble.of_machines)
            log = await asyncio.to_thread(Path(daemon_log).read_bytes)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    check(seen, traffic, log)


def check(seen: list[Machine], traffic: bytes, log: bytes) -> None:
    never = [*KEYS.values(), SECRET_ACCESS_KEY, REGISTRY_PASSWORD, "sentinel-of-the-daemons-environment"]
    assert len(seen) == 2
    assert b"heartbeat.json" in traffic, "it was recorded"
    for secret in never:
        for place in (*(machine.all for machine in seen), traffic, log):
            assert secret.encode() not in place
    for machine in seen:
        given = [name for name in ("one", "two") if f"sentinel-{name}".encode() in machine.all]
        assert len(given) == 1, "the secret of its own job, and of no other"
        assert f"TOKEN=sentinel-{given[0]}".encode() in machine.environments
        assert b"sentinel-" not in machine.commands
        agent_state = b"".join(path.read_bytes() for path in machine.root.glob("var/lib/autopilot/*.json"))
        assert b"sentinel-" not in agent_state
    assert b"sentinel-" not in log
