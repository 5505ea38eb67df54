"""What a rehearsal has seen of a program. Values alone; seconds are real ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LossKind(StrEnum):
    TERM = "term"
    """SIGTERM, and SIGKILL five seconds later."""
    KILL = "kill"
    """SIGKILL at a random moment."""
    MID_SAVE = "mid_save"
    """SIGKILL while a file of the checkpoint was being written."""


@dataclass(frozen=True, slots=True)
class Loss:
    """How a run was ended, and which disk the next one has."""

    kind: LossKind
    keeps_disk: bool


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the output that tells a step, and maybe its loss."""

    step: int
    loss: float | None = None
    at: float = 0.0
    """When, in seconds of the wall clock."""


@dataclass(frozen=True, slots=True)
class TermSave:
    """What a program did from SIGTERM to its end."""

    has_saved: bool
    took_s: float
    was_killed: bool
    """It had not ended when the market's time was over."""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One start of the program, up to its end or its loss."""

    said: tuple[Said, ...]
    took_s: float
    exit_code: int | None = None
    """None: it was taken away, or stopped because its time was over."""
    lost_by: Loss | None = None
    restored: bool = False
    """It began with a checkpoint, of the store or of its own disk."""
    saves: int = 0
    """Times that something new lay at the checkpoint path."""
    term: TermSave | None = None
    saved_step: int | None = None
    """The step that was told last when what it began with was saved; None: unknown."""
    output: str = ""
    """The last of what it printed."""

    @property
    def first_step(self) -> int | None:
        return self.said[0].step if self.said else None

    @property
    def last_step(self) -> int | None:
        return max((said.step for said in self.said), default=None)

    @property
    def losses(self) -> dict[int, float]:
        return {said.step: said.loss for said in self.said if said.loss is not None}


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """Zero: not seen."""

    bytes: int = 0
    save_s: float = 0.0
    """The longest time that a save was seen to write."""
    interval_s: float = 0.0
    """Between two saves, as a rule."""
    interval_steps: float = 0.0
    """The same in steps that were told."""


@dataclass(frozen=True, slots=True)
class RehearsalSeen:
    """``whole``: up to two runs that nothing interrupted. ``course``: those that did lose machines, in their order."""

    whole: tuple[SeenRun, ...]
    course: tuple[SeenRun, ...]
    checkpoint: SeenCheckpoint = SeenCheckpoint()
    verified: int = 0
    """Checkpoints that were uploaded and verified."""
    in_place: str = ""
    """A file of which nothing is whole while it is saved, and how; empty: none was seen."""
    reports_saves: bool = False
    """The program says itself when a save is whole."""
    counts_on_term: bool = False
    """Its source speaks of SIGTERM, or of the agent's request to save."""
    overwritten: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    promised: tuple[Loss, ...] = ()
    """What the rehearsal was asked to do."""
    framework: str = ""
    memory_bytes: int = 0
    output_bytes: int = 0
    not_reached: tuple[str, ...] = ()
    not_isolated: tuple[str, ...] = ()
