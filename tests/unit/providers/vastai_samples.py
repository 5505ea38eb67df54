"""The market's bodies as recorded, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autopilot.providers import values

ASSETS = Path(__file__).parents[2] / "assets" / "vastai"


def body(name: str) -> Any:
    return values.decode((ASSETS / f"{name}.json").read_text())


def text(name: str) -> str:
    return (ASSETS / f"{name}.json").read_text()


def errors() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((ASSETS / "errors.json").read_text())
    return loaded
