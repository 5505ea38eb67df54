"""What must hold at the end: job done, model right to the bit, no machine left, ledger right to the cent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from autopilot.agent.unpack import unpack
from autopilot.cli.client import Json
from autopilot.domain.money import CENT, ZERO
from autopilot.lab.demo.script import DemoCheck, DemoEnd, Struck
from autopilot.lab.demo.theatre import Theatre
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.reading import parse_manifest

TRAINER = Path(__file__).parents[1] / "sandbox" / "images" / "demo" / "opt" / "demo" / "train.py"


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
    """What must hold of any job, whatever befell it: all of them, whatever the first ones say."""
    return [
        DemoCheck("the job succeeded", job["status"] == "succeeded", f"{job['reason']}, step {job['step']:,}"),
        _model(theatre, job, reference),
        _nothing_left(theatre),
        match_books(theatre),
    ]


def all_answered(struck: Sequence[Struck], unanswered: str | None) -> DemoCheck:
    """``unanswered``: what was not, in words."""
    names = ", ".join(each.act.name for each in struck)
    return DemoCheck("every blow was answered", unanswered is None, unanswered or names)


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
    vast = [row["destroyed_at"] for row in theatre.emu("instances")["instances"]]
    runpod = [row["terminated_at"] for row in theatre.emu("runpod/instances")["instances"]]
    left = [ended for ended in vast + runpod if ended is None]
    detail = f"{len(vast)} rented on vast.ai, {len(runpod)} on RunPod, {len(left)} left"
    return DemoCheck("no machine is left at the markets", not left, detail)


def moved_between(first: str, last: str) -> Callable[[DemoEnd], DemoCheck]:
    """The job began on the one market and ended on the other."""

    def check(ending: DemoEnd) -> DemoCheck:
        used = [lease["provider"] for lease in ending.body["leases"] if Decimal(lease["posted"]) > CENT]
        detail = f"began on {used[0]}, ended on {used[-1]}" if used else "it ran nowhere"
        holds = bool(used) and (used[0], used[-1]) == (first, last)
        return DemoCheck("the job moved from one market to the other", holds, detail)

    return check


def match_books(theatre: Theatre) -> DemoCheck:
    """Both emulators' own bills against what the ledger has posted, instance by instance."""
    billed = {str(row["instance_id"]): Decimal(row["billed"]) for row in theatre.emu("books")["books"]}
    billed |= {row["pod_id"]: Decimal(row["billed"]) for row in theatre.emu("runpod/books")["books"]}
    spend = theatre.client.get("/v1/spend", by="instance")
    posted = {row["key"]: Decimal(row["posted"]) for row in spend["rows"]}
    keys = billed.keys() | posted.keys()
    apart = [key for key in keys if abs(billed.get(key, ZERO) - posted.get(key, ZERO)) >= CENT / 2]
    detail = f"${sum(posted.values()):.3f} posted, ${sum(billed.values()):.3f} billed, {len(billed)} instances"
    return DemoCheck("the ledger equals the markets' bills", not apart, detail)
