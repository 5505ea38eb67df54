"""What the markets' wires have in common: requests, raw answers, and the ways in which an answer gets spoilt."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autopilot.domain.labels import LABEL_PREFIX

Json = dict[str, Any]

STALE_S = 300.0
"""A list may be so old."""


@dataclass(frozen=True, slots=True)
class Request:
    """``kind``: create, list, show, offers, account, inbox, bid, start, stop, destroy, charges, probe, types, and what
    else a market has to ask for."""

    kind: str
    method: str
    path: str
    query: Mapping[str, Any]
    body: Any
    box_id: str = ""
    by_agent: bool = False
    is_look: bool = False
    """A part of a look at one machine: its answer is never taken for the list."""
    part: str = ""
    """Of a list of all machines that is put together from several, the one that this is."""

    @property
    def page(self) -> str:
        """The token of the page of a list; empty for its first."""
        return str(self.query.get("after_token") or self.query.get("next_cursor") or "")


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it goes over the wire. ``message``: of a market that has a form of its own for it."""

    status: int
    text: str
    message: Any = None


def raw(status: int, body: object) -> Raw:
    return Raw(status, json.dumps(body))


class Snapshots:
    """Lists as they were; a stale answer is one of these."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, list[Json]]] = deque()

    def keep(self, now_s: float, rows: list[Json]) -> None:
        self._kept.append((now_s, rows))
        while self._kept[0][0] < now_s - STALE_S:
            self._kept.popleft()

    def one(self, rng: random.Random) -> list[Json]:
        return rng.choice(self._kept)[1]


NOT_A_LIST = (
    "",
    "null",
    "[]",
    '{"success": false, "error": "internal"}',
    "<html><body>Bad gateway</body></html>",
    "{}",
)
UNAUTHORISED = (401, 402, 403)


def drift(row: Json, rng: random.Random, fields: tuple[str, ...]) -> Json:
    """With one field missing, null, renamed, of another type or out of all bounds."""
    field = rng.choice(fields)
    changed = dict(row)
    value = changed.pop(field)
    match rng.randrange(6):
        case 0:
            pass
        case 1:
            changed[field] = None
        case 2:
            changed[field + "_v2"] = value
        case 3:
            changed[field] = [value]
        case 4:
            changed[field] = float("nan")
        case _:
            changed[field] = "1e400"
    return changed


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be found in the rows of a list for it to be read: whose each is, and of ours what it does."""

    whose: str
    """The field with the name by which ours are known."""
    of_any: tuple[str, ...]
    of_ours: tuple[str, ...]
    texts: tuple[str, ...]
    """Fields that accept any text: the list is read, and shows another machine, or an unknown state."""
    nulls: tuple[str, ...] = ()
    """Fields in which null means something."""

    def are_met(self, changed: Json, row: Json) -> bool:
        """Whether a reader can take the list with ``changed``, one field of which has drifted, in ``row``'s place."""
        if not all(self._is_told(field, changed, row) for field in self.of_any):
            return False
        name = changed[self.whose]
        is_ours = isinstance(name, str) and name.startswith(LABEL_PREFIX)
        return not is_ours or all(self._is_told(field, changed, row) for field in self.of_ours)

    def _is_told(self, field: str, changed: Json, row: Json) -> bool:
        if field not in changed:
            return False
        value = changed[field]
        if value is None or value != value:  # to a reader of JSON NaN is null
            return field in self.nulls
        return bool(value == row[field]) or (field in self.texts and isinstance(value, str))


def tear(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(max(len(text), 1))]
