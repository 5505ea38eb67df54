"""What the daemon writes for an agent: its orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autopilot.mailbox.wire import dump

Role = Literal["wait", "run", "save_and_stop", "leave"]


@dataclass(frozen=True)
class Work:
    """What the job runs; ``checkpoint_path`` (file, directory or pattern) is relative to ``workdir``. Empty means none.

    ``progress`` says how to read it from the output: a regular expression or ``json``; empty: not at all. Without any
    for ``stall_s`` the command has hung (0: it never has) and is ended as failed if ``stall_fails``; of a command that
    never says any, the GPUs must have worked.

    ``estimate_s`` is how long it takes without interruptions, None when the job does not say; only simulated work
    goes by it.
    """

    run: str
    setup: str = ""
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint_path: str = ""
    estimate_s: int | None = None
    progress: str = ""
    stall_s: int = 0
    stall_fails: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    """File beneath ``workdir`` → address that it is fetched from before anything runs."""
    outputs: tuple[str, ...] = ()
    """Paths or patterns beneath ``workdir`` that are kept when the command has ended well."""
    as_root: bool = False
    """``run`` must not be given a user of its own."""
    in_bash: bool = False
    """``run`` and ``setup`` are for bash with ``pipefail``; an image without it runs them by sh."""


@dataclass(frozen=True)
class RestoreUrls:
    """Where the newest verified checkpoint can be read: its manifest, and its parts from ``first_part`` on."""

    lease: str
    number: int
    manifest_url: str
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class LeftUrls:
    """Where the outputs of ``job``'s run ``number`` can be read: their manifest, and parts from ``first_part`` on.

    What they hold at ``left_at`` is to lie at ``path``, which is beneath ``workdir``, before anything runs.
    """

    path: str
    left_at: str
    job: str
    number: int
    manifest_url: str
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class CodeUrls:
    """Where the job's copy of code can be read: part 0, the index that has this size and hash, and those after it."""

    sha256: str
    size: int
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class LogUrl:
    boot: int
    number: int
    url: str


@dataclass(frozen=True)
class CheckpointUrls:
    """Where checkpoint ``number`` may be written: its manifest, and its parts from ``first_part`` on."""

    number: int
    manifest_url: str
    first_part: int
    part_urls: tuple[str, ...]


@dataclass(frozen=True)
class PutUrls:
    heartbeat: str
    exit: str
    log: tuple[LogUrl, ...]
    ckpt: tuple[CheckpointUrls, ...]
    out: CheckpointUrls
    """For the outputs of the current run; ``number`` is its epoch."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Go with every PUT."""


@dataclass(frozen=True)
class ExecOrder:
    """A command of the user's to be run once, beside the job, for ``timeout_s`` real seconds at most.

    ``issued_at``: by the daemon's wall clock, in seconds since 1970. The answer (``exec_answers``) is PUT to ``url``.
    """

    id: str
    command: str
    timeout_s: int
    issued_at: int
    url: str


@dataclass(frozen=True)
class CheckOrder:
    """What the check on arrival is to look at, within ``most_s``."""

    most_s: int
    hosts: tuple[str, ...]
    """Those that the job names, each with its port unless that is 443."""
    put_url: str
    get_url: str
    """For an object that is sent to the store and fetched again."""


@dataclass(frozen=True)
class HostPlan:
    """What a virtual machine is to bring up before its agent can read the rest of the orders."""

    container: str
    """Its name: another lease's container has another one."""
    image: str
    start: str
    """The start command, run by ``/bin/sh`` in the image."""
    num_gpus: int
    report_url: str
    """Takes ``HostReport`` by PUT."""
    needs_login: bool = False
    """The image is given out to a login only."""
    login_url: str = ""
    """Where the login is to be had; empty until the machine has said that it wants it."""
    env: Mapping[str, str] = field(default_factory=dict)
    """For the agent, beside what the image and the start command set. No secret is in it."""
    boot_s: int = 1200
    """Market seconds until the container must run."""


@dataclass(frozen=True)
class Orders:
    """What the agent shall do now. A higher ``seq`` than it has seen renews its permit for ``permit_ttl_s``."""

    lease: str
    instance: str
    """The market's id of the machine that is meant; empty: not known yet. Any other one is there by mistake."""
    run_epoch: int
    seq: int
    permit_ttl_s: int
    role: Role
    checkpoint_interval_s: int
    work: Work
    restore: RestoreUrls | None
    put_urls: PutUrls
    next_orders_url: str
    code: CodeUrls | None = None
    """What is to be in the work directory before anything runs there. Agents of older versions do not know it."""
    grant: Mapping[str, str | int] | None = None
    """Keys for parts beneath ``jobs/<job>``: those of ``blobs.Grant``, and ``place``, which is that prefix."""
    exec: ExecOrder | None = None
    """Only for agents that say ``wire.EXEC``."""
    check: CheckOrder | None = None
    """None: it was made, or none is due. Agents of older versions do not know it."""
    left: tuple[LeftUrls, ...] = ()
    """Agents of older versions do not know it; jobs that they were rented for take nothing of others."""
    host: HostPlan | None = None
    """Only where the market boots virtual machines; for the host program, not for the agent."""
    job: str = ""
    """Whose work this is. Another one than before: all that the one before left in the work directory is to go. Only
    agents that say ``wire.NEXT_TASK`` meet that."""

    def to_json(self) -> bytes:
        return dump(self)
