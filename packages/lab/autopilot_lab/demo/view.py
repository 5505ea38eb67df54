"""The demo on a terminal: live while it runs, plain lines if there is no terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from autopilot.cli.output import facts
from autopilot.client.answer import Json
from autopilot.words import text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINES = 14


class View(Protocol):
    def say(self, line: str) -> None: ...

    def show(self, body: Json, winning_bid: Decimal | None) -> None: ...

    def close(self) -> None: ...


class PlainView:
    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def say(self, line: str) -> None:
        self._write(line)

    def show(self, body: Json, winning_bid: Decimal | None) -> None:
        """Events are said as they come; the status between them is for the live view."""

    def close(self) -> None:
        pass


class LiveView:
    def __init__(self, console: Console, job: str) -> None:
        from rich.live import Live

        self._title = f"job {job}"
        self._lines: deque[str] = deque(maxlen=LINES)
        self._status: RenderableType = ""
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._live.start()

    def say(self, line: str) -> None:
        self._lines.append(line)
        self._refresh()

    def show(self, body: Json, winning_bid: Decimal | None) -> None:
        self._status = render_status(body, winning_bid)
        self._refresh()

    def close(self) -> None:
        self._live.stop()

    def _refresh(self) -> None:
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        log = Text("\n".join(self._lines), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(Panel(self._status, title=self._title), Panel(log, title="what happens")))


def render_status(body: Json, winning_bid: Decimal | None) -> RenderableType:
    job, main = body["job"], body["job"]["main"]
    rows = [("state", f"{job['status']} ({text.plain(job['reason']).replace('_', ' ')})")]
    if main is None:
        rows.append(("machine", "none"))
        rows.append(("bid", "none"))
    else:
        agent = main["agent_state"] or "not yet up"
        machine = f"{main['gpu']} on machine {main['machine_id']}, {main['status']}, agent {agent}"
        rows.append(("machine", machine))
        against = f", against {text.per_hour(str(winning_bid))} to win" if winning_bid is not None else ""
        kind = "bid" if main["capacity_type"] == "spot" else "price"
        on_demand = text.per_hour(main["on_demand_price"])
        rows.append((kind, f"{text.per_hour(main['bid'])}{against}; on demand {on_demand}"))
    share = float(job["progress"] or 0) if job["status"] != "succeeded" else 1.0
    rows.append(("progress", f"{bar(share)} step {job['step']:,}, {text.percent(share)}"))
    spent, budget = Decimal(job["posted"]) + Decimal(job["accrued"]), Decimal(job["budget"])
    rows.append(("spend", f"{bar(float(spent / budget))} {text.money(str(spent), 3)} of {text.money(job['budget'])}"))
    return facts(rows)


def bar(share: float, width: int = 30) -> str:
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "█" * filled + "░" * (width - filled)
