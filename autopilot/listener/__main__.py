"""The listener as a child of ``autopilot serve``, which holds the other end of its standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autopilot.blobs.place import STARTED, MailboxPlace
from autopilot.listener.api_port import ApiConfig
from autopilot.listener.process import ListenerConfig, end_with, run_listener
from autopilot.listener.proxy_port import ProxyConfig
from autopilot.telemetry.logging import configure_logging


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--mailbox", nargs=2)
    parser.add_argument("--api", nargs=2)
    parser.add_argument("--proxy", nargs="+")
    parser.add_argument("--user-header")
    parser.add_argument("--proxy-has-secret", action="store_true")
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--cert", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--token", required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("--log-level", required=True)
    given = parser.parse_args()
    end_with(sys.stdin.fileno())
    configure_logging(given.log_format, given.log_level)
    print("listener", STARTED, flush=True)  # noqa: T201 - the daemon waits for this line, and then for the ports'
    mailbox = None if given.mailbox is None else _address(given.mailbox)
    api = None
    if given.api is not None:
        api = ApiConfig(*_address(given.api), tuple(given.name), given.cert, given.key)
    proxy = None
    if given.proxy is not None:
        at = Path(given.proxy[0]) if len(given.proxy) == 1 else _address(given.proxy)
        proxy = ProxyConfig(at, given.user_header, tuple(given.name), has_secret=given.proxy_has_secret)
    run_listener(ListenerConfig(MailboxPlace(given.place), mailbox, api, proxy, given.token))


def _address(given: list[str]) -> tuple[str, int]:
    return given[0], int(given[1])


main()
