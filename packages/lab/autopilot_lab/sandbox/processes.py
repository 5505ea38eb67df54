"""A vast.ai instance's command, environment and disk, as a box of local processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autopilot_lab.sandbox.apart import OwnNetwork
from autopilot_lab.sandbox.boxes import Boxes, Launch
from autopilot_lab.sandbox.logins import SshDoor
from autopilot_lab.sandbox.market.instances import Contract

_LOGIN_RUNTYPES = ("ssh", "jupyter")


@dataclass(frozen=True)
class SshRules:
    """``forwards``: whether instances' SSH servers do. ``serve``: lets the market be called from within a network that
    leads nowhere; returns what ends that. ``host``: where their proxies listen. ``has_names``: they are shown by the
    names that vast.ai gives them, and not by that address."""

    forwards: Callable[[], bool]
    serve: Callable[[OwnNetwork], Callable[[], None]]
    host: str = "127.0.0.1"
    has_names: bool = False


@dataclass(frozen=True)
class ContainerExit:
    instance_id: int
    boot: int
    code: int


class LocalContainers:
    """The containers of vast.ai instances, ``<state_dir>/instances/<id>``. See ``boxes.py``."""

    def __init__(
        self,
        state_dir: Path,
        environment: Callable[[Contract], dict[str, str]],
        ssh: SshRules | None = None,
    ) -> None:
        """``environment`` gives what the provider sets for an instance, besides what is set here. ``ssh`` None: nobody
        can log in, and all instances share the sandbox's network."""
        self._environment = environment
        self._boxes = Boxes(state_dir / "instances")
        self._ssh = ssh
        self._doors: dict[int, tuple[OwnNetwork, SshDoor, Callable[[], None]]] = {}

    def start(self, instance: Contract) -> None:
        network = None if self._ssh is None else self._open_door(instance, self._ssh)
        data_directory = {"DATA_DIRECTORY": str(self.root(instance.id) / "workspace")}
        launch = Launch(
            image=instance.order.image,
            command=_command(instance),
            env=_user_environment(instance) | self._environment(instance) | data_directory,
            mode="service" if (instance.order.runtype or "").startswith(_LOGIN_RUNTYPES) else "container",
            network=network,
        )
        self._boxes.start(str(instance.id), instance.boots, launch)

    def terminate(self, instance_id: int) -> None:
        self._boxes.terminate(str(instance_id))

    def kill(self, instance_id: int) -> None:
        self._boxes.kill(str(instance_id))
        self._close_door(instance_id)

    def wipe(self, instance_id: int) -> None:
        self._boxes.wipe(str(instance_id))
        self._close_door(instance_id)

    def root(self, instance_id: int) -> Path:
        return self._boxes.root(str(instance_id))

    def console(self, instance_id: int) -> bytes:
        """All output so far; empty when there was none."""
        return self._boxes.console(str(instance_id))

    def exits(self) -> list[ContainerExit]:
        """Containers that ended by themselves since the last call."""
        return [ContainerExit(int(ended.key), ended.boot, ended.code) for ended in self._boxes.take_ended()]

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._boxes.settle()

    async def close(self) -> None:
        """Kill every instance; disks stay."""
        await self._boxes.close()
        for instance_id in list(self._doors):
            self._close_door(instance_id)

    def host_key(self, instance_id: int) -> Path:
        return self._boxes.beside(str(instance_id)) / "host_key"

    def _open_door(self, instance: Contract, ssh: SshRules) -> OwnNetwork:
        self._close_door(instance.id)
        network = OwnNetwork()
        home = self._boxes.beside(str(instance.id))
        door = SshDoor(
            home,
            network,
            lambda: tuple(instance.ssh_keys),
            ssh.forwards,
            lambda: self._boxes.namespace(str(instance.id)),
            host=ssh.host,
        )
        self._doors[instance.id] = network, door, ssh.serve(network)
        instance.ssh_host = None if ssh.has_names else ssh.host
        instance.ssh_port = door.port
        return network

    def _close_door(self, instance_id: int) -> None:
        if (opened := self._doors.pop(instance_id, None)) is not None:
            network, door, stop_serving = opened
            stop_serving()
            door.close()
            network.kill_all()
            network.close()


def _command(instance: Contract) -> list[str]:
    order = instance.order
    if order.args:
        return [*([order.onstart] if order.onstart else []), *order.args]
    if order.onstart:
        return ["sh", "-c", order.onstart]
    return ["sleep", "infinity"]


def _user_environment(instance: Contract) -> dict[str, str]:
    """What the customer set; keys like ``-p 8000:8000`` are docker options, not variables."""
    return {key: value for key, value in instance.order.env if not key.startswith("-")}
