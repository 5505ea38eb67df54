"""A job in the queue of a real Slurm: a daemon, the command line and the cluster, each a process, at real speed."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import ForkedTheatre, command, is_settled, show, submit, until
from tests.slurm_cluster import SlurmCluster, needs_slurm, slurm_cluster

pytestmark = [pytest.mark.slow, needs_slurm]

TRAIN = """
import json, os, pathlib, time
saved, end = pathlib.Path("ckpt/state.json"), pathlib.Path("END")
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
print("begins at", step, flush=True)
while not end.exists():
    step += 1
    saved.parent.mkdir(exist_ok=True)
    saved.with_suffix(".new").write_text(json.dumps({"step": step}))
    os.replace(saved.with_suffix(".new"), saved)
    for _ in range(100):
        if not end.exists():
            time.sleep(0.1)
print("secrets", sorted(name for name in os.environ if "KEY" in name or "SECRET" in name), flush=True)
"""
"""Until a file says that it is enough."""
JOB = f"""name = "train"
image = "none/none"
run = '''python3 -c '{TRAIN}' '''
workdir = "/workspace"

[resources]
gpu = "RTX 4090:1"
disk = "1GB"

[work]
estimate = "3m"

[budget]
total = "$1.00"

[checkpoint]
path = "ckpt"
interval = "10s"
"""
ALL = "--gres=gpu:rtx4090:4"
NAME = "--job-name=somebody"


@dataclass
class Site:
    theatre: Theatre
    cluster: SlurmCluster


@pytest.fixture
def site() -> Iterator[Site]:
    """One partition whose jobs are preempted, and a daemon whose mailbox the node reaches by an address on loopback."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    (root / "cluster").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        mailbox = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {"AUTOPILOT_BLOBS__LISTEN": mailbox, "AUTOPILOT_BLOBS__PUBLIC_URL": f"http://{mailbox}"}
    theatre = ForkedTheatre(root, seed=1, speed=1, tick_s=1, markets=(), settings=settings)
    try:
        with slurm_cluster(root / "cluster") as cluster:
            stated = cluster.settings()
            (root / "autopilot.toml").write_text(
                f'[providers.slurm]\nslurm_conf = "{stated["slurm_conf"]}"\ndirectory = "{stated["directory"]}"\n'
                '[providers.slurm.partitions.low]\ngpu = "RTX 4090"\nvram_gb = 24\ngres = "gpu:rtx4090"\n'
            )
            yield Site(theatre, cluster)
            theatre.stop()
    finally:
        theatre.stop()
        shutil.rmtree(root, ignore_errors=True)


def at_work(site: Site, job_id: str) -> bool:
    job = show(site.theatre, job_id)["job"]
    return job["status"] == "running" and job["main"] is not None and job["main"]["agent_state"] == "running"


def ours(site: Site) -> str:
    """Id and state of the jobs with autopilot's mark."""
    rows = site.cluster.run("squeue", "-h", "-o", "%A %T %k").splitlines()
    return "; ".join(row.rpartition(" autopilot ")[0] for row in rows if " autopilot " in row)


def begins(site: Site, job_id: str) -> list[int]:
    logs = command(site.theatre, "logs", job_id).stdout
    return [int(line.split()[-1]) for line in logs.splitlines() if "begins at" in line]


def test_a_job_waits_is_preempted_and_goes_on_when_it_is_its_turn_again(site: Site) -> None:
    theatre, cluster = site.theatre, site.cluster
    told = command(theatre, "doctor").stdout
    assert "jobs at once 0 of 4 in low" in told, told
    before = cluster.submit("high", ALL, NAME)
    until(lambda: cluster.state(before) == "RUNNING", "the other's job", every_s=0.2)
    theatre.start_daemon()
    job_id = submit(theatre, JOB.replace("END", str(cluster.root / "end")))
    until(lambda: "PENDING" in ours(site), "the job waits", every_s=0.2)
    cluster.run("scancel", before)
    until(lambda: at_work(site, job_id), "a machine at work", every_s=0.2)
    until(lambda: show(theatre, job_id)["job"].get("checkpoint"), "a checkpoint", every_s=0.2)
    other = cluster.submit("high", ALL, NAME)
    until(lambda: cluster.state(other) == "RUNNING", "the other's job has the GPUs", every_s=0.2)
    cluster.stop("slurmctld")
    cluster.start("slurmctld")
    assert cluster.state(other) == "RUNNING"
    cluster.run("scancel", other)
    (waiting,) = [row.split()[0] for row in ours(site).split("; ")]
    cluster.run("scontrol", "update", f"JobId={waiting}", "StartTime=now")  # not two minutes after its requeue
    until(lambda: begins(site, job_id)[1:], "the second start", every_s=0.2)
    (cluster.root / "end").touch()
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job", every_s=0.2)
    body = show(theatre, job_id)
    assert body["job"]["status"] == "succeeded", body
    assert len(body["leases"]) == 1, "it started again in its own place in the queue"
    begun = begins(site, job_id)
    assert begun[0] == 0
    assert begun[-1] > 0
    assert "secrets []" in command(theatre, "logs", job_id).stdout
    until(lambda: not ours(site), "the queue is free of it", every_s=0.2)
    assert not list((cluster.root / "shared" / "leases").glob("ap1*"))
    assert "$0.00" in command(theatre, "spend").stdout
