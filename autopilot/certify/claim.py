"""One assumption about a market, and how it is settled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Step(StrEnum):
    """Of the script that settles claims, in their order; the value is also how the ledger calls it."""

    REFUSAL = "refusal"
    RENT = "rent"
    WORK = "work"
    ECHO = "echo"
    RAISE = "raise"
    NUDGE = "nudge"
    LOWER = "lower"
    FLOOR = "floor"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    START = "start"
    END = "end"
    PULL = "pull"
    WATCH = "watch"
    """Beside all the others."""
    BILL = "bill"


HOW: dict[Step, str] = {
    Step.REFUSAL: "bids 60 % of the floor, which must rent nothing",
    Step.RENT: "rents a small machine and looks for its label in the list",
    Step.WORK: "waits for the machine's own report",
    Step.ECHO: "looks at the floor that the search shows of its machine",
    Step.RAISE: "raises the bid by a tenth and reads it back",
    Step.NUDGE: "raises the bid by a tenth of a cent and reads it back",
    Step.LOWER: "lowers the bid to just above the floor and reads it back",
    Step.FLOOR: "bids the floor and watches the machine",
    Step.PAUSE: "bids half the floor and watches the machine",
    Step.RESUME: "bids above the floor again and waits for the machine's report",
    Step.STOP: "has the machine stopped",
    Step.START: "starts the stopped machine by a bid and waits for its report",
    Step.END: "lets the machine's permit run out and watches it go",
    Step.PULL: "rents a machine with a login that its registry must refuse",
    Step.WATCH: "weighs what the market answers to all of its calls",
    Step.BILL: "compares the market's bill with the ledger",
}


@dataclass(frozen=True, slots=True)
class MarketClaim:
    id: str
    """Unique within its market."""
    market: str
    sentence: str
    source: str
    date: str
    """When the source was read or published: YYYY-MM."""
    confidence: Confidence
    tested_by: str
    """How it is tested without an account."""
    step: Step | None
    """The step of a certification that settles it; None: it stays open."""
    changes: str
    """What follows for the user where it does not hold."""
    matters: bool = False
    """To money or to ending machines: while it is broken nothing new is rented, unless it is accepted by name."""


NO_TEST = "no test"
SANDBOX = "the sandbox breaks it"
RENTERS = "other renters' reports"
ASSUMED = "an assumption"
