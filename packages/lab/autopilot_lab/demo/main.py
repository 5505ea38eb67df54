"""The demo from curtain to bill."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from autopilot.answers.jobs import Event
from autopilot.answers.money import Spend
from autopilot.cli import money_views
from autopilot.cli.answers import read
from autopilot.cli.output import console
from autopilot.cli.picture import write_picture
from autopilot.client.answer import Json
from autopilot.client.paths import job_path
from autopilot.config.paths import packaged_config
from autopilot.domain.errors import UserError, install_hint
from autopilot.words import text
from autopilot.words.story import IMPLIED, tell, tell_all
from autopilot_lab.demo.script import DemoCheck, DemoEnd, Script, Story, Struck
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import Reference, all_answered, checks
from autopilot_lab.demo.view import LiveView, PlainView, View

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STEPS = 24_000
LOOK_EVERY_S = 0.25
GIVE_UP_AFTER_S = 600.0
UNTOLD = ("checkpoint.verified", "lease.settled")
"""Events that the story at the end leaves out."""
FINAL = ("succeeded", "failed", "cancelled")


def run(
    story: Story, *, keep: bool, seed: int, plain: bool, picture: Path | None = None, job_picture: Path | None = None
) -> int:
    """Play that story; 0 only if every check holds. Raises ``UserError`` if an extra that it needs is missing.

    ``picture``: also write the end as an SVG file. ``job_picture``: and the job, as its page draws it.
    """
    if story.extra is not None and find_spec(story.extra) is None:
        what = f"the SDK of {story.extra.capitalize()}, which this demo plays, is not installed"
        raise UserError(what, hint=install_hint(story.extra))
    # Without this a SIGTERM would end the demo and leave its daemon and its market running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = Path(tempfile.mkdtemp(prefix="autopilot-demo-"))
    theatre = Theatre(root, seed=seed, speed=story.speed, markets=story.markets)
    reference_dir = root / "reference"
    reference_dir.mkdir()
    reference = Reference(reference_dir, STEPS)
    began = time.monotonic()
    out = console()
    view: View = PlainView(out.print) if plain else LiveView(out, story.job)
    try:
        try:
            view.say(f"sandbox markets and daemon start on a clock {story.speed:g} times as fast ({root})")
            theatre.start_market()
            story.set_stage(theatre)
            theatre.start_daemon()
            body, struck, unanswered = _play(story, theatre, view)
        finally:
            view.close()
        results = [all_answered(struck, unanswered), *checks(theatre, body["job"], reference)]
        results += [check(DemoEnd(theatre, body, struck)) for check in story.checks]
        ending = _tell(theatre, body, struck, results)
        out.print(ending, f"took {time.monotonic() - began:.0f} s", sep="\n")
        if picture is not None:
            _draw(picture, ending)
        if job_picture is not None:
            write_picture(theatre.client, body["job"]["id"], job_picture)
        return 0 if all(check.holds for check in results) else 1
    finally:
        reference.stop()
        if keep:
            _say_how_to_go_on(out, theatre, story.job)
        else:
            theatre.stop()
            shutil.rmtree(root, ignore_errors=True)


def _play(story: Story, theatre: Theatre, view: View) -> tuple[Json, tuple[Struck, ...], str | None]:
    """Submit the job, play the acts, wait for the end and the first complete bills.

    Returns the job, the acts that were begun, and what went unanswered.
    """
    job_file = packaged_config().parent / "jobs" / f"{story.job}.toml"
    wish = {"toml": job_file.read_text(), "source": job_file.name, "dry_run": False}
    submitted = theatre.client.post("/v1/jobs", wish)
    reference = submitted["job"]["id"]
    began = datetime.fromisoformat(submitted["job"]["submitted_at"])
    script = Script(theatre, story.acts)
    seq = 0
    give_up = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        body = theatre.client.get(job_path(reference))
        for event in read(list[Event], body["events"]):
            if event.seq > seq:
                seq = event.seq
                if event.name not in IMPLIED:
                    view.say(f"{_since(event.at, began)}  {tell(event)}")
        view.show(body, _winning_bid(theatre, body["job"]["main"]))
        act = script.play(body, theatre.client.market_now())
        if act is not None:
            view.say(f"         ⚡ {act.title}")
        if body["job"]["status"] in FINAL and theatre.client.get("/v1/status")["unbilled_leases"] == 0:
            open_leases = [lease for lease in body["leases"] if lease["state"] not in ("gone", "abandoned")]
            if not open_leases:
                break
        if time.monotonic() > give_up:
            return body, script.struck, "the demo took too long"
        time.sleep(LOOK_EVERY_S)
    if not script.is_over or not script.is_answered(body):
        last = script.struck[-1].act.title if script.struck else "none"
        return body, script.struck, f"the last event was: {last}"
    return body, script.struck, None


def _since(at: datetime, began: datetime) -> str:
    """``0:07``: hours and minutes of market time."""
    minutes = int((at - began).total_seconds()) // 60
    return f"{minutes // 60}:{minutes % 60:02d}"


def _winning_bid(theatre: Theatre, lease: Json | None) -> Decimal | None:
    """What a bid must beat on the lease's machine now; None when no bid would, or when it cannot be story."""
    if lease is None or lease["provider"] != "vastai":
        return None
    machine = next(m for m in theatre.emu("machines")["machines"] if str(m["machine_id"]) == lease["machine_id"])
    rivals = [stranger["bid"] for stranger in machine["strangers"]]
    if None in rivals:
        return None
    return max([Decimal(machine["floor"]), *(Decimal(bid) for bid in rivals)])


