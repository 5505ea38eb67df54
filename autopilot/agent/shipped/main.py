"""Starting the agent."""

from __future__ import annotations

import os
import sys

from .agent import Agent
from .surroundings import read_env_file


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: agent.pyz ORDERS_URL\n")
        return 2
    try:
        read_env_file(os.environ)
        agent = Agent(sys.argv[1])
    except BlockingIOError:
        sys.stderr.write("autopilot: an agent already runs on this disk\n")
        return 0
    except (OSError, ValueError) as error:
        sys.stderr.write(f"autopilot: the agent cannot start: {error}\n")
        return 1
    agent.run()
    return 0
