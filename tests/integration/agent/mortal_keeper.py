"""The agent's half of checkpoints as a process that dies at a step: WHAT ORDERS HOME FILES STEP (0: it lives).

A step is any access to the disk or the network: an opened, renamed, linked or removed file, a request, its body.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

STEPS = {
    "http.client.connect",
    "http.client.send",
    "open",
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.utime",
    "shutil.rmtree",
}


def main() -> None:
    from autopilot.agent.shipped.keeper import Keeper
    from autopilot.agent.shipped.log import Log
    from autopilot.agent.shipped.memory import Memory
    from autopilot.agent.shipped.web import Web

    what, orders_path, home, files, dies_at = sys.argv[1:]
    with open(orders_path) as file:
        orders = json.load(file)
    os.makedirs(home, exist_ok=True)
    left = [int(dies_at)]

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event in STEPS and not str(arguments[:1]).startswith("('/proc"):  # what others have open is only looked at
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    sys.addaudithook(count)
    keeper = Keeper(home, Web(), Log(1), Memory(home, os.path.join(home, "container")), lambda: orders, 60)
    if what == "checkpoint":
        keeper.checkpoint(files, 1, None)
    else:
        keeper.restore(files)
    os._exit(0)


main()
