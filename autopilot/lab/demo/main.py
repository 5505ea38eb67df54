"""The demo from curtain to bill."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from autopilot.cli import money_views, story, text
from autopilot.cli.client import Json, job_path
from autopilot.cli.output import console
from autopilot.config.paths import packaged_config
from autopilot.lab.demo.script import Script, set_stage
from autopilot.lab.demo.theatre import Theatre
from autopilot.lab.demo.verdict import DemoCheck, Reference, checks, two_markets
from autopilot.lab.demo.view import LiveView, PlainView, View

if TYPE_CHECKING:
    from rich.console import Console

SPEED = 60.0
STEPS = 24_000
LOOK_EVERY_S = 0.25
GIVE_UP_AFTER_S = 300.0
FINAL = ("succeeded", "failed", "cancelled")


def run(*, keep: bool, seed: int, plain: bool, picture: Path | None = None) -> int:
    """Play the demo; 0 only if every check holds. ``picture``: also write the end as an SVG file."""
    # Without this a SIGTERM would end the demo and leave its daemon and its market running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="autopilot-demo-"))
    theatre = Theatre(root, seed=seed, speed=SPEED, markets=("vastai", "runpod"))
    reference_dir = root / "reference"
    reference_dir.mkdir()
    reference = Reference(reference_dir, STEPS)
    began = time.monotonic()
    out = console()
    view: View = PlainView(out.print) if plain else LiveView(out)
    try:
        try:
            view.say(f"sandbox markets and daemon start on a clock {SPEED:g} times as fast ({root})")
            theatre.start_market()
            set_stage(theatre)
            theatre.start_daemon()
            body, unanswered = _play(theatre, view)
        finally:
            view.close()
        results = [*checks(theatre, body["job"], unanswered, reference), two_markets(body["leases"])]
        _report(out, theatre, body, results, time.monotonic() - began)
        if picture is not None:
            _draw(picture, theatre, body, results, time.monotonic() - began)
        return 0 if all(check.holds for check in results) else 1
    finally:
        reference.stop()
        if keep:
            _say_how_to_go_on(out, theatre)
        else:
            theatre.stop()
            shutil.rmtree(root, ignore_errors=True)


def _play(theatre: Theatre, view: View) -> tuple[Json, str | None]:
    """Submit the job, play the acts, wait for the end and the first complete bills.

    Returns the job and what went unanswered.
    """
    job_file = packaged_config().parent / "jobs" / "demo.toml"
    wish = {"toml": job_file.read_text(), "source": job_file.name, "dry_run": False}
    submitted = theatre.client.post("/v1/jobs", wish)
    reference = submitted["job"]["id"]
    began = datetime.fromisoformat(submitted["job"]["submitted_at"])
    script = Script(theatre)
    seq, act = 0, None
    give_up = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        body = theatre.client.get(job_path(reference))
        for event in body["events"]:
            if event["seq"] > seq:
                seq = event["seq"]
                view.say(_line(event, began))
        view.show(body, _winning_bid(theatre, body["job"]["main"]))
        begun = script.play(body)
        if begun is not None:
            act = begun
            view.say(f"           ⚡ {act.title}")
        if body["job"]["status"] in FINAL and theatre.client.get("/v1/status")["unbilled_leases"] == 0:
            open_leases = [lease for lease in body["leases"] if lease["state"] not in ("gone", "abandoned")]
            if not open_leases:
                break
        if time.monotonic() > give_up:
            return body, "the demo took too long"
        time.sleep(LOOK_EVERY_S)
    if not script.is_over or not script.is_answered(body):
        return body, f"the last blow was: {act.title if act else 'none'}"
    return body, None


def _line(event: Json, began: datetime) -> str:
    since = datetime.fromisoformat(event["at"]) - began
    return f"{_show_elapsed(since.total_seconds())}  {story.tell(event)}"


def _show_elapsed(seconds: float) -> str:
    minutes, secs = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{secs:02d}"


def _winning_bid(theatre: Theatre, lease: Json | None) -> Decimal | None:
    """What a bid must beat on the lease's machine now; None when no bid would, or when it cannot be told."""
    if lease is None or lease["provider"] != "vastai":
        return None
    machine = next(m for m in theatre.emu("machines")["machines"] if str(m["machine_id"]) == lease["machine_id"])
    rivals = [stranger["bid"] for stranger in machine["strangers"]]
    if None in rivals:
        return None
    return max([Decimal(machine["floor"]), *(Decimal(bid) for bid in rivals)])


def _report(out: Console, theatre: Theatre, body: Json, results: list[DemoCheck], took_s: float) -> None:
    from rich.rule import Rule

    began = datetime.fromisoformat(body["job"]["submitted_at"])
    out.print(Rule("timeline (market time since the submit)", align="left"))
    for event in body["events"]:
        if event["name"] not in ("checkpoint.verified", "agent.reported"):
            out.print(_line(event, began), no_wrap=True, overflow="ellipsis")
    out.print(Rule("spend", align="left"))
    out.print(money_views.spend_table(theatre.client.get("/v1/spend", by="instance"), "instance"))
    out.print(money_views.spend_table(theatre.client.get("/v1/spend", by="month"), "month"))
    out.print(_savings(body["spend"]))
    out.print("the bills are complete; each is due a second look after an hour of market time (autopilot reconcile)")
    out.print(Rule("checks", align="left"))
    for check in results:
        out.print(f"{'✔' if check.holds else '✘'} {check.what}: {check.detail}")
    out.print(f"took {took_s:.0f} s")


def _savings(spend: Json) -> str:
    paid = Decimal(spend["posted"])
    equivalent = spend["on_demand_equivalent"]
    if equivalent is None or Decimal(equivalent) == 0:
        return "no on-demand price was seen to compare with"
    saved = 1 - paid / Decimal(equivalent)
    return f"the same hours on demand: {text.money(equivalent, 3)}; saved {text.percent(str(saved))}"


def _draw(picture: Path, theatre: Theatre, body: Json, results: list[DemoCheck], took_s: float) -> None:
    from io import StringIO

    from rich.console import Console

    canvas = Console(record=True, width=110, file=StringIO(), highlight=False, markup=False, emoji=False)
    _report(canvas, theatre, body, results, took_s)
    svg = canvas.export_svg(title="autopilot demo")
    # rich names web fonts; the picture must open offline and tell nobody that it was opened.
    picture.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL))


def _say_how_to_go_on(out: Console, theatre: Theatre) -> None:
    out.print(f"left running in {theatre.root}; to look around:")
    out.print(f"  export AUTOPILOT_API__SOCKET={theatre.client.socket_path}")
    out.print("  autopilot ps -a; autopilot show demo; autopilot why demo; autopilot spend")
    out.print(f"to end it: kill {' '.join(map(str, theatre.pids))}; rm -r {theatre.root}")
