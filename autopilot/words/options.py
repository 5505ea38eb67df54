"""The options that a decision weighed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.words import text

OPTION = "option"
"""Topic of the notes that weigh one option."""
EXPECTED_COST = (
    "Expected cost: dollars from now to the job's end, with interruptions and repeated work. AT: price per hour."
)
REFUSALS = {
    "small_saving": "saves too little to be worth the change",
    "little_slack": "cheaper, but there is too little time for another loss",
    "just_started": "cheaper, but the machine has only just started",
    "not_ready": "cheaper, but the machine is not at work yet",
    "no_estimate": "cheaper per hour; how much work is left is not known",
}
"""Why an option is not taken, where its key alone does not say it."""


def tell_option(option: Mapping[str, Any]) -> tuple[str, ...]:
    refused = option.get("refused")
    answer = f"refused: {REFUSALS.get(str(refused), text.words(refused))}" if refused else ""
    return (
        f"  {text.plain(option['option']).replace('_', ' ')}",
        text.money(option.get("cost"), 4),
        text.per_hour(option.get("bid")),
        text.place(option) if option.get("provider") else text.NONE,
        "chosen" if option.get("chosen") else answer,
    )
