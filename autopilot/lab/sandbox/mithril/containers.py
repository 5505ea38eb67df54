"""Machines as boxes of local processes: startup script, disk, notice file and console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autopilot.lab.sandbox.boxes import Boxes, Launch
from autopilot.lab.sandbox.mithril.bids import Bid

SIGNAL_FILE = "opt/mithril/MITHRIL_SIGNAL.yml"


class LocalMachines:
    """The machines of bids, ``<state_dir>/mithril/<bid id>``: a bid keeps its disk wherever it wins."""

    def __init__(self, state_dir: Path, environment: Callable[[Bid], dict[str, str]]) -> None:
        self._environment = environment
        self._boxes = Boxes(state_dir / "mithril")

    def start(self, bid: Bid) -> None:
        script = bid.order.startup_script or "true"
        # The machine outlives its script, as one does whose image has daemons of its own.
        launch = Launch(image="", command=["sh", "-c", script], env=self._environment(bid), mode="service")
        self._boxes.start(bid.id, bid.boots, launch)

    def notice(self, bid: Bid, text: str | None) -> None:
        path = self.root(bid) / SIGNAL_FILE
        if text is None:
            path.unlink(missing_ok=True)
        elif self.root(bid).is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def terminate(self, bid: Bid) -> None:
        self._boxes.terminate(bid.id)

    def kill(self, bid: Bid) -> None:
        self._boxes.kill(bid.id)

    def wipe(self, bid: Bid) -> None:
        self._boxes.wipe(bid.id)

    def root(self, bid: Bid) -> Path:
        return self._boxes.root(bid.id)

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._boxes.settle()

    async def close(self) -> None:
        """Kill every machine; disks stay."""
        await self._boxes.close()
