"""The tunnels as a child of ``autopilot serve``, which holds the other end of their standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autopilot.blobs.place import STARTED, MailboxPlace
from autopilot.telemetry.logging import configure_logging
from autopilot.tunnels.process import TunnelsConfig, run_tunnels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--listener", nargs=2, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("--log-level", required=True)
    given = parser.parse_args()
    configure_logging(given.log_format, given.log_level)
    print("tunnels", STARTED, flush=True)  # noqa: T201 - the daemon waits for this line
    host, port = given.listener
    config = TunnelsConfig(MailboxPlace(given.place), (host, int(port)), given.token)
    run_tunnels(config, sys.stdin.fileno())


main()
