"""Starting the host program."""

from __future__ import annotations

import os
import sys

from .install import install
from .places import Places

USAGE = "usage: host.pyz install ORDERS_URL | run | stop\n"


def main() -> int:
    places = Places(os.environ)
    try:
        places.make()
        if len(sys.argv) == 3 and sys.argv[1] == "install":
            return install(places, sys.argv[2], os.environ.get("AUTOPILOT_CLOCK_SPEED") or "1")
    except OSError as error:
        sys.stderr.write(f"autopilot: {error}\n")
        return 1
    sys.stderr.write(USAGE)
    return 2
