"""The first boot: what the user data has fetched becomes a service that starts at every boot."""

from __future__ import annotations

import os
import subprocess
import sys

from autopilot.agent.shipped.disk import write_json

from .places import UNIT, Places

STOP_S = 55
"""The shortest notice of any market is a minute until the machine is cut off."""

_UNIT = """\
[Unit]
Description=autopilot: brings up and watches the container of a job
# Stopped before docker is: docker kills what runs after a few seconds, too few for a checkpoint. It is wanted, not
# required: at first it may not be installed, and its own restart must not stop this.
After=docker.service network-online.target
Wants=docker.service network-online.target

[Service]
Environment=AUTOPILOT_CLOCK_SPEED={speed}{root}
ExecStart={python} {program} run
ExecStop={python} {program} stop
TimeoutStopSec={stop_s}
KillMode=mixed
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


def install(places: Places, orders_url: str, speed: str, *, stays: bool) -> int:
    """The exit code. Started twice it does the same once more, and one service runs.

    ``stays``: the machine never switches itself off, at any boot.
    """
    write_json(places.notes, {"orders_url": orders_url, "stays": stays})
    os.makedirs(os.path.dirname(places.unit), exist_ok=True)
    root = f" AUTOPILOT_ROOT={places.root}" if places.root else ""
    text = _UNIT.format(speed=speed, root=root, python=sys.executable, program=places.program, stop_s=STOP_S)
    with open(places.unit + ".new", "w") as file:
        file.write(text)
    os.replace(places.unit + ".new", places.unit)
    # Before the container starts, and never after: with some drivers it loses its GPUs by a reload. The start is not
    # waited for: it may have to come after the boot that runs this.
    for command in (["daemon-reload"], ["enable", "--now", "--no-block", UNIT]):
        code = subprocess.call(["systemctl", *command])
        if code:
            return code
    return 0
