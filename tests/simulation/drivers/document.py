"""The tables of docs/research/simulator-catalogue.md: faults, invariants, and what finding the planted bugs took."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.simulation.checks.invariants import CHECKERS
from tests.simulation.drivers.hunt import Catch
from tests.simulation.ground.faults import CATALOGUE
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.bugs import BUGS


def catalogue() -> str:
    rows = ["| row | most | what happens |", "|---|---|---|"]
    for row in CATALOGUE:
        most = f"{row.most:g}" if row.kind.name == "CHANCE" else f"{row.most:g} a day"
        rows.append(f"| {row.id} | {most} | {row.what} |")
    return "\n".join(rows)


def checkers() -> str:
    return "\n".join(["| | what must hold |", "|---|---|", *(f"| {id_} | {what} |" for id_, what in CHECKERS.items())])


def stories() -> str:
    return "\n".join(f"- {name}" for name in STORIES)


def hunted(catches: Iterable[Catch]) -> str:
    rows = ["| planted bug | found by | which fires |", "|---|---|---|"]
    for catch in catches:
        place = catch.place
        where = "not found" if place is None else f"the story *{place.story}*" if place.story else f"seed {place.seed}"
        rows.append(f"| {BUGS[catch.bug].what} | {where} | {', '.join(catch.checkers)} |")
    return "\n".join(rows)


def with_part(text: str, name: str, content: str) -> str:
    """``text`` with the part between the marks of that name replaced. Raises ``ValueError`` without the marks."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"there is no part {name}")
    return marked.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def write(path: Path, catches: Iterable[Catch] | None = None) -> None:
    text = path.read_text()
    for name, content in (("catalogue", catalogue()), ("checkers", checkers()), ("stories", stories())):
        text = with_part(text, name, content)
    if catches is not None:
        text = with_part(text, "planted bugs", hunted(catches))
    path.write_text(text)
