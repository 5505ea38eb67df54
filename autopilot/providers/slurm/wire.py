"""What Slurm's commands print → records. A cluster may print anything: all is bounded and of its type, or is no answer.

Every format is spelt out: what the commands print by themselves, and as JSON, differs by version and by site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import quote, unquote

MOST_ANSWER = 512 * 1024
"""Bytes, with what a login prints before it."""
MOST_ROWS = 5000
MOST_LEASES = 256
MOST_TEXT = 300
UNLIMITED = ("UNLIMITED", "infinite", "INFINITE", "NONE", "Partition_Limit", "NOT_SET", "INVALID", "n/a", "N/A")
JOBS = "J|%A|%U|%T|%r|%P|%V|%S|%e|%N|%j|%k|E"
"""Of ``squeue``: id, user's id, state, reason, partition, times of submission, start and end, nodes, name, comment."""
NODES = "S|%R|%a|%c|%m|%T|%D|%G|E"
"""Of ``sinfo``: partition, whether it is up, processors and MB of a node, state of the nodes, their number, GRES."""
ENDED = "JobIDRaw,State,ExitCode,Start,End"
"""Of ``sacct``."""
NAME = re.compile(r"[A-Za-z0-9._%-]{1,200}", re.ASCII)
MARK = "autopilot "
"""What a job's comment begins with; the job's name follows."""
_JOB = re.compile(
    r"J\|(?P<id>\d{1,10})\|(?P<user>\d{1,10})\|(?P<state>[A-Z_]{1,40})\|(?P<reason>[^|]{0,300})"
    r"\|(?P<partition>[^|]{0,200})\|(?P<sent>[^|]{0,20})\|(?P<start>[^|]{0,20})\|(?P<end>[^|]{0,20})"
    r"\|(?P<nodes>[^|]{0,4000})\|(?P<rest>.*)\|E",
    re.ASCII | re.DOTALL,
)
_NODE = re.compile(
    r"S\|(?P<partition>[^|]{1,200})\|(?P<up>[a-z]{1,10})\|(?P<cpus>\d{1,6})\+?\|(?P<mb>\d{1,10})\+?"
    r"\|(?P<state>[^|]{1,60})\|(?P<count>\d{1,7})\|(?P<gres>[^|]{0,4000})\|E",
    re.ASCII,
)
_SPAN = re.compile(r"(?:(\d{1,4})-)?(?:(\d{1,3}):)?(\d{1,4}):(\d{2})", re.ASCII)
_GRES = re.compile(r"([A-Za-z0-9_]{1,64})(?::([A-Za-z0-9_.-]{1,64}?))?:(\d{1,4})(?:\([^()]{0,400}\))?", re.ASCII)
_ENDED_BY = re.compile(r"CANCELLED by (\S{1,64})", re.ASCII)
_FILE = re.compile(r"\./([A-Za-z0-9._%-]{1,200})/([a-z]{1,10}):(.*)", re.ASCII)


class UnreadableOutput(ValueError):
    """An answer that is none."""


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job of the queue that carries autopilot's mark."""

    job_id: str
    user: str
    name: str
    state: str
    reason: str
    partition: str
    starts_at: datetime | None
    """Expected, while it waits."""
    ends_at: datetime | None
    nodes: str

    @property
    def label(self) -> str:
        return unquote(self.name)


@dataclass(frozen=True, slots=True)
class SeenLease:
    """What lies in a lease's directory."""

    name: str
    job_id: str
    """Empty: no job has been made, as far as is known."""
    gpu: str
    num_gpus: int
    price: Decimal
    partition: str
    begun: int
    """How often the job has started."""
    notice: str
    """Which one the agent had last in this run, or in the last one."""
    ended: str
    """Why the batch script has ended by itself; empty: it has not."""

    @property
    def label(self) -> str:
        return unquote(self.name)


@dataclass(frozen=True, slots=True)
class SeenPartition:
    is_up: bool
    """Whether it takes jobs and has a node that may come up."""
    idle: int
    """Nodes with nothing on them."""
    gres: Mapping[str, int]
    """Most on one node, by ``name`` and by ``name:type``."""
    limit_s: int | None
    """Longest run; None: any."""
    grace_s: int
    is_preemptible: bool


