"""What must hold at the end: job done, model right to the bit, no machine left, ledger right to the cent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from autopilot.agent.unpack import unpack
from autopilot.client.answer import Json
from autopilot.domain.money import CENT, ZERO
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.reading import parse_manifest
from autopilot_lab.demo.script import DemoCheck, DemoEnd, Struck
from autopilot_lab.demo.theatre import Theatre

TRAINER = Path(__file__).parents[1] / "sandbox" / "images" / "demo" / "opt" / "demo" / "train.py"


RECKONED_WITHIN, RECKONED_SHARE = timedelta(minutes=2), Decimal("0.05")
"""How far a cost may be off that no bill confirms: a start, an end or a new price is seen so late, or, where the daemon
looks less often than it means to, such a share."""


@dataclass(frozen=True)
class MarketBooks:
    """Where a market's emulator shows what was rented and what it cost. ``instance``, ``is_over`` and ``cost``: keys
    of a row."""

    market: str
    path: str
    instance: str
    is_over: str
    cost: str
    has_bill: bool = True
    """Whether the market has a bill that the ledger takes over. Otherwise it calculates from observed prices."""


BOOKS = {
    "vastai": MarketBooks("vast.ai", "books", "instance_id", "destroyed", "billed"),
    "runpod": MarketBooks("RunPod", "runpod/books", "pod_id", "terminated", "billed"),
    "mithril": MarketBooks("Mithril", "mithril/books", "bid_id", "ended", "total"),
    "nebius": MarketBooks("Nebius", "nebius/books", "vm_id", "ended", "total", has_bill=False),
}


class Reference:
    """The same training without interruption, beside the demo, at a lower priority."""

    def __init__(self, directory: Path, steps: int) -> None:
        self._process = subprocess.Popen(
            [
                "nice",
                "-n",
                "5",
                sys.executable,
                TRAINER,
                "--steps",
                str(steps),
                "--checkpoint",
                directory / "model.json",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def digest(self) -> str:
        """Waits for its end. The last line that the trainer prints ends with the model's SHA-256."""
        output, _ = self._process.communicate()
        return output.split()[-1]

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def checks(theatre: Theatre, job: Json, reference: Reference) -> list[DemoCheck]:
    """What must hold of any job. All checks are made, also if the first ones fail."""
    return [
        DemoCheck("the job succeeded", job["status"] == "succeeded", f"{job['reason']}, step {job['step']:,}"),
        _model(theatre, job, reference),
        _nothing_left(theatre),
        match_books(theatre),
    ]


def all_answered(struck: Sequence[Struck], unanswered: str | None) -> DemoCheck:
    """``unanswered``: what was not, in words."""
    names = ", ".join(each.act.name for each in struck)
    return DemoCheck("every interruption was handled", unanswered is None, unanswered or names)


def _model(theatre: Theatre, job: Json, reference: Reference) -> DemoCheck:
    what = "the model equals that of an uninterrupted run"
    checkpoint = job["checkpoint"]
    if checkpoint is None:
        return DemoCheck(what, False, "there is no checkpoint")
    ours, theirs = _digest(theatre, job["id"], checkpoint), reference.digest()
    return DemoCheck(what, ours == theirs, f"sha256 {ours[:12]}… and {theirs[:12]}…")


def _digest(theatre: Theatre, job_id: str, checkpoint: Json) -> str:
    """The model's SHA-256 as the trainer itself states it for a checkpoint that has no steps left."""
    blobs = theatre.root / "daemon" / "blobs"
    lease_id, number = checkpoint["lease_id"], checkpoint["number"]
    manifest = parse_manifest((blobs / verified_key(job_id, lease_id, number)).read_bytes())
    assert manifest is not None, "the daemon wrote it"
    keys = manifest.part_keys(job_id, lease_id)
    with TemporaryDirectory() as scratch:
        files = unpack(manifest.parts, lambda i: (blobs / keys[i]).open("rb"), Path(scratch))
        model = next(files.rglob("model.json"))
        command = [sys.executable, str(TRAINER), "--steps", "0", "--checkpoint", str(model)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


def _nothing_left(theatre: Theatre) -> DemoCheck:
    rented, left = [], 0
    for books in _books(theatre):
        rows = _rows(theatre, books)
        rented.append(f"{len(rows)} rented on {books.market}")
        left += sum(not row[books.is_over] for row in rows)
    detail = f"{', '.join(rented)}, {left} left"
    return DemoCheck("no machine is left at the markets", left == 0, detail)


def match_books(theatre: Theatre) -> DemoCheck:
    """What each emulator has billed against what the ledger has posted, instance by instance."""
    spent = {row["key"]: row for row in theatre.client.get("/v1/spend", by="instance")["rows"]}
    posted = {key: Decimal(row["posted"]) for key, row in spent.items()}
    unknown = {key for key, dollars in posted.items() if dollars >= CENT / 2}
    apart, details = list[str](), list[str]()
    for books in _books(theatre):
        billed = {str(row[books.instance]): Decimal(row[books.cost]) for row in _rows(theatre, books)}
        unknown -= billed.keys()
        for key, dollars in billed.items():
            off = abs(dollars - posted.get(key, ZERO))
            if off >= (CENT / 2 if books.has_bill else _reckoned_within(spent.get(key))):
                apart.append(key)
        ours = sum((posted.get(key, ZERO) for key in billed), ZERO)
        word = "billed" if books.has_bill else f"metered, no bill, so within 2 min or {RECKONED_SHARE:.0%}"
        details.append(f"{books.market} ${ours:.3f} posted, ${sum(billed.values()):.3f} {word}")
    return DemoCheck("the ledger equals the markets' books", not apart and not unknown, "; ".join(details))


def _reckoned_within(row: Json | None) -> Decimal:
    """$, of a machine's row of spend."""
    if row is None or not row["running_s"]:
        return CENT / 2
    late = Decimal(RECKONED_WITHIN.total_seconds()) / Decimal(row["running_s"])
    return Decimal(row["posted"]) * max(late, RECKONED_SHARE)


def _books(theatre: Theatre) -> list[MarketBooks]:
    return [BOOKS[name] for name in theatre.markets]


def _rows(theatre: Theatre, books: MarketBooks) -> list[Json]:
    return list(theatre.emu(books.path)["books"])


def moved_along(*markets: str) -> Callable[[DemoEnd], DemoCheck]:
    """The job ran on these markets, one after the other."""

    def check(end: DemoEnd) -> DemoCheck:
        used = [lease["provider"] for lease in end.body["leases"] if Decimal(lease["posted"]) > CENT]
        path = tuple(name for name, _ in groupby(used))
        detail = " → ".join(BOOKS[name].market for name in path) or "it ran nowhere"
        return DemoCheck("the job moved from market to market", path == markets, detail)

    return check
