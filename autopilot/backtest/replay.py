"""A recorded session taken again: every decision must come out as it was, byte by byte."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autopilot.domain.errors import UserError
from autopilot.policy.decide import decide
from autopilot.ports.recording import Scene, scene_from_json, scene_to_json


@dataclass(frozen=True, slots=True)
class Replayed:
    decisions: int
    differing: tuple[tuple[int, str, str], ...]
    """(number of the line, recorded scene, scene with today's decision), the first few."""


SHOWN = 5


def replay(path: Path) -> Replayed:
    """Take each recorded decision again. Raises ``UserError`` for a file that is no recording of this version."""
    count = 0
    differing: list[tuple[int, str, str]] = []
    for number, scene in _scenes(path):
        count += 1
        again = replace(scene, decision=decide(scene.job, scene.market, scene.now, scene.params))
        recorded, today = scene_to_json(scene), scene_to_json(again)
        if recorded != today and len(differing) < SHOWN:
            differing.append((number, recorded, today))
    return Replayed(count, tuple(differing))


def _scenes(path: Path) -> Iterator[tuple[int, Scene]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield number, scene_from_json(line)
    except EOFError:
        return  # the daemon was killed while it wrote: what came before is whole
    except (ValueError, zlib.error) as problem:
        raise UserError(f"{path} is not a recording of this version: {problem}") from None
    except OSError as problem:
        raise UserError(
            f"cannot read {path}: {problem.strerror or problem}", hint="give a file made by --record"
        ) from None
