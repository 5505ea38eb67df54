"""Starting the agent."""

from __future__ import annotations

import sys

from .agent import Agent


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: agent.pyz ORDERS_URL\n")
        return 2
    try:
        agent = Agent(sys.argv[1])
    except BlockingIOError:
        sys.stderr.write("autopilot: an agent already runs on this disk\n")
        return 0
    except (OSError, ValueError) as error:
        sys.stderr.write(f"autopilot: the agent cannot start: {error}\n")
        return 1
    agent.run()
    return 0
