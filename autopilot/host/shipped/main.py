"""Starting the host program."""

from __future__ import annotations

import os
import sys

from .host import Host, stop
from .install import install
from .places import Places

USAGE = "usage: host.pyz install ORDERS_URL | run | stop\n"


def main() -> int:
    places, words = Places(os.environ), sys.argv[1:]
    speed = os.environ.get("AUTOPILOT_CLOCK_SPEED") or "1"
    try:
        if words[:1] == ["install"] and len(words) == 2:
            places.make()
            return install(places, words[1], speed, stays=bool(os.environ.get("AUTOPILOT_STAYS")))
        if words == ["run"]:
            places.make()
            Host(places, float(speed)).run()
        if words == ["stop"]:
            places.make()
            stop(places)
            return 0
    except BlockingIOError:
        sys.stderr.write("autopilot: the host program already runs on this machine\n")
        return 0
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"autopilot: {type(error).__name__}: {error}\n")
        return 1
    sys.stderr.write(USAGE)
    return 2
