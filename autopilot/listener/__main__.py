"""The listener as a child of ``autopilot serve``, which holds the other end of its standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autopilot.blobs.place import MailboxPlace
from autopilot.listener.process import ListenerConfig, end_with, run_listener
from autopilot.telemetry.logging import configure_logging


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("--log-level", required=True)
    given = parser.parse_args()
    end_with(sys.stdin.fileno())
    configure_logging(given.log_format, given.log_level)
    run_listener(ListenerConfig(MailboxPlace(given.place), given.host, given.port, given.token))


main()
