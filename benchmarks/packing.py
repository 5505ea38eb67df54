"""Packing a directory of code, as ``submit`` does it: 10,000 files of 200 MB, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from figures import Figure

FILES, FILE_BYTES = 10_000, 20_000
REPEATS = 5
PACK = """
import re, sys, time
from pathlib import Path
began = time.perf_counter()
from autopilot.agent.pack import pack
from autopilot.code.select import Wanted, select
packed = pack(select(Path(sys.argv[1]), Wanted()).files)
assert packed.contents.file_count == int(sys.argv[2])
took = time.perf_counter() - began
print(took, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024 / 1e6)
"""


def measure(root: Path) -> list[Figure]:
    content = os.urandom(FILE_BYTES)
    for i in range(FILES):
        directory = root / f"package-{i // 100:02}"
        directory.mkdir(exist_ok=True)
        (directory / f"module_{i}.py").write_bytes(i.to_bytes(4, "big") + content[4:])
    runs = [_pack(root) for _ in range(REPEATS + 1)][1:]  # the first one fills the page cache
    return [
        Figure("code of 10,000 files, 200 MB: chosen, read, hashed twice", [run[0] for run in runs], "s", target=3),
        Figure("… memory of the process", [run[1] for run in runs], "MB", target=64),
    ]


def _pack(root: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", PACK, str(root), str(FILES)]
    seconds, megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(megabytes)
