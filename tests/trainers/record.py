"""Run programs, and keep what they print with its times, as an agent sees it: through a pipe, in blocks.

    PYTHON_OF_PACKAGES tests/trainers/record.py OUTPUTS NAME...

One file a program: a line for each block, ``[seconds, "text"]``, and one for each word of truth, ``[seconds, share]``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs.py")


def record(name: str, into: Path) -> int:
    with tempfile.TemporaryDirectory() as directory:
        truth = Path(directory, "truth")
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, "-u", str(PROGRAMS), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, TRUTH=str(truth)),
            cwd=directory,
        )
        assert process.stdout is not None
        kept: list[tuple[float, object]] = []
        while block := os.read(process.stdout.fileno(), 65536):
            kept.append((round(time.time() - began, 2), block.decode("utf-8", "replace")))
        code = process.wait()
        for line in truth.read_text().splitlines() if truth.exists() else ():
            at, share = line.split()
            kept.append((round(float(at) - began, 2), float(share)))
    kept.sort(key=lambda each: each[0])
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept)
    Path(into, f"{name}.jsonl").write_text(text)
    return code


if __name__ == "__main__":
    for each in sys.argv[2:]:
        print(each, record(each, Path(sys.argv[1])), flush=True)
