"""What a machine's ``nvidia-smi`` says: of GPUs that are there, missing, in use by others, slowed down, broken, or of a
driver that hangs. Standard library only: it also runs alone, as that program.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

HANGS_S = 3600
KEPT = "machine-traits.json"


@dataclass(frozen=True)
class MachineTraits:
    gpus: int = 1
    memory_mib: int = 24564
    """Of each GPU."""
    used_mib: int = 1
    driver: str = "580.95.05"
    throttle: str = "0x0000000000000001"
    """NVIDIA's bits for why its clock is low; 1: it is idle."""
    ecc_errors: int | None = 0
    """Uncorrected ones; None: GPUs that do not count them."""
    says: str = ""
    """This instead of anything else, as for a GPU that fell off the bus, with exit code 255."""
    hangs: bool = False

    def write_program(self, directory: Path) -> None:
        """``nvidia-smi`` in that directory, which belongs on the machine's PATH."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "traits.json").write_text(json.dumps(asdict(self)))
        program = directory / "nvidia-smi"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{directory}/traits.json" "$@"\n')
        program.chmod(0o755)

    def answer(self, words: list[str]) -> tuple[int, str]:
        if self.hangs:
            time.sleep(HANGS_S)
        if self.says:
            return 255, self.says
        query = next((word.partition("=")[2] for word in words if word.startswith("--query-gpu=")), None)
        if query is None:
            return 0, "\n".join(f"GPU {number}: sandbox (UUID: GPU-{number})" for number in range(self.gpus))
        values = {
            "utilization.gpu": "0",
            "memory.used": str(self.used_mib),
            "memory.total": str(self.memory_mib),
            "driver_version": self.driver,
            "clocks_throttle_reasons.active": self.throttle,
            "ecc.errors.uncorrected.volatile.total": "[N/A]" if self.ecc_errors is None else str(self.ecc_errors),
        }
        unknown = [name for name in query.split(",") if name not in values]
        if unknown:
            return 2, f'Field "{unknown[0]}" is not a valid field to query.'
        if not self.gpus:
            return 6, "No devices were found"
        return 0, "\n".join([", ".join(values[name] for name in query.split(","))] * self.gpus)


def keep_traits(state_dir: Path, traits: MachineTraits | None) -> None:
    """Those of machines that any market starts from now on; None: they have no ``nvidia-smi``."""
    path = state_dir / KEPT
    if traits is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(json.dumps(asdict(traits)))


def read_traits(state_dir: Path) -> MachineTraits | None:
    try:
        return MachineTraits(**json.loads((state_dir / KEPT).read_text()))
    except FileNotFoundError:
        return None


def traits_of(fields: Mapping[str, object]) -> MachineTraits:
    """Raises ``ValueError`` for a name that it does not know."""
    unknown = fields.keys() - MachineTraits.__dataclass_fields__.keys()
    if unknown:
        raise ValueError(f"a machine has no {', '.join(sorted(unknown))}")
    return MachineTraits(**fields)  # type: ignore[arg-type]


def main() -> int:
    code, said = MachineTraits(**json.loads(Path(sys.argv[1]).read_text())).answer(sys.argv[2:])
    print(said)
    return code


if __name__ == "__main__":
    sys.exit(main())
