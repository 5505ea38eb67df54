"""User data of a virtual machine: the start text with the environment that its market has no other place for."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote


def startup_script(onstart: str, env: Mapping[str, str]) -> str:
    """Markets show it to everyone who may see the machine: no secret belongs here."""
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in sorted(env.items()))
    first, _, rest = onstart.partition("\n")
    if first.startswith("#!"):
        return f"{first}\n{exports}{rest}"
    return f"#!/bin/sh\n{exports}{onstart}"
