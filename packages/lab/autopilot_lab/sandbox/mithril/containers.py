"""Machines of bids as the sandbox's virtual machines: startup script, disk, notice file and console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autopilot_lab.sandbox.mithril.bids import Bid, MachineStatus
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.vm.config import VmConfig
from autopilot_lab.sandbox.vm.machines import VirtualMachines


class LocalMachines:
    """``<state_dir>/mithril/<bid id>``: a bid keeps its disk wherever it wins."""

    def __init__(
        self, state_dir: Path, speed: float, private: tuple[PrivateImage, ...], num_gpus: Callable[[Bid], int]
    ) -> None:
        self._speed = speed
        self._private = private
        self._num_gpus = num_gpus
        self._machines = VirtualMachines(state_dir / "mithril")

    def start(self, bid: Bid) -> None:
        assert bid.machine is not None, "there is a machine to start"
        script, host = bid.order.startup_script, bid.machine.host
        config = VmConfig(script, self._num_gpus(bid), self._speed, self._private, host=host)
        self._machines.start(bid.id, bid.boots, config)

    def warn(self, bid: Bid, status: MachineStatus, bid_status: str, in_s: float) -> None:
        self._machines.give_notice(bid.id, f"STATUS_{status}", bid_status, in_s)

    def withdraw(self, bid: Bid) -> None:
        self._machines.withdraw_notice(bid.id)

    def terminate(self, bid: Bid) -> None:
        self._machines.shut_down(bid.id)

    def kill(self, bid: Bid) -> None:
        self._machines.kill(bid.id)

    def wipe(self, bid: Bid) -> None:
        self._machines.wipe(bid.id)

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._machines.settle()

    async def close(self) -> None:
        """Kill every machine; disks stay."""
        await self._machines.close()
