"""The states of the agent, their tables, and the values that go with them. Pure: no I/O and no clock.

Five small machines run side by side. Each table gives, by state and event, the next state; an event that a state
does not list changes nothing. ``moved`` is the only way along a table:

    life      SERVING ─expire─► EXPIRED ──quit──► QUITTING_EXPIRED      there is no way back to SERVING
                 └─quit─► QUITTING ──expire───────────▲
              SERVING, EXPIRED ─give_up─► GIVEN_UP ─quit─► QUITTING_GIVEN_UP

    process   NONE ─start─► RUNS ─term─► ENDING ─kill─► KILLED          ``setup`` or ``run``
               ▲─────────────┴─────end────┴───────────────┘

    disk      EMPTY ─restore─► RESTORED ─start─► IN_USE ─end──► UNSAVED   the job's files
               ▲ └────again─────▲                  ▲───restore───┤
               └───────────────────────────────────save──────────┘
                     (``renew``, for another task, leads from each to EMPTY)

    upload    NONE ─begin─► SENDING ─abandon─► ABANDONED                a checkpoint on its way
               ▲──────────────┴───────end──────────┘

    result    NONE ─end─► ENDED ─outputs─► OUTPUTS_SENT ─report─► REPORTED
               ▲            └────────────report──────────────────────▲  │
               └──────────────────start of a new run────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

AGENT_STATES = ("waiting", "restoring", "setting_up", "running", "saving", "finished", "expired", "left")
"""All that a heartbeat may say of its agent. The daemon knows the same words."""

NEXT_TASK = "next_task"
ABILITIES = ("run_again", NEXT_TASK, "exec", "exit_here")
"""What older agents cannot do. ``run_again``: take orders with a new run epoch after an exit. ``next_task``: take
orders for another task of the same array after one. ``exec``: run the commands that orders bring beside the job.
``exit_here``: say in the heartbeat how the command ended."""

SERVING, EXPIRED, QUITTING, QUITTING_EXPIRED = "serving", "expired", "quitting", "quitting_expired"
GIVEN_UP, QUITTING_GIVEN_UP = "given_up", "quitting_given_up"
LIFE: dict[str, dict[str, str]] = {
    SERVING: {"expire": EXPIRED, "quit": QUITTING, "give_up": GIVEN_UP},
    EXPIRED: {"quit": QUITTING_EXPIRED, "give_up": GIVEN_UP},
    QUITTING: {"expire": QUITTING_EXPIRED},
    QUITTING_EXPIRED: {},
    GIVEN_UP: {"quit": QUITTING_GIVEN_UP},
    QUITTING_GIVEN_UP: {},
}

NONE = "none"
RUNS, ENDING, KILLED = "runs", "ending", "killed"
PROCESS: dict[str, dict[str, str]] = {
    NONE: {"start": RUNS},
    RUNS: {"term": ENDING, "end": NONE},
    ENDING: {"kill": KILLED, "end": NONE},
    KILLED: {"end": NONE},
}

EMPTY, RESTORED, IN_USE, UNSAVED = "empty", "restored", "in_use", "unsaved"
DISK: dict[str, dict[str, str]] = {
    EMPTY: {"restore": RESTORED, "again": RESTORED, "start": IN_USE},  # for another attempt they stay as they lie
    RESTORED: {"start": IN_USE},
    IN_USE: {"end": UNSAVED, "save": RESTORED},
    UNSAVED: {"restore": IN_USE, "save": EMPTY},  # ordered to run before it had saved: it starts over
}
for _arrows in DISK.values():
    _arrows["renew"] = EMPTY

SENDING, ABANDONED = "sending", "abandoned"
UPLOAD: dict[str, dict[str, str]] = {
    NONE: {"begin": SENDING},
    SENDING: {"abandon": ABANDONED, "end": NONE},
    ABANDONED: {"end": NONE},
}

ENDED, OUTPUTS_SENT, REPORTED = "ended", "outputs_sent", "reported"
RESULT: dict[str, dict[str, str]] = {
    NONE: {"end": ENDED},
    ENDED: {"end": ENDED, "start": NONE, "outputs": OUTPUTS_SENT, "report": REPORTED},
    OUTPUTS_SENT: {"end": ENDED, "start": NONE, "report": REPORTED},
    REPORTED: {"end": ENDED, "start": NONE},
}


def move(table: dict[str, dict[str, str]], state: str, event: str) -> str:
    """The state after ``event``: the same one where the table has no such arrow."""
    return table[state].get(event, state)


@dataclass(frozen=True)
class Life:
    """``since`` is the time of the quit if there was one, else that of the expiry."""

    state: str = SERVING
    since: float = 0.0

    def move(self, event: str, now: float) -> Life:
        state = move(LIFE, self.state, event)
        return (
            Life(state, now if event == "quit" or self.state == SERVING else self.since)
            if state != self.state
            else self
        )

    @property
    def is_expired(self) -> bool:
        return self.state in (EXPIRED, QUITTING_EXPIRED)

    @property
    def is_given_up(self) -> bool:
        """Whether the machine is its user's from now on."""
        return self.state in (GIVEN_UP, QUITTING_GIVEN_UP)


@dataclass(frozen=True)
class Process:
    """The job's process. ``kind`` is ``setup``, ``run`` or, without one, empty."""

    kind: str = ""
    state: str = NONE
    stop_since: float = 0.0
    """When it was asked to end."""
    has_hung: bool = False
    """It was asked to end because it hung."""

    def move(self, event: str, **changes: Any) -> Process:
        return replace(self, state=move(PROCESS, self.state, event), **changes)

    @property
    def is_ending(self) -> bool:
        return self.state in (ENDING, KILLED)


@dataclass(frozen=True)
class Upload:
    """The checkpoint that is sent, or was sent last."""

    state: str = NONE
    is_final: bool = False
    """No process runs while it is taken."""
    ended_well: bool = False
    """The command has ended with code 0: what it has left is whole."""
    is_fresh: bool = True
    """A new copy of the files is taken; else the last whole one is sent."""
    whole_at: int = 0
    """When the job's files were whole, in ns; 0: the job does not say."""
    mark_before: int = 0
    """The mark that the upload before it took: it counts again if this one fails."""
    is_alone: bool = False
    """It must do with the addresses that are there."""
    kept: int = 0
    """Slots of the orders that it must leave alone."""

    def move(self, event: str) -> Upload:
        return replace(self, state=move(UPLOAD, self.state, event))


@dataclass(frozen=True)
class Claim:
    """The job's newest report of its progress, and the time of its last sign of life."""

    progress: Any
    at: float


@dataclass(frozen=True)
class Exit:
    """How the command ended: the exit record of the mailbox, and of the agent's own memory."""

    run_epoch: int
    exit_code: int
    signal: int | None
    reason: str
    finished_at: str
    has_saved: bool = True
    """It had made a checkpoint before."""
    memory: dict[str, int] | None = None
    """Peak and limit in bytes, where the kernel has killed for want of memory."""


@dataclass(frozen=True)
class Tries:
    """Consecutive failures of one task. ``in_vain`` counts those with new orders in between: the network works."""

    failures: int = 0
    in_vain: int = 0
    not_before: float = 0.0
