"""What a demo is made of: a story of acts. Each act waits for the job to work, strikes, and expects an answer.

An answer is a sequence of ledger events of the daemon; the demo fails if one of them never comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from autopilot.cli.client import Json


class Stage(Protocol):
    """Where a story is played: the control API of its markets."""

    def emu(self, name: str, body: Json | None = None, method: str | None = None) -> Any:
        """POST with a body, GET without, or by ``method``. Raises ``UserError``."""
        ...


@dataclass(frozen=True)
class Act:
    """``name``: the blow in a word or two. ``title``: what happens, in a sentence."""

    name: str
    title: str
    strike: Callable[[Stage, Json], None]
    """Called with the lease of the machine that works."""
    answer: tuple[str, ...]
    """Names of events that must follow the strike, in this order."""


@dataclass(frozen=True)
class Struck:
    """An act that was begun. ``at``: in market time. ``step``: of the job at that moment, as its agent had said."""

    act: Act
    at: datetime
    step: int


@dataclass(frozen=True)
class DemoEnd:
    """What a check looks at. ``body``: the job at its end, as ``GET /v1/jobs/{ref}`` gives it."""

    stage: Stage
    body: Json
    struck: tuple[Struck, ...]


@dataclass(frozen=True)
class DemoCheck:
    what: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class Story:
    """All that a demo is. The theatre has no part in it: it plays any."""

    markets: tuple[str, ...]
    job: str
    """Name of the job file among those that are shipped."""
    speed: float
    """Market seconds a second."""
    set_stage: Callable[[Stage], None]
    """The markets as they are before the job is submitted."""
    acts: tuple[Act, ...]
    checks: tuple[Callable[[DemoEnd], DemoCheck], ...]
    """Those of this story alone, beside those of every story."""
    extra: str | None = None
    """Of ours, which has the same name as the package that it brings: one of the markets needs it."""


class Script:
    """Plays the acts one after the other as the job's state allows."""

    def __init__(self, stage: Stage, acts: tuple[Act, ...]) -> None:
        self._stage = stage
        self._acts = acts
        self.struck: tuple[Struck, ...] = ()
        """The acts that were begun, in order."""
        self._seq_at_strike = 0
        self._checkpoint_at_strike: tuple[object, ...] = ()

    @property
    def is_over(self) -> bool:
        return len(self.struck) == len(self._acts)

    def play(self, body: Json, now: datetime) -> Act | None:
        """Look at the job (``GET /v1/jobs/{ref}``) and strike if it is time; returns the act that was begun."""
        if self.is_over or not self.is_answered(body) or not self._is_at_work_with_new_checkpoint(body):
            return None
        act = self._acts[len(self.struck)]
        act.strike(self._stage, body["job"]["main"])
        self.struck = (*self.struck, Struck(act, now, body["job"]["step"]))
        self._seq_at_strike = max((event["seq"] for event in body["events"]), default=0)
        self._checkpoint_at_strike = _checkpoint(body)
        return act

    def is_answered(self, body: Json) -> bool:
        """Whether the act struck last has had its whole answer."""
        if not self.struck:
            return True
        names = iter(event["name"] for event in body["events"] if event["seq"] > self._seq_at_strike)
        return all(expected in names for expected in self.struck[-1].act.answer)

    def _is_at_work_with_new_checkpoint(self, body: Json) -> bool:
        job = body["job"]
        at_work = job["status"] == "running" and job["main"] is not None and job["main"]["agent_state"] == "running"
        return at_work and job["checkpoint"] is not None and _checkpoint(body) != self._checkpoint_at_strike


def _checkpoint(body: Json) -> tuple[object, ...]:
    checkpoint = body["job"]["checkpoint"]
    return (checkpoint["lease_id"], checkpoint["number"]) if checkpoint else ()
