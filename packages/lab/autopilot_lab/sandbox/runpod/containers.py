"""Pods as boxes of local processes: command, environment, volume and console."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from autopilot_lab.sandbox.boxes import Boxes, Ended, Launch
from autopilot_lab.sandbox.image_traits import traits_of
from autopilot_lab.sandbox.runpod.pods import Pod

_IDLE = ["sleep", "infinity"]
"""What an image without a command of its own does."""


class LocalPods:
    """The containers of pods, ``<state_dir>/pods/<id>``; network volumes lie beside, in ``network-volumes``."""

    def __init__(self, state_dir: Path, environment: Callable[[Pod], dict[str, str]]) -> None:
        """``environment`` gives what the provider sets for a pod, besides paths."""
        self._environment = environment
        self._boxes = Boxes(state_dir / "pods")
        self._network_volumes = state_dir / "network-volumes"
        self._read: dict[str, int] = {}
        """Bytes of each console that were handed out."""
        shutil.rmtree(self._network_volumes, ignore_errors=True)

    def start(self, pod: Pod) -> None:
        volume_id = pod.order.network_volume_id
        launch = Launch(
            image=pod.order.image,
            command=command(pod.order.args, traits_of(pod.order.image).entrypoint),
            env=dict(pod.order.env) | self._environment(pod),
            mount=pod.order.mount if pod.has_volume else None,
            shared=None if volume_id is None else self._network_volumes / volume_id,
        )
        self._boxes.start(pod.id, pod.boots, launch)

    def terminate(self, pod: Pod) -> None:
        self._boxes.terminate(pod.id)

    def kill(self, pod: Pod) -> None:
        self._boxes.kill(pod.id)

    def wipe_container(self, pod: Pod) -> None:
        self._boxes.wipe_container(pod.id)

    def wipe(self, pod: Pod) -> None:
        self._boxes.wipe(pod.id)

    def new_lines(self, pod_id: str) -> list[str]:
        """Whole lines of output since the last call."""
        path, start = self._boxes.console_path(pod_id), self._read.get(pod_id, 0)
        try:
            if path.stat().st_size == start:
                return []
            with path.open("rb") as console:
                console.seek(start)
                output = console.read()
        except FileNotFoundError:
            return []
        complete = output[: output.rfind(b"\n") + 1]
        self._read[pod_id] = start + len(complete)
        return complete.decode(errors="replace").splitlines()

    def exits(self) -> list[Ended]:
        """Containers that ended by themselves since the last call."""
        return self._boxes.take_ended()

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._boxes.settle()

    async def close(self) -> None:
        """Kill every pod; disks stay."""
        await self._boxes.close()


def command(args: str, entrypoint: tuple[str, ...] = ()) -> list[str]:
    """A container's command from ``dockerArgs``: shell words for the image's entrypoint, or JSON
    ``{"entrypoint": […], "cmd": […]}``, which may replace it.
    """
    if not args.strip():
        return [*entrypoint] or _IDLE
    if args.lstrip().startswith("{"):
        try:
            wish = json.loads(args)
        except ValueError:
            wish = None
        if isinstance(wish, dict):
            words = [*(wish.get("entrypoint") or entrypoint), *(wish.get("cmd") or [])]
            return [str(word) for word in words] or _IDLE
    try:
        return [*entrypoint, *shlex.split(args)] or _IDLE
    except ValueError:
        return [*entrypoint, *args.split()]
