"""A recorded session taken again: every decision must come out as it was, byte by byte."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autopilot.domain.errors import UserError
from autopilot.policy.decide import decide
from autopilot.policy.scene import Scene, decision_to_json, scene_from_json


@dataclass(frozen=True, slots=True)
class Difference:
    number: int
    """Of the decision in the recording, from 1."""
    scene: Scene
    """As it was recorded."""
    recorded: str
    today: str
    """The decisions as JSON."""


@dataclass(frozen=True, slots=True)
class Replayed:
    decisions: int
    difference: Difference | None
    """The first decision that is another one today; those after it were not looked at."""


def replay(path: Path) -> Replayed:
    """Take each recorded decision again. Raises ``UserError`` for a file that is no recording of this version."""
    count = 0
    for count, scene in enumerate(_scenes(path), 1):
        today = decision_to_json(decide(scene.job, scene.market, scene.now, scene.params))
        recorded = decision_to_json(scene.decision)
        if recorded != today:
            return Replayed(count, Difference(count, scene, recorded, today))
    return Replayed(count, None)


def _scenes(path: Path) -> Iterator[Scene]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield scene_from_json(line)
    except EOFError:
        return  # the daemon was killed while it wrote: what came before is whole
    except gzip.BadGzipFile as problem:
        raise _no_recording(path, problem) from None
    except OSError as problem:
        raise UserError(
            f"cannot read {path}: {problem.strerror or problem}", hint="give a file made by autopilot serve --record"
        ) from None
    except (ValueError, zlib.error) as problem:
        raise _no_recording(path, problem) from None


def _no_recording(path: Path, problem: Exception) -> UserError:
    return UserError(f"{path} is not a recording of this version: {problem}")
