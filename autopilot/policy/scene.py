"""What a decision saw and answered, for replays that must come out the same: one ``Scene`` per call of ``decide``."""

from __future__ import annotations

import enum
import inspect
import json
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from types import ModuleType

from autopilot.domain import (
    actions,
    after,
    array,
    cadence,
    code,
    floors,
    host,
    instance,
    job,
    lease,
    market,
    offer,
    outlook,
    params,
    reasons,
)
from autopilot.domain.actions import Decision
from autopilot.domain.codec import Codec
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.params import Params
from autopilot.pricing import pressure


@dataclass(frozen=True, slots=True)
class Scene:
    """The arguments of one ``decide`` and its answer."""

    job: Job
    market: Market
    now: datetime
    params: Params
    decision: Decision


def _values_of(module: ModuleType) -> list[type]:
    return [kind for _, kind in inspect.getmembers(module, inspect.isclass) if _is_value(kind)]


def _is_value(kind: type) -> bool:
    return is_dataclass(kind) or issubclass(kind, enum.Enum)


_CODEC = Codec(
    Scene,
    *{
        kind
        for module in (
            actions,
            after,
            cadence,
            array,
            pressure,
            code,
            floors,
            host,
            instance,
            job,
            lease,
            market,
            offer,
            outlook,
            params,
            reasons,
        )
        for kind in _values_of(module)
    },
)


def scene_to_json(scene: Scene) -> str:
    """One line of JSON; equal scenes give equal text."""
    return json.dumps(_CODEC.encode(scene), separators=(",", ":"), allow_nan=False)


def decision_to_json(decision: Decision) -> str:
    return json.dumps(_CODEC.encode(decision), separators=(",", ":"), allow_nan=False)


def scene_from_json(text: str) -> Scene:
    """Raises ``ValueError`` for anything but what ``scene_to_json`` of this version wrote."""
    try:
        scene = _CODEC.decode(json.loads(text))
    except (ArithmeticError, IndexError, KeyError, TypeError) as problem:
        raise ValueError(f"not a recorded scene: {problem}") from problem
    if not isinstance(scene, Scene):
        raise ValueError("not a recorded scene")
    return scene
