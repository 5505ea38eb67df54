"""A training that saves half a megabyte now and then, says that it is whole, and writes what it does where no machine's
end reaches it: STEP_S WITNESS. It ends with the first save for which there is a file WITNESS.end.

It says so because time is fast here: how long files are at rest cannot be seen among all processes of a busy machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from autopilot import checkpoint

EVERY, SAVED_BYTES = 80, 500_000


def main() -> None:
    step_s, witness = float(sys.argv[1]), Path(sys.argv[2])
    state = Path("ckpt/state")
    state.parent.mkdir(exist_ok=True)
    step = json.loads(state.read_bytes().partition(b"\n")[0]) if state.exists() else 0
    with witness.open("a", buffering=1) as told:
        told.write(f"{time.time():.3f} start {step}\n")
        is_over = False
        while not is_over:
            time.sleep(step_s)
            step += 1
            if step % EVERY == 0:
                is_over = witness.with_suffix(".end").exists()
                state.with_suffix(".new").write_bytes(json.dumps(step).encode() + b"\n" + os.urandom(SAVED_BYTES))
                state.with_suffix(".new").replace(state)
                checkpoint.saved(step=step)
                told.write(f"{time.time():.3f} step {step}\n")


main()
