"""Requests to a cluster, as texts for a POSIX shell on a computer that has Slurm's commands. Pure.

A text is read by ``sh`` from its standard input, so that no login shell of the user's has anything to quote. Each
command is a *section* between two lines with a token that is not known before. Times are in seconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote

from autopilot.providers.slurm.config import PartitionSettings, SlurmSettings
from autopilot.providers.slurm.wire import ENDED, JOBS, MARK, NODES

NOTICE_S = 120
"""Before the time limit: ``--signal``."""
LABELLED = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_BEGIN = """\
export LC_ALL=C SLURM_TIME_FORMAT=%s
umask 077
[ "${HOME-}" ] || HOME=$(eval echo "~$(id -un)")
section() {
n=$1; shift
printf '\\n%s begin %s\\n' "$t" "$n"
"$@" </dev/null
printf '\\n%s end %s\\n' "$t" "$?"
}
"""


@dataclass(frozen=True, slots=True)
class Texts:
    """The files of a new lease."""

    lease: str
    lease_sh: str
    env_sh: str
    before_sh: str
    start_sh: str
    batch_sh: str
    watch_sh: str


def begin(settings: SlurmSettings, token: str) -> str:
    """What each request begins with. ``$d``: the directory."""
    directory = settings.directory
    place = f'"$HOME"{quote(directory[1:])}' if directory.startswith("~") else quote(directory)
    conf = f"export SLURM_CONF={quote(settings.slurm_conf)}\n" if settings.slurm_conf else ""
    return f"t={quote(token)}\n{conf}{_BEGIN}d={place}\n"


def look() -> str:
    """Sections ``user``, ``jobs``, ``leases``."""
    return f"""\
leases() {{
cd "$d/leases" 2>/dev/null || return 0
find . -mindepth 2 -maxdepth 2 -type f \\( -name lease -o -name job -o -name begun -o -name told -o -name ended \\) \
-exec grep -H -m1 '' {{}} + | grep -a '^\\./[A-Za-z0-9%_-]' | head -c 200000
return 0
}}
section leases leases
section user id -u
section jobs squeue -h -u "$(id -u)" -t all -o {quote(JOBS)}
"""


def look_at_partitions() -> str:
    """Sections ``nodes``, ``partitions``, ``config``, ``room`` (kB free below the directory)."""
    return f"""\
room() {{
p=$d
while [ ! -d "$p" ]; do p=${{p%/*}}; [ "$p" ] || p=/; done
df -Pk "$p"
}}
section nodes sinfo -h -o {quote(NODES)}
section partitions scontrol show partition -o
section config scontrol show config
section room room
"""


def ends(job_ids: Iterable[str]) -> str:
    """Section ``ends``: fails where the site keeps no accounts."""
    return f"section ends sacct -n -P -X -D -j {quote(','.join(job_ids))} -o {ENDED}\n"


def expect(job_ids: Iterable[str]) -> str:
    """Section ``expected``: when waiting jobs are thought to start."""
    return f"section expected squeue -h --start -j {quote(','.join(job_ids))} -o {quote(JOBS)}\n"


def options(partition: str, settings: PartitionSettings, name: str, num_gpus: int, limit_s: int | None) -> list[str]:
    """Of ``sbatch``."""
    given = {
        "job-name": name,
        "comment": MARK + name,
        "partition": partition,
        "gres": f"{settings.gres}:{num_gpus}",
        "cpus-per-task": settings.cpus,
        "mem": None if settings.memory_gb is None else f"{settings.memory_gb}G",
        "time": None if limit_s is None else -(-limit_s // 60),
        "account": settings.account,
        "qos": settings.qos,
    }
    own = [f"--{key}={value}" for key, value in given.items() if value not in (None, "")]
    return [
        *("--parsable", "--nodes=1", "--ntasks=1", "--requeue", "--open-mode=append", "--output=slurm.out"),
        *(f"--signal=B:USR1@{NOTICE_S}", "--export=NIL"),
        *own,
        *settings.extra,
    ]


def create(name: str, texts: Texts, words: list[str], token: str) -> str:
    """Sections ``make`` (status 3: the directory is there already), ``send`` and ``back``, each only after the other.

    The directory comes first, and can be made once: the job is sent by the request that made it, and by no other.
    """
    files = {
        "lease.sh": texts.lease_sh,
        "env.sh": texts.env_sh,
        "before.sh": texts.before_sh,
        "start.sh": texts.start_sh,
        "batch.sh": texts.batch_sh,
        "watch.sh": texts.watch_sh,
        "lease": texts.lease,
    }
    written = "".join(
        f"cat >{file} <<'{token}-text' || return 4\n{text}\n{token}-text\n" for file, text in files.items()
    )
    return f"""\
made= sent=
make() {{
mkdir -p "$d/leases" || return 4
mkdir "$d/leases/"{name} || return 3
cd "$d/leases/"{name} || return 4
mkdir root root/home root/tmp root/bin || return 4
{written}made=1
}}
send() {{
printf '#!/bin/sh\\ncd "%s" && exec /bin/sh ./batch.sh\\n' "$PWD" |
sbatch --chdir="$PWD" {" ".join(map(quote, words))} >submitted || return
cat submitted
sent=$(sed -n 's/^\\([0-9][0-9]*\\)\\(;.*\\)*$/\\1/p' submitted | tail -n 1)
echo "$sent" >job
}}
section make make
[ ! "$made" ] || section send send
[ ! "$sent" ] || section back squeue -h -j "$sent" -t all -o {quote(JOBS)}
"""


def remove(name: str) -> str:
    """Section ``gone``: the directory of a lease whose job is over, or was never made."""
    return f"""\
gone() {{
cd "$d/leases" 2>/dev/null || return 0
[ ! -d {name} ] || mv {name} .gone-{name} || return 4
rm -rf .gone-{name}
return 0
}}
section gone gone
"""


def cancel(job_id: str, user: str, name: str) -> str:
    """Section ``cancel``. ``scancel`` itself compares user and name: a job that has the id by now is left alone."""
    return f"section cancel scancel --user={quote(user)} --name={quote(name)} {quote(job_id)}\n"


def halt(job_id: str) -> str:
    """Section ``halt``: back into the queue, and held there."""
    return f"halt() {{ scontrol requeuehold {job_id} || scontrol hold {job_id}; }}\nsection halt halt\n"


def release(job_id: str) -> str:
    """Section ``release``. A requeued job waits two minutes by itself; this one was asked for now."""
    return (
        f"release() {{ scontrol release {job_id} && scontrol update JobId={job_id} StartTime=now; }}\n"
        "section release release\n"
    )


def words(name: str) -> str:
    """Section ``words``: the end of what Slurm and the agent have said."""
    return f"""\
words() {{
cd "$d/leases/"{name} || return 0
tail -q -c 4000 slurm.out words 2>/dev/null
return 0
}}
section words words
"""


def exports(env: Mapping[str, str]) -> str:
    return "".join(f"export {key}={quote(value)}\n" for key, value in env.items() if LABELLED.fullmatch(key))