@dataclass(frozen=True, slots=True)
class SeenEnd:
    """A job in the accounting's record."""

    state: str
    cancelled_by: str
    ended_at: datetime | None


def name_of(label: str) -> str:
    """The job's name, which is the name of the lease's directory: the label, where that may be one."""
    name = quote(label, safe="").replace("~", "%7E")
    return "%2E" + name[1:] if name.startswith(".") else name


def read_sections(said: str, token: str, wanted: tuple[str, ...]) -> dict[str, tuple[str, int]]:
    """Text and exit status of each. Raises ``UnreadableOutput``: one is missing, is there twice, or is cut."""
    found: dict[str, tuple[str, int]] = {}
    for part in said.split(f"\n{token} begin ")[1:]:
        name, _, rest = part.partition("\n")
        text, mark, status = rest.rpartition(f"\n{token} end ")
        status = status.split("\n")[0]
        if not mark or name in found or not re.fullmatch(r"\d{1,3}", status, re.ASCII):
            raise UnreadableOutput("its answer is cut off")
        found[name] = text, int(status)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise UnreadableOutput(f"its answer has no {missing[0]}")
    return found


def read_jobs(text: str) -> tuple[SeenJob, ...]:
    """Those with autopilot's mark, of all the user's. Raises ``UnreadableOutput``.

    A name or a comment of the user's own jobs may hold separators and several lines.
    """
    found = {}
    for row in _rows(text, "J|"):
        match = _JOB.fullmatch(row)
        if match is None:
            raise UnreadableOutput("a row of squeue cannot be read")
        name, _, comment = match["rest"].partition("|")
        if comment != MARK + name or NAME.fullmatch(name) is None:
            continue
        if match["id"] in found:
            raise UnreadableOutput("squeue names a job twice")
        found[match["id"]] = SeenJob(
            job_id=match["id"],
            user=match["user"],
            name=name,
            state=match["state"],
            reason=clean(match["reason"]),
            partition=match["partition"],
            starts_at=read_time(match["start"]),
            ends_at=read_time(match["end"]),
            nodes=clean(match["nodes"]),
        )
    return tuple(found.values())


def _rows(text: str, begins: str) -> Iterator[str]:
    """A row ends with ``|E`` at the end of a line. Raises ``UnreadableOutput``."""
    row, count = "", 0
    for line in text.split("\n"):
        if not row and not line:
            continue
        if not row and not line.startswith(begins):
            raise UnreadableOutput("between the rows there is something else")
        row = f"{row}\n{line}" if row else line
        if row.endswith("|E"):
            count += 1
            if count > MOST_ROWS:
                raise UnreadableOutput(f"there are more than {MOST_ROWS} rows")
            yield row
            row = ""
    if row:
        raise UnreadableOutput("the last row is cut off")


def read_leases(text: str) -> tuple[SeenLease, ...]:
    """Of lines ``./NAME/FILE:TEXT``, by ``grep``. Raises ``UnreadableOutput``."""
    files: dict[str, dict[str, str]] = {}
    for line in filter(None, text.split("\n")):
        match = _FILE.fullmatch(line)
        if match is None:
            raise UnreadableOutput("a line about the leases cannot be read")
        files.setdefault(match[1], {}).setdefault(match[2], match[3])
    if len(files) > MOST_LEASES:
        raise UnreadableOutput(f"there are {len(files)} leases, more than the {MOST_LEASES} that are read")
    return tuple(_lease(name, each) for name, each in sorted(files.items()) if "lease" in each)


def _lease(name: str, files: Mapping[str, str]) -> SeenLease:
    match = re.fullmatch(r"([^|]{1,60})\|(\d{1,2})\|(\d{1,4}(?:\.\d{1,9})?)\|([^|]{1,64})", files["lease"], re.ASCII)
    if match is None:
        raise UnreadableOutput("a lease's record cannot be read")
    job, begun = files.get("job", ""), files.get("begun", "0")
    return SeenLease(
        name=name,
        job_id=job if re.fullmatch(r"\d{1,10}", job, re.ASCII) else "",
        gpu=match[1],
        num_gpus=int(match[2]),
        price=Decimal(match[3]),
        partition=match[4],
        begun=int(begun) if re.fullmatch(r"\d{1,6}", begun, re.ASCII) else 0,
        notice=clean(files.get("told", ""))[:20],
        ended=clean(files.get("ended", ""))[:20],
    )


