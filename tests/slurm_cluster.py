"""A Slurm cluster for tests: the real controller and node daemon, ordinary processes on loopback, with one node."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.patience import until

_PLACES = "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin"
PROGRAMS = {name: shutil.which(name, path=_PLACES) for name in ("slurmctld", "slurmd", "sbatch", "srun", "scancel")}
needs_slurm = pytest.mark.skipif(
    not all(PROGRAMS.values()), reason="Slurm is not installed: apt-get install slurmctld slurmd slurm-client"
)
GPUS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
"""Files that stand for them: Slurm hands out numbers, and opens none of these."""
_CONF = """\
ClusterName=tested
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=2000 Gres=gpu:rtx4090:{gpus} State=UNKNOWN
PartitionName=low Nodes=ALL MaxTime=60 GraceTime={grace_s} PriorityTier=1 PreemptMode=REQUEUE
PartitionName=firm Nodes=ALL MaxTime=UNLIMITED PriorityTier=1 PreemptMode=OFF
PartitionName=high Nodes=ALL MaxTime=UNLIMITED PriorityTier=10 PreemptMode=OFF
"""


class SlurmCluster:
    """Partitions ``low`` (its jobs are preempted, with grace, and requeued), ``firm`` and ``high`` (which preempts)."""

    def __init__(self, root: Path, grace_s: int) -> None:
        self.root = root
        self.conf = root / "slurm.conf"
        for name in ("state", "spool"):
            (root / name).mkdir()
        self.conf.write_text(
            _CONF.format(
                root=root,
                host=socket.gethostname().partition(".")[0],
                ports=_free_ports(2),
                user=getpass.getuser(),
                gpus=len(GPUS),
                grace_s=grace_s,
            )
        )
        (root / "gres.conf").write_text("".join(f"Name=gpu Type=rtx4090 File={file}\n" for file in GPUS))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names or ("slurmctld", "slurmd"):
            with (self.root / f"{name}.out").open("ab") as out:
                self._processes[name] = subprocess.Popen(
                    [str(PROGRAMS[name]), "-D", "-f", str(self.conf)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
        until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T") or "mix" in self.run("sinfo", "-h", "-o", "%T"))

    def stop(self, *names: str) -> None:
        for name in names or ("slurmd", "slurmctld"):
            process = self._processes.pop(name, None)
            if process is not None:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait()

    def run(self, *words: str) -> str:
        """A command of the user's own; what it prints."""
        env = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.stdout

    def submit(self, partition: str, *words: str, run: str = "sleep 86400") -> str:
        """Another job of the user's; its id."""
        common = ("sbatch", "--parsable", f"--partition={partition}", "--output=/dev/null", f"--chdir={self.root}")
        return self.run(*common, *words, f"--wrap={run}").strip()

    def state(self, job_id: str) -> str:
        return self.run("squeue", "-h", "-j", job_id, "-t", "all", "-o", "%T").strip()

    def jobs(self) -> list[str]:
        """All that are not over."""
        return self.run("squeue", "-h", "-o", "%A").split()

    def settings(self, *partitions: str, **more: object) -> dict[str, object]:
        each = {"gpu": "RTX 4090", "vram_gb": 24, "gres": "gpu:rtx4090", **more}
        return {
            "slurm_conf": str(self.conf),
            "directory": str(self.root / "shared"),
            "partitions": {name: each for name in partitions},
        }

    def close(self) -> None:
        if "slurmctld" in self._processes:
            self.run("scancel", "--quiet", *self.jobs())
            until(lambda: not self.jobs(), "the end of all jobs", every_s=0.1)
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._end_the_rest()

    def _end_the_rest(self) -> None:
        """What a node leaves behind that was said to be down."""
        mark = f"SLURM_CONF={self.conf}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)


@contextmanager
def slurm_cluster(root: Path, grace_s: int = 60) -> Iterator[SlurmCluster]:
    """Its node is up."""
    made = SlurmCluster(root, grace_s)
    try:
        made.start()
        yield made
    finally:
        made.close()


def _free_ports(count: int) -> list[int]:
    with socket.socket() as one, socket.socket() as other:
        found = []
        for each in (one, other)[:count]:
            each.bind(("127.0.0.1", 0))
            found.append(each.getsockname()[1])
        return found
