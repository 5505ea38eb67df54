"""The customer's machines as the sandbox's virtual machines: user data, disk and console."""

from __future__ import annotations

from pathlib import Path

from autopilot_lab.sandbox.boxes import Ended
from autopilot_lab.sandbox.nebius.vms import Vm
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.vm.config import VmConfig
from autopilot_lab.sandbox.vm.machines import VirtualMachines


class LocalMachines:
    """``<state_dir>/nebius/<id of the machine>``."""

    def __init__(self, state_dir: Path, speed: float, private: tuple[PrivateImage, ...]) -> None:
        self._speed = speed
        self._private = private
        self._machines = VirtualMachines(state_dir / "nebius")

    def start(self, vm: Vm) -> None:
        config = VmConfig(vm.order.user_data, vm.num_gpus, self._speed, self._private, host=vm.host)
        self._machines.start(vm.id, vm.boots, config)

    def terminate(self, vm: Vm) -> None:
        self._machines.shut_down(vm.id)

    def kill(self, vm: Vm) -> None:
        self._machines.kill(vm.id)

    def wipe(self, vm: Vm) -> None:
        self._machines.wipe(vm.id)

    def take_ended(self) -> list[Ended]:
        """Machines that switched off by themselves since the last call."""
        return self._machines.take_ended()

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._machines.settle()

    async def close(self) -> None:
        """Kill every machine; disks stay."""
        await self._machines.close()