def read_partitions(nodes: str, partitions: str, config: str) -> dict[str, SeenPartition]:
    """Of ``sinfo``, ``scontrol show partition -o`` and ``scontrol show config``. Raises ``UnreadableOutput``."""
    limits = {}
    for line in partitions.split("\n")[:MOST_ROWS]:
        told = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "PartitionName" in told:
            limits[told["PartitionName"]] = told
    preempts = read_config(config).get("PreemptType", "preempt/none") != "preempt/none"
    found: dict[str, SeenPartition] = {}
    for row in _rows(nodes, "S|"):
        match = _NODE.fullmatch(row)
        if match is None:
            raise UnreadableOutput("a row of sinfo cannot be read")
        name = match["partition"]
        told = limits.get(name, {})
        before = found.get(name)
        state = match["state"].rstrip("*~#!%$@^-+").lower()
        is_able = match["up"] == "up" and not state.startswith(("down", "drain", "fail", "maint", "inval"))
        found[name] = SeenPartition(
            is_up=is_able or (before is not None and before.is_up),
            idle=(int(match["count"]) if state == "idle" else 0) + (before.idle if before else 0),
            gres=_most(before.gres if before else {}, read_gres(match["gres"])),
            limit_s=read_span(told.get("MaxTime", "")),
            grace_s=min(_whole(told.get("GraceTime", "0")), 86400),
            is_preemptible=preempts and told.get("PreemptMode", "OFF") not in ("OFF", "N/A"),
        )
    return found


def read_config(text: str) -> dict[str, str]:
    """``KEY = VALUE`` of ``scontrol show config``."""
    pairs = (line.partition("=") for line in text.split("\n")[:MOST_ROWS])
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def read_gres(text: str) -> dict[str, int]:
    """``gpu:a100:4(S:0-1),gpu:v100:2`` → counts by name, and by name with type."""
    found: dict[str, int] = {}
    for match in _GRES.finditer(text):
        for key in {match[1], f"{match[1]}:{match[2]}" if match[2] else match[1]}:
            found[key] = found.get(key, 0) + int(match[3])
    return found


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {*one, *other}}


def read_span(text: str) -> int | None:
    """``[D-][HH:]MM:SS`` in seconds; None: no limit, or none that can be read."""
    match = _SPAN.fullmatch(text)
    if text in UNLIMITED or match is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def read_time(text: str) -> datetime | None:
    """Seconds since the epoch, as ``SLURM_TIME_FORMAT=%s`` has them; None: not known."""
    if not re.fullmatch(r"\d{9,11}", text, re.ASCII):
        return None
    return datetime.fromtimestamp(int(text), UTC)


def read_ends(text: str) -> dict[str, SeenEnd]:
    """Of ``sacct -P``, by job id: the newest row of each counts."""
    found = {}
    for line in text.split("\n")[:MOST_ROWS]:
        cells = line.split("|")
        if len(cells) == len(ENDED.split(",")) and re.fullmatch(r"\d{1,10}", cells[0], re.ASCII):
            by = _ENDED_BY.match(cells[1])
            state = re.match(r"[A-Z_]{1,40}", cells[1])
            if state is not None:
                found[cells[0]] = SeenEnd(state[0], clean(by[1]) if by else "", read_time(cells[4]))
    return found


def read_submitted(text: str) -> str | None:
    """The job's id, of ``sbatch --parsable``: alone or before ``;CLUSTER``. None: there is none."""
    found = re.findall(r"^(\d{1,10})(?:;[A-Za-z0-9_.-]{1,100})?$", text.strip(), re.MULTILINE | re.ASCII)
    return found[-1] if found else None


def clean(text: object) -> str:
    """Of one line, printable, and short."""
    return "".join(each for each in str(text)[:MOST_TEXT] if each.isprintable())


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