def _tell(theatre: Theatre, body: Json, struck: Sequence[Struck], results: list[DemoCheck]) -> RenderableType:
    """What holds and what was saved, then how it came to that."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    marks = {True: ("✔ ", "bold green"), False: ("✘ ", "bold red")}
    return Group(
        *(Text.assemble(marks[check.holds], f"{check.what}: ", (check.detail, "dim")) for check in results),
        Text(f"$ {_savings(body['spend'])}", style="bold green"),
        "",
        Rule("timeline (hours and minutes of market time)", align="left"),
        _story(body, struck),
        "",
        Rule("what it cost, machine by machine", align="left"),
        money_views.spend_table(read(Spend, theatre.client.get("/v1/spend", by="instance")), "instance"),
        Text("each bill is checked again after an hour of market time (autopilot reconcile)", style="dim"),
    )


def _story(body: Json, struck: Sequence[Struck]) -> RenderableType:
    """Each blow, and below it what the daemon did about it."""
    from rich.table import Table
    from rich.text import Text

    began = datetime.fromisoformat(body["job"]["submitted_at"])
    events = [event for event in read(list[Event], body["events"]) if event.name not in UNTOLD]
    rows = [(each.at, "", Text(f"⚡ {each.act.title}", style="yellow")) for each in struck]
    rows += [(line.at, _since(line.at, began), Text(str(line))) for line in tell_all(events)]
    table = Table.grid(padding=(0, 1))
    for _, since, what in sorted(rows, key=lambda row: row[0]):
        table.add_row(since, what)
    return table


def _savings(spend: Json) -> str:
    paid = Decimal(spend["posted"])
    equivalent = spend["on_demand_equivalent"]
    if equivalent is None or Decimal(equivalent) == 0:
        return f"{text.money(str(paid))} paid; no on-demand price was seen to compare with"
    saved = text.percent(str(1 - paid / Decimal(equivalent)))
    return f"saved {saved}: {text.money(str(paid))} paid, the same hours on demand cost {text.money(equivalent)}"


def _draw(picture: Path, ending: RenderableType) -> None:
    from io import StringIO

    from rich.console import Console

    canvas = Console(record=True, width=110, file=StringIO(), highlight=False, markup=False, emoji=False)
    canvas.print(ending)
    svg = canvas.export_svg(title="autopilot demo")
    # rich names web fonts; the picture must open offline, and must request nothing when it is opened.
    picture.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL))


def _say_how_to_go_on(out: Console, theatre: Theatre, job: str) -> None:
    out.print(f"left running in {theatre.root}; to look around:")
    out.print(f"  export AUTOPILOT_API__SOCKET={theatre.client.socket_path}")
    out.print(f"  autopilot ps -a; autopilot show {job}; autopilot why {job}; autopilot spend")
    out.print(f"to end it: kill {' '.join(map(str, theatre.pids))}; rm -r {theatre.root}")
