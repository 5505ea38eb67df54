"""*Decisions*: of all jobs, newest first, each with its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from autopilot.domain.errors import UserError
from autopilot.web import words
from autopilot.web.source import PageSource

KINDS = {
    "": "all",
    "acquire": "rents",
    "change_bid": "bids",
    "promote": "switches",
    "release": "gives up",
    "save_and_stop": "saves",
    "veto": "refused",
}
"""By the topic of an action; ``veto``: what the guard refused."""


class DecisionLine(NamedTuple):
    id: str
    at: str
    job_id: str
    job: str
    sentence: str
    is_refused: bool


@dataclass(frozen=True)
class DecisionsPage:
    now: datetime
    newest_at: datetime | None
    kind: str
    kinds: Mapping[str, str]
    lines: list[DecisionLine]
    older: str | None
    """Where the next page begins."""
    is_first: bool


async def build(source: PageSource, query: Mapping[str, str]) -> DecisionsPage:
    """Raises ``UserError`` for a kind that there is not."""
    kind, before = query.get("kind", ""), query.get("before", "")
    if kind not in KINDS:
        raise UserError(f"no kind {kind!r} of decision", hint=f"one of: {', '.join(filter(None, KINDS))}")
    answer = await source.list_decisions(before, kind)
    lines = [
        DecisionLine(
            each.id,
            words.moment(each.at),
            each.job_id,
            words.plain(each.job),
            words.tell_decision(each),
            bool(each.vetoes) and not each.actions,
        )
        for each in answer.decisions
    ]
    return DecisionsPage(source.now, source.newest_at, kind, KINDS, lines, answer.before, not before)
