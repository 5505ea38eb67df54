"""One assumption about a market, how it is settled, and what else a certification takes of its market."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Step(StrEnum):
    """A step of the script that settles claims, in order; the value is also its name in the ledger."""

    REFUSAL = "refusal"
    RENT = "rent"
    WORK = "work"
    ECHO = "echo"
    RAISE = "raise"
    NUDGE = "nudge"
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


@dataclass(frozen=True, slots=True)
class CertifyFacts:
    """What a certification takes of its market. Without claims it cannot be certified."""

    claims: tuple[MarketClaim, ...] = ()
    budget: str = "$1.00"
    """Enough as a rule: what a hint proposes."""
    max_hourly: Decimal = Decimal("0.60")
    """$/h: it takes about an hour."""
    gpus: tuple[str, ...] = ("RTX 3060", "RTX 3090", "RTX 4090")
    """Small ones that the market has plenty of; the smallest where there are no small ones."""
    bills_traffic: bool = False
    """Whether a pull may show on its bill."""
    address_variables: tuple[str, str] | None = None
    """Of a machine's environment: the one that tells its public address, and how those begin that tell the port there
    of a port within. None: the market tells none this way."""
