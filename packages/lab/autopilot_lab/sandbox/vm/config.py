"""What a virtual machine is made of, and what goes wrong with it. Lies beside its disk, out of its sight."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autopilot_lab.sandbox.host_traits import Boot, HostTraits, Truth
from autopilot_lab.sandbox.private_images import PrivateImage


@dataclass(frozen=True)
class VmConfig:
    user_data: str
    num_gpus: int = 1
    speed: float = 1
    """Market seconds per real second: what systemd and docker wait for goes by it."""
    private: tuple[PrivateImage, ...] = ()
    """Images that registries give out to a login only."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """``docker``: ``inactive`` or ``absent`` at first; ``apt``: ``fail`` or ``hang``; ``gpus``: how many are seen;
    ``pull``: ``hang``, ``missing``, ``full``, ``unavailable`` (once) or ``slow``; ``start``: ``refuse``."""
    host: HostTraits = field(default_factory=HostTraits)
    """What it is on."""

    def write(self, path: Path) -> None:
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(self)))
        scratch.chmod(0o600)
        os.replace(scratch, path)

    @classmethod
    def read(cls, path: Path) -> VmConfig:
        body = json.loads(path.read_text())
        private = tuple(PrivateImage(**each) for each in body["private"])
        return cls(**{**body, "private": private, "host": _read_host(body["host"])})


def _read_host(body: dict[str, Any]) -> HostTraits:
    truth = Truth(**{**body["truth"], "boots": Boot(body["truth"]["boots"])})
    return HostTraits(**{**body, "truth": truth})
