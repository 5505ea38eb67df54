"""What an agent writes for the daemon: heartbeats, exit records, and manifests of checkpoints. They are claims."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.domain.agent_state import AgentState
from autopilot.domain.readings import Readings
from autopilot.mailbox.keys import lease_prefix
from autopilot.mailbox.wire import dump

TAKEN_BY_HOST = frozenset({9, 15})
"""SIGKILL and SIGTERM, when the agent sent none: the host was short of memory, or ended what runs there."""
NOT_FETCHED = frozenset({"inputs_failed", "restore_failed"})


@dataclass(frozen=True)
class SshLogin:
    """Where the user's key opens the machine, by the machine's word; ``fault``: why nowhere, else empty."""

    host: str = ""
    """An IP address."""
    port: int = 0
    user: str = ""
    fault: str = ""


TAKE_AWAYS = ("preempt", "relocate", "rebalance", "stop")


@dataclass(frozen=True)
class TakeAway:
    """A notice of the market's, as the machine has it: it may yet be withdrawn."""

    kind: str
    """One of ``TAKE_AWAYS``."""
    ends_at: str
    """In the host's words."""


@dataclass(frozen=True)
class MemoryUse:
    """Of a machine, or of the share of it that was rented, in bytes."""

    peak: int
    limit: int


@dataclass(frozen=True)
class ExitRecord:
    """How the job's command ended. ``signal`` is the number that killed it; ``finished_at`` is the host's clock."""

    run_epoch: int
    exit_code: int
    signal: int | None = None
    reason: str = ""
    finished_at: str = ""
    has_saved: bool | None = None
    """It had made a checkpoint before; None: an agent of an older version."""

    memory: MemoryUse | None = None
    """Where the kernel has killed for want of memory."""

    @property
    def is_of_command(self) -> bool:
        """Whether the command itself has ended, and not what comes before it."""
        return self.reason in ("exited", "stalled")

    @property
    def is_syntax(self) -> bool:
        """Whether a shell cannot read it: no other machine's can either, and nothing was run."""
        return self.reason == "syntax"

    @property
    def is_of_host(self) -> bool:
        """Whether it failed by its machine: the same command may do well on another one."""
        was_killed = self.signal in TAKEN_BY_HOST and self.reason != "stalled"
        return was_killed or self.reason in NOT_FETCHED

    def to_json(self) -> bytes:
        return dump(self)


@dataclass(frozen=True)
class Heartbeat:
    """What the agent says of itself: claims. ``boot`` counts from 1; (``boot``, ``seq``) only rises.

    ``last_checkpoint`` is the newest checkpoint whose manifest this machine has written, ``next_checkpoint`` and
    ``next_log`` the numbers for which it needs URLs next: ``parts_wanted`` parts of that checkpoint from
    ``next_part`` on, and to restore one its parts from ``restore_part`` on. ``saved``: its work is stopped and
    nothing is left to upload (believe it only with ``orders_seq_seen`` at or after the orders that said
    ``save_and_stop``). ``save_s`` and ``upload_s`` are the market seconds that its last checkpoint took to be copied
    and to be sent.
    """

    boot: int
    seq: int
    run_epoch: int
    orders_seq_seen: int
    state: AgentState
    saved: bool = False
    step: int | None = None
    progress: float | None = None
    last_checkpoint: int | None = None
    next_checkpoint: int = 0
    next_part: int = 0
    parts_wanted: int = 0
    whole_parts: int = 0
    """Parts of its last checkpoint, including those that were there already; 0: unknown, or not reported."""
    save_s: float | None = None
    upload_s: float | None = None
    restore_part: int = 0
    restore_failed: bool = False
    """What it was to restore was not what its manifest says."""
    left: int = 0
    """Which of the things that other jobs have left it fetches, counted from 0."""
    left_part: int = 0
    """The lowest part of that which it still needs."""
    restored: tuple[int, int] | None = None
    """Run epoch and number of the checkpoint that the present run began from; None: of none, or an agent of an older
    version."""
    next_log: int = 0
    bytes_sent: int = 0
    can: tuple[str, ...] = ()
    """What agents of older versions cannot do, such as ``wire.RUN_AGAIN``."""
    error: str = ""
    readings: Readings | None = None
    """None: an agent of an older version, or one that has read nothing yet."""
    ssh: SshLogin | None = None
    """None: an agent of an older version, no key in its orders, or a server that does not run yet."""
    notice: TakeAway | None = None
    """None: no preemption is announced, or its market gives no notice."""
    exit: ExitRecord | None = None
    """How the command ended, once all that it left is sent. Agents of older versions put it into an object of its own;
    ``wire.EXIT_HERE`` tells them apart."""

    def to_json(self) -> bytes:
        return dump(self)


HOST_STATES = ("preparing", "pulling", "starting", "running", "stopping", "failed")
HOST_FAULTS = (
    "no_docker",
    "no_gpu",
    "registry_denied",
    "image_missing",
    "disk_full",
    "pull_failed",
    "boot_too_slow",
    "container_refused",
    "container_exit",
)
"""Why a virtual machine could not bring its container up, or keep it."""


@dataclass(frozen=True)
class HostReport:
    """What the host program of a virtual machine says of it: claims. (``boot``, ``seq``) only rises."""

    boot: int
    seq: int
    state: str
    """One of ``HOST_STATES``."""
    fault: str = ""
    """One of ``HOST_FAULTS``; empty if nothing is wrong."""
    detail: str = ""
    """For people."""
    wants_login: bool = False

    def to_json(self) -> bytes:
        return dump(self)


@dataclass(frozen=True)
class Part:
    """``key`` is ``part-<i>`` for one of the checkpoint's own, else ``<lease>/ckpt/<n>/part-<i>``.

    ``size`` and ``sha256`` are of the object as it is stored. Where ``content_sha256`` is set that is zstd, and these
    are of what comes out of it.
    """

    key: str
    size: int
    sha256: str
    content_size: int | None = None
    content_sha256: str | None = None


@dataclass(frozen=True)
class Manifest:
    """A complete checkpoint: an index and the parts that it speaks of, which may be those of older checkpoints.

    The newest is the one with the highest (``run_epoch``, ``number``).
    """

    run_epoch: int
    number: int
    parts: tuple[Part, ...]
    step: int | None = None
    suspect: bool = False
    """It was copied while files of it may have been half written. Agents of older versions do not say so."""

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return sum(part.size for part in self.parts)

    @property
    def content_size(self) -> int:
        """Bytes of what comes out of its parts."""
        return sum(part.size if part.content_size is None else part.content_size for part in self.parts)

    def part_keys(self, job_id: str, lease_id: str) -> tuple[str, ...]:
        """The blobs of its parts, in order, when it lies beneath that lease."""
        own = f"{lease_prefix(job_id, lease_id)}/ckpt/{self.number}"
        return tuple(f"jobs/{job_id}/{part.key}" if "/" in part.key else f"{own}/{part.key}" for part in self.parts)

    def to_json(self) -> bytes:
        return dump(self)
