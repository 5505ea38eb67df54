"""The tunnels as a child of ``autopilot serve``, which holds the other end of their standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autopilot.telemetry.logging import configure_logging
from autopilot.tunnels.place import TunnelsPlace
from autopilot.tunnels.process import run_tunnels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("--log-level", required=True)
    given = parser.parse_args()
    configure_logging(given.log_format, given.log_level)
    run_tunnels(TunnelsPlace(given.place), sys.stdin.fileno())


main()
