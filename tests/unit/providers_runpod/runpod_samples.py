"""The market's bodies as recorded, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autopilot.providers import values
from autopilot.providers.reading import Reply
from autopilot.providers.runpod.reply import Answer, understand

ASSETS = Path(__file__).parents[2] / "assets" / "runpod"


def text(name: str) -> str:
    return (ASSETS / f"{name}.json").read_text()


def body(name: str) -> Any:
    return values.decode(text(name))


def answer(name: str, status: int = 200, retry_after: str | None = None) -> Answer:
    return understand(Reply(status, text(name), retry_after))
