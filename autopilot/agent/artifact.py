"""The agent as machines get it: one zip file that Python runs, the same bytes for the same sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources

PACKAGE = "autopilot_agent"
HELPER = "helper"
"""Directory of the file from which a job imports the modules below."""
HELPERS = ("checkpoint", "training")
_START = f"import sys\n\nfrom {PACKAGE}.main import main\n\nsys.exit(main())\n"
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in it: a zip file knows none before."""


@cache
def agent_source() -> bytes:
    """The file's bytes."""
    shipped = resources.files("autopilot.agent.shipped")
    modules = {entry.name: entry.read_bytes() for entry in shipped.iterdir() if entry.name.endswith(".py")}
    files = {"__main__.py": _START.encode()} | {f"{PACKAGE}/{name}": modules[name] for name in sorted(modules)}
    files |= {f"{HELPER}/autopilot/__init__.py": b""} | {
        f"{HELPER}/autopilot/{name}.py": _helper(name) for name in HELPERS
    }
    return zip_files(files)


def zip_files(files: Mapping[str, bytes]) -> bytes:
    """A zip file that holds these, in their order. Stored: compressors differ from one Python to the next."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, _OLDEST)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, content)
    return out.getvalue()


def _helper(name: str) -> bytes:
    return resources.files("autopilot").joinpath(f"{name}.py").read_bytes()


@cache
def agent_sha256() -> str:
    return hashlib.sha256(agent_source()).hexdigest()


def agent_key() -> str:
    """The blob under which this version of the agent is published: put ``agent_source`` there and sign its GET."""
    return f"agent/{agent_sha256()}.pyz"
