"""The host program as machines get it: one zip file that Python runs, the same bytes for the same sources.

Its modules keep their names: what it has in common with the agent is imported from there, here and on the machine.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from autopilot.agent.artifact import zip_files

PACKAGE = "autopilot.host.shipped"
SHARED = ("disk.py", "job_user.py", "orders.py", "web.py")
"""Modules of the agent that it uses."""
_START = f"import sys\n\nfrom {PACKAGE}.main import main\n\nsys.exit(main())\n"
_ROOMS = ("autopilot", "autopilot/agent", "autopilot/agent/shipped", "autopilot/host", "autopilot/host/shipped")


@cache
def host_source() -> bytes:
    """The file's bytes."""
    agent = resources.files("autopilot.agent.shipped")
    own = resources.files(PACKAGE)
    modules = {entry.name: entry.read_bytes() for entry in own.iterdir() if entry.name.endswith(".py")}
    files = {"__main__.py": _START.encode()} | {f"{room}/__init__.py": b"" for room in _ROOMS}
    files |= {f"autopilot/agent/shipped/{name}": agent.joinpath(name).read_bytes() for name in SHARED}
    files |= {f"autopilot/host/shipped/{name}": modules[name] for name in sorted(modules) if name != "__init__.py"}
    return zip_files(files)


@cache
def host_sha256() -> str:
    return hashlib.sha256(host_source()).hexdigest()


def host_key() -> str:
    """The blob under which this version is published: put ``host_source`` there and sign its GET."""
    return f"host/{host_sha256()}.pyz"
