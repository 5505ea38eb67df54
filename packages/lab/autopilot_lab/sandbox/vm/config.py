"""What a virtual machine is made of, and what goes wrong with it. Lies beside its disk, out of its sight."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

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

    def write(self, path: Path) -> None:
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(self)))
        scratch.chmod(0o600)
        os.replace(scratch, path)

    @classmethod
    def read(cls, path: Path) -> VmConfig:
        body = json.loads(path.read_text())
        return cls(**{**body, "private": tuple(PrivateImage(**each) for each in body["private"])})
